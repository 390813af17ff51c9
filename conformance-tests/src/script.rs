//! The store that the executor's cases run on: one record under the contract's rules, a clock that a
//! case moves, replies that a case delays or replaces, and a log of all that the executor sent.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use idempotency_core::{
    ClaimOutcome, ClaimRequest, ClaimToken, Clock, CompleteRequest, ErrorKind, FinishOutcome,
    IdempotencyKey, IdempotencyStore, ManualClock, Operation, Record, ReleaseOutcome,
    ReleaseRequest, RenewOutcome, RenewRequest, StoreError, StoreProfile,
    machine::{self, Decision, Now, Write},
};

/// One operation that the executor sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) operation: Operation,
    pub(crate) token: ClaimToken,
    /// On the script's clock.
    pub(crate) at: Duration,
    /// None while it is on its way.
    pub(crate) answered: Option<Duration>,
}

/// What the script does with an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// It answers at once.
    Now,
    /// It does as asked at once, and its reply takes this long.
    After(Duration),
    /// It does as asked, and its reply is lost.
    Lost,
    /// It does nothing and says that it is not available.
    Down,
}

/// Chooses the reply to the `n`th operation of a kind, from 0.
pub(crate) type Plan = fn(Operation, usize) -> Reply;

#[derive(Clone, Debug)]
pub(crate) struct Script(Arc<Inner>);

struct Inner {
    clock: ManualClock,
    plan: Plan,
    profile: StoreProfile,
    records: Mutex<HashMap<IdempotencyKey, Record>>,
    log: Mutex<Vec<Sent>>,
    renewals: AtomicUsize,
    most_renewals: AtomicUsize,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Script")
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Script {
    pub(crate) fn new(plan: Plan) -> Self {
        let mut profile = StoreProfile::new("script");
        profile.remembers_not_started = true;
        Self(Arc::new(Inner {
            clock: ManualClock::new(),
            plan,
            profile,
            records: Mutex::default(),
            log: Mutex::default(),
            renewals: AtomicUsize::new(0),
            most_renewals: AtomicUsize::new(0),
        }))
    }

    pub(crate) fn clock(&self) -> &ManualClock {
        &self.0.clock
    }

    pub(crate) fn now(&self) -> Duration {
        self.0.clock.monotonic()
    }

    /// All that was sent, in order.
    pub(crate) fn log(&self) -> Vec<Sent> {
        lock(&self.0.log).clone()
    }

    /// What was sent of one kind.
    pub(crate) fn sent(&self, operation: Operation) -> Vec<Sent> {
        let mut log = self.log();
        log.retain(|sent| sent.operation == operation);
        log
    }

    /// How many renewals were on their way at once, at most.
    pub(crate) fn most_renewals_at_once(&self) -> usize {
        self.0.most_renewals.load(Ordering::Relaxed)
    }

    /// Forgets every record, as a failover does.
    pub(crate) fn forget(&self) {
        lock(&self.0.records).clear();
    }

    async fn play<A>(
        &self,
        key: &IdempotencyKey,
        sent: Sent,
        decide: impl FnOnce(Option<&Record>, Now) -> Result<Decision<A>, StoreError>,
    ) -> Result<A, StoreError> {
        let operation = sent.operation;
        let index = self.note(sent);
        let number = self.sent(operation).len() - 1;
        let reply = (self.0.plan)(operation, number);
        if reply == Reply::Down {
            return Err(StoreError::new(operation, ErrorKind::Unavailable, "down").without_effect());
        }
        let answer = self.apply(key, decide);
        match reply {
            Reply::After(delay) => self.0.clock.sleep(delay).await,
            Reply::Lost => std::future::pending().await,
            Reply::Now | Reply::Down => {}
        }
        if let Some(sent) = lock(&self.0.log).get_mut(index) {
            sent.answered = Some(self.now());
        }
        answer
    }

    fn note(&self, sent: Sent) -> usize {
        let mut log = lock(&self.0.log);
        log.push(sent);
        log.len() - 1
    }

    fn apply<A>(
        &self,
        key: &IdempotencyKey,
        decide: impl FnOnce(Option<&Record>, Now) -> Result<Decision<A>, StoreError>,
    ) -> Result<A, StoreError> {
        let mut records = lock(&self.0.records);
        let Decision { write, answer } = decide(records.get(key), self.0.clock.now().into())?;
        if let Write::Put(record) = write {
            records.insert(key.clone(), record);
        }
        Ok(answer)
    }

    fn sending(&self, operation: Operation, token: ClaimToken) -> Sent {
        Sent { operation, token, at: self.now(), answered: None }
    }
}

/// Counts a renewal while it is on its way, also when it is dropped there.
struct OnItsWay<'a>(&'a Inner);

impl<'a> OnItsWay<'a> {
    fn new(inner: &'a Inner) -> Self {
        let now = inner.renewals.fetch_add(1, Ordering::Relaxed) + 1;
        inner.most_renewals.fetch_max(now, Ordering::Relaxed);
        Self(inner)
    }
}

impl Drop for OnItsWay<'_> {
    fn drop(&mut self) {
        self.0.renewals.fetch_sub(1, Ordering::Relaxed);
    }
}

#[async_trait]
impl IdempotencyStore for Script {
    async fn claim(&self, request: ClaimRequest<'_>) -> Result<ClaimOutcome, StoreError> {
        let sent = self.sending(Operation::Claim, request.token);
        self.play(request.key, sent, |record, now| machine::claim(record, &request, now)).await
    }

    async fn complete(&self, request: CompleteRequest<'_>) -> Result<FinishOutcome, StoreError> {
        let sent = self.sending(Operation::Complete, request.token);
        let decide = |record: Option<&Record>, now| Ok(machine::complete(record, &request, now));
        self.play(request.key, sent, decide).await
    }

    async fn renew(&self, request: RenewRequest<'_>) -> Result<RenewOutcome, StoreError> {
        let _on_its_way = OnItsWay::new(&self.0);
        let sent = self.sending(Operation::Renew, request.token);
        let decide = |record: Option<&Record>, now| Ok(machine::renew(record, &request, now));
        self.play(request.key, sent, decide).await
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<ReleaseOutcome, StoreError> {
        let sent = self.sending(Operation::Release, request.token);
        let decide = |record: Option<&Record>, now| Ok(machine::release(record, &request, now));
        self.play(request.key, sent, decide).await
    }

    async fn lookup(&self, key: &IdempotencyKey) -> Result<Option<Record>, StoreError> {
        let records = lock(&self.0.records);
        Ok(machine::lookup(records.get(key), self.0.clock.now().into()).cloned())
    }

    fn profile(&self) -> &StoreProfile {
        &self.0.profile
    }
}
