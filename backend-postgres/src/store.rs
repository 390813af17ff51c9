use std::{fmt, pin::pin, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use idempotency_core::{
    Acquired, AttemptNumber, ClaimOutcome, ClaimRequest, CompleteRequest, Connected, ErrorKind,
    FinishOutcome, IdempotencyKey, IdempotencyStore, Namespace, Operation, Record, Release,
    ReleaseOutcome, ReleaseRequest, RenewOutcome, RenewRequest, Running, State, StoreError,
    StoreProfile, Takeover,
    machine::{self, Decision, Write},
};
use sqlx::{PgPool, Postgres, Row, postgres::PgArguments, query::Query};

use crate::{
    PostgresStoreBuilder,
    call::{Caller, pause},
    error,
    group::{self, Claiming, Completing, Group},
    names::Names,
    sql::Statements,
    watch::Listening,
    wire::{self, Reply, Verdict},
};

/// A store in a table of `PostgreSQL`. Clones share everything.
///
/// Every operation is one statement, which the server runs as a transaction of its own.
///
/// # Cancel safety
/// A dropped operation may have been applied, or be applied a little later. Its connection is drained
/// in the background before the pool gives it to anybody else.
#[derive(Clone)]
pub struct PostgresStore {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) caller: Caller,
    pub(crate) names: Names,
    pub(crate) namespace: Namespace,
    pub(crate) statements: Statements,
    pub(crate) lock_ms: i32,
    pub(crate) profile: StoreProfile,
    pub(crate) listening: Option<Listening>,
    groups: Option<Groups>,
}

/// Those who share statements.
#[derive(Default)]
struct Groups {
    claims: Group<Claiming>,
    completions: Group<Completing>,
}

/// How often a decision is asked for again, when the row changes between two looks of a function.
const MAX_ROUNDS: u32 = 8;

impl PostgresStore {
    /// A store over the application's own pool, in the table `public.idempotency_keys`.
    #[must_use]
    pub fn new(pool: PgPool) -> Self {
        Self::builder().build(pool)
    }

    /// A store with a pool of its own, in the table `public.idempotency_keys`.
    ///
    /// # Errors
    /// The URL is wrong, the server cannot be reached, or the table is not set up.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Self::builder().connect(url).await
    }

    /// Another table, other limits.
    pub fn builder() -> PostgresStoreBuilder {
        PostgresStoreBuilder::default()
    }

    pub(crate) fn with(config: PostgresStoreBuilder, pool: PgPool) -> Self {
        let lock_timeout =
            config.lock_timeout.min(config.timeout / 2).max(Duration::from_millis(1));
        let listening = config.listen.then(|| Listening::new(&pool, &config.names));
        let inner = Inner {
            statements: Statements::new(&config.names),
            caller: Caller {
                pool,
                timeout: config.timeout,
                spares: config.owns_pool.then(Arc::default),
            },
            names: config.names,
            namespace: config.namespace,
            lock_ms: i32::try_from(lock_timeout.as_millis()).unwrap_or(i32::MAX),
            profile: config.profile,
            listening,
            groups: config.group_commit.then(Groups::default),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The pool.
    pub fn pool(&self) -> &PgPool {
        &self.inner.caller.pool
    }

    /// This store with everything else it can do.
    #[must_use]
    pub fn connected(&self) -> Connected {
        let connected = Connected::new(Arc::new(self.clone()))
            .with_admin(Arc::new(self.clone()))
            .with_sweep(Arc::new(self.clone()))
            .with_schema(Arc::new(self.clone()))
            .with_doctor(Arc::new(self.clone()));
        match self.inner.listening {
            Some(_) => connected.with_watch(Arc::new(self.clone())),
            None => connected,
        }
    }
}

impl Inner {
    pub(crate) async fn claim_alone(
        &self,
        request: &ClaimRequest<'_>,
    ) -> Result<ClaimOutcome, StoreError> {
        let place = self.namespace.storage_key(request.key);
        let fingerprint = request.fingerprint.to_stored_bytes();
        for round in 0..MAX_ROUNDS {
            let query = || {
                sqlx::query(self.statements.claim.safe())
                    .bind(place.as_str())
                    .bind(fingerprint.as_slice())
                    .bind(wire::token(request.token))
                    .bind(wire::millis(request.lease.get()))
                    .bind(wire::millis(request.retention.get()))
                    .bind(request.takeover == Takeover::Allow)
                    .bind(self.lock_ms)
            };
            let row = self.caller.row(Operation::Claim, &query).await?;
            let reply = Reply::read(Operation::Claim, &row, &place)?;
            if let Some(outcome) = claim_outcome(request, &reply)? {
                return Ok(outcome);
            }
            pause(round).await;
        }
        Err(error::conflict(Operation::Claim))
    }

    async fn complete_alone(
        &self,
        request: &CompleteRequest<'_>,
    ) -> Result<FinishOutcome, StoreError> {
        let place = self.namespace.storage_key(request.key);
        let fingerprint = request.fingerprint.to_stored_bytes();
        // no decision depends on the bytes
        let asked = CompleteRequest { response: Bytes::new(), ..request.clone() };
        let query = || {
            sqlx::query(self.statements.complete.safe())
                .bind(place.as_str())
                .bind(wire::token(request.token))
                .bind(i64::from(request.attempt.get()))
                .bind(fingerprint.as_slice())
                .bind(request.response.as_ref())
                .bind(wire::millis(request.retention.get()))
                .bind(false)
                .bind(self.lock_ms)
        };
        let written = |reply: &Reply| match reply.verdict {
            Verdict::WrittenAnew => FinishOutcome::Restored,
            _ => FinishOutcome::Done,
        };
        let decide = |record: Option<&Record>, reply: &Reply| {
            machine::complete(record, &asked, reply.at.into())
        };
        self.settle_on(Operation::Complete, request.key, query, written, decide).await
    }

    /// Asks until a function and [`machine`] agree: what the function has seen may have changed since
    /// it decided not to write.
    async fn settle_on<'q, A>(
        &self,
        operation: Operation,
        key: &IdempotencyKey,
        query: impl Fn() -> Query<'q, Postgres, PgArguments> + Send + Sync,
        written: impl Fn(&Reply) -> A + Send + Sync,
        decide: impl Fn(Option<&Record>, &Reply) -> Decision<A> + Send + Sync,
    ) -> Result<A, StoreError> {
        let place = self.namespace.storage_key(key);
        for round in 0..MAX_ROUNDS {
            let row = self.caller.row(operation, &query).await?;
            let reply = Reply::read(operation, &row, &place)?;
            if matches!(reply.verdict, Verdict::Written | Verdict::WrittenAnew) {
                return Ok(written(&reply));
            }
            let decision = decide(reply.record(operation)?, &reply);
            if let Write::Keep = decision.write {
                return Ok(decision.answer);
            }
            pause(round).await;
        }
        Err(error::conflict(operation))
    }
}

/// The answer to a claim. None: it has to be asked for again.
fn claim_outcome(
    request: &ClaimRequest<'_>,
    reply: &Reply,
) -> Result<Option<ClaimOutcome>, StoreError> {
    let record = reply.record(Operation::Claim)?;
    match (reply.verdict, record) {
        (Verdict::Written | Verdict::WrittenAnew, None) => {
            Ok(Some(ClaimOutcome::Acquired(Acquired {
                attempt: AttemptNumber::FIRST,
                lease_remaining: request.lease.get(),
                checkpoint: None,
                first_attempt_ago: Duration::ZERO,
            })))
        }
        (Verdict::Locked, Some(record)) => Ok(Some(locked(record, reply))),
        // a row that was written is read back by the rules: its token is the caller's own
        (_, record) => {
            let decision = machine::claim(record, request, reply.at.into())?;
            Ok(match decision.write {
                Write::Keep => Some(decision.answer),
                Write::Put(_) => None,
            })
        }
    }
}

/// A transaction that holds the row is alive, whatever the lease says.
fn locked(record: &Record, reply: &Reply) -> ClaimOutcome {
    let lease_remaining = match record.state {
        State::InProgress { lease_until, .. } => lease_until.since(reply.at),
        _ => Duration::ZERO,
    };
    ClaimOutcome::InProgress(Running {
        attempt: record.attempt,
        running_for: reply.at.since(record.claimed_at),
        lease_remaining,
    })
}

/// Shows where the records are, nothing of them, and nothing of the connection.
impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore")
            .field("table", &self.inner.names)
            .field("namespace", &self.inner.namespace)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl IdempotencyStore for PostgresStore {
    async fn claim(&self, request: ClaimRequest<'_>) -> Result<ClaimOutcome, StoreError> {
        let inner = &self.inner;
        let alone = pin!(inner.claim_alone(&request));
        let Some(groups) = &inner.groups else {
            return alone.await;
        };
        let member = || Claiming::new(&inner.namespace, &request);
        let read = |reply: &Reply| claim_outcome(&request, reply);
        groups.claims.share(inner, member, read, alone).await
    }

    async fn complete(&self, request: CompleteRequest<'_>) -> Result<FinishOutcome, StoreError> {
        let inner = &self.inner;
        inner.profile.check_response(&request.response)?;
        let alone = pin!(inner.complete_alone(&request));
        // a long answer has little from sharing a commit, and the others would wait for it
        let groups = inner.groups.as_ref().filter(|_| request.response.len() <= group::HEAVIEST);
        let Some(groups) = groups else {
            return alone.await;
        };
        let member = || Completing::new(&inner.namespace, &request);
        let read =
            |reply: &Reply| Ok((reply.verdict == Verdict::Written).then_some(FinishOutcome::Done));
        groups.completions.share(inner, member, read, alone).await
    }

    async fn renew(&self, request: RenewRequest<'_>) -> Result<RenewOutcome, StoreError> {
        self.inner.profile.check_checkpoint(request.checkpoint.as_ref())?;
        let place = self.inner.namespace.storage_key(request.key);
        let query = || {
            sqlx::query(self.inner.statements.renew.safe())
                .bind(place.as_str())
                .bind(wire::token(request.token))
                .bind(i64::from(request.attempt.get()))
                .bind(wire::sequence(request.sequence.get()))
                .bind(wire::millis(request.lease.get()))
                .bind(request.checkpoint.as_deref())
                .bind(self.inner.lock_ms)
        };
        let written = |reply: &Reply| RenewOutcome::Held {
            lease_remaining: reply.lease_until.map_or(Duration::ZERO, |end| end.since(reply.at)),
        };
        let decide = |record: Option<&Record>, reply: &Reply| {
            machine::renew(record, &request, reply.at.into())
        };
        self.inner.settle_on(Operation::Renew, request.key, query, written, decide).await
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<ReleaseOutcome, StoreError> {
        let place = self.inner.namespace.storage_key(request.key);
        let how: i16 = match request.release {
            Release::NotStarted => 0,
            Release::Failed => 1,
            Release::Unknown => 2,
        };
        let query = || {
            sqlx::query(self.inner.statements.release.safe())
                .bind(place.as_str())
                .bind(wire::token(request.token))
                .bind(i64::from(request.attempt.get()))
                .bind(how)
                .bind(self.inner.lock_ms)
        };
        let written = |_: &Reply| ReleaseOutcome::Released;
        let decide = |record: Option<&Record>, reply: &Reply| {
            machine::release(record, &request, reply.at.into())
        };
        self.inner.settle_on(Operation::Release, request.key, query, written, decide).await
    }

    async fn lookup(&self, key: &IdempotencyKey) -> Result<Option<Record>, StoreError> {
        let reply = self.inner.look(Operation::Lookup, key).await?;
        let record = reply.record(Operation::Lookup)?;
        Ok(machine::lookup(record, reply.at.into()).cloned())
    }

    fn profile(&self) -> &StoreProfile {
        &self.inner.profile
    }
}

impl Inner {
    /// What is there now, from the primary.
    pub(crate) async fn look(
        &self,
        operation: Operation,
        key: &IdempotencyKey,
    ) -> Result<Reply, StoreError> {
        let place = self.namespace.storage_key(key);
        let query = || sqlx::query(self.statements.lookup.safe()).bind(place.as_str());
        let looked = self.caller.row(operation, &query).await;
        let row = looked.map_err(StoreError::without_effect)?;
        let broken = |source| error::classify(operation, source).without_effect();
        let standby: bool = row.try_get(row.len() - 1).map_err(broken)?;
        if standby {
            let detail = "the server is a standby: its records are late";
            let error = StoreError::new(operation, ErrorKind::Unavailable, detail);
            return Err(error.without_effect());
        }
        Reply::read(operation, &row, &place).map_err(StoreError::without_effect)
    }
}
