use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use idempotency_core::{
    ClaimOutcome, ClaimRequest, CompleteRequest, ErrorKind, FinishOutcome, IdempotencyKey,
    IdempotencyStore, Operation, Record, ReleaseOutcome, ReleaseRequest, RenewOutcome,
    RenewRequest, StoreError, StoreProfile,
};

use super::Store;

/// What happens to one call on its way to the store and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// It arrives and is answered.
    Deliver,
    /// It arrives after a while and is answered.
    Delay(Duration),
    /// It arrives, and the answer takes a while.
    SlowReply(Duration),
    /// It never arrives; the caller gets an error of unknown effect.
    LoseRequest,
    /// It arrives; the caller gets an error of unknown effect.
    LoseReply,
    /// It never arrives and is never answered.
    Hang,
    /// It is never answered, and arrives after a while.
    ArriveLate(Duration),
    /// It is answered, and a copy arrives after a while.
    ArriveTwice(Duration),
    /// The store refuses it with this kind of error, without effect.
    Refuse(ErrorKind),
}

type Planner = dyn FnMut(Operation) -> Plan + Send;

/// A store behind a network that follows a plan. Counts the calls.
#[derive(Clone)]
pub struct Faulty {
    store: Store,
    planner: Arc<Mutex<Box<Planner>>>,
    calls: Arc<Mutex<Vec<Operation>>>,
}

impl Faulty {
    pub fn new(store: Store, planner: impl FnMut(Operation) -> Plan + Send + 'static) -> Self {
        let planner: Box<Planner> = Box::new(planner);
        Self { store, planner: Arc::new(Mutex::new(planner)), calls: Arc::default() }
    }

    /// A store that can be switched between plans for one operation.
    pub fn for_operation(store: Store, operation: Operation, mut plans: Vec<Plan>) -> Self {
        plans.reverse();
        Self::new(store, move |op| {
            if op == operation { plans.pop().unwrap_or(Plan::Deliver) } else { Plan::Deliver }
        })
    }

    pub fn calls(&self, operation: Operation) -> usize {
        self.calls.lock().unwrap().iter().filter(|op| **op == operation).count()
    }

    async fn deliver<A: Send>(
        &self,
        operation: Operation,
        now: impl Future<Output = Result<A, StoreError>> + Send,
        later: impl Future<Output = ()> + Send + 'static,
    ) -> Result<A, StoreError> {
        self.calls.lock().unwrap().push(operation);
        let plan = (self.planner.lock().unwrap())(operation);
        let lost = || StoreError::new(operation, ErrorKind::Unavailable, "the connection broke");
        let arrive = |after: Duration| {
            tokio::spawn(async move {
                tokio::time::sleep(after).await;
                later.await;
            })
        };
        match plan {
            Plan::Deliver => now.await,
            Plan::Delay(after) => {
                tokio::time::sleep(after).await;
                now.await
            }
            Plan::SlowReply(after) => {
                let answer = now.await;
                tokio::time::sleep(after).await;
                answer
            }
            Plan::LoseRequest => Err(lost()),
            Plan::LoseReply => {
                now.await?;
                Err(lost())
            }
            Plan::Hang => std::future::pending().await,
            Plan::ArriveLate(after) => {
                arrive(after);
                std::future::pending().await
            }
            Plan::ArriveTwice(after) => {
                arrive(after);
                now.await
            }
            Plan::Refuse(kind) => {
                Err(StoreError::new(operation, kind, "as planned").without_effect())
            }
        }
    }
}

impl std::fmt::Debug for Faulty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Faulty")
    }
}

#[async_trait]
impl IdempotencyStore for Faulty {
    async fn claim(&self, request: ClaimRequest<'_>) -> Result<ClaimOutcome, StoreError> {
        let (store, key) = (self.store.clone(), request.key.clone());
        let ClaimRequest { fingerprint, token, lease, retention, takeover, .. } = request;
        let later = async move {
            let key = &key;
            let copy = ClaimRequest { key, fingerprint, token, lease, retention, takeover };
            drop(store.claim(copy).await);
        };
        self.deliver(Operation::Claim, self.store.claim(request), later).await
    }

    async fn complete(&self, request: CompleteRequest<'_>) -> Result<FinishOutcome, StoreError> {
        let (store, key) = (self.store.clone(), request.key.clone());
        let CompleteRequest { token, attempt, fingerprint, retention, .. } = request;
        let response: Bytes = request.response.clone();
        let later = async move {
            let key = &key;
            let copy = CompleteRequest { key, token, attempt, fingerprint, response, retention };
            drop(store.complete(copy).await);
        };
        self.deliver(Operation::Complete, self.store.complete(request), later).await
    }

    async fn renew(&self, request: RenewRequest<'_>) -> Result<RenewOutcome, StoreError> {
        let (store, key) = (self.store.clone(), request.key.clone());
        let RenewRequest { token, attempt, sequence, lease, .. } = request;
        let checkpoint = request.checkpoint.clone();
        let later = async move {
            let key = &key;
            let copy = RenewRequest { key, token, attempt, sequence, lease, checkpoint };
            drop(store.renew(copy).await);
        };
        self.deliver(Operation::Renew, self.store.renew(request), later).await
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<ReleaseOutcome, StoreError> {
        let (store, key) = (self.store.clone(), request.key.clone());
        let ReleaseRequest { token, attempt, release, .. } = request;
        let later = async move {
            let copy = ReleaseRequest { key: &key, token, attempt, release };
            drop(store.release(copy).await);
        };
        self.deliver(Operation::Release, self.store.release(request), later).await
    }

    async fn lookup(&self, key: &IdempotencyKey) -> Result<Option<Record>, StoreError> {
        self.deliver(Operation::Lookup, self.store.lookup(key), async {}).await
    }

    fn profile(&self) -> &StoreProfile {
        self.store.profile()
    }
}
