use std::{
    fmt,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures_util::FutureExt;
use idempotency_core::{
    ClaimOutcome, ClaimRequest, CompleteRequest, Connected, CorruptRecord, ErrorKind,
    FinishOutcome, IdempotencyKey, IdempotencyStore, Namespace, Operation, Record, Release,
    ReleaseOutcome, ReleaseRequest, RenewOutcome, RenewRequest, StorageKey, StoreError,
    StoreProfile, Takeover, machine,
};
use redis::{Cmd, Pipeline, RedisError, RedisResult, Value};

use crate::{
    RedisStoreBuilder,
    answer::{self, Hot},
    error::{classify, is_out_of_memory, is_redirection, is_unknown_syntax, is_worth_another_try},
    link::{Dial, Link},
    replicas::Replicas,
    script::{self, Script},
    watch::Subscriber,
    wire::{self, Name},
};

/// Records in Redis or Valkey: one server, a primary with replicas and Sentinels, or a Cluster.
///
/// Clones share one connection. Any number of tasks use it at the same time.
///
/// # Cancel safety
/// A dropped future leaves the connection in order. What was sent may still be applied, at any time: a
/// command that a stopped server has in its buffer runs when it wakes up (C46: how late is not
/// bounded).
#[derive(Clone)]
pub struct RedisStore {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) link: Link,
    pub(crate) namespace: Namespace,
    timeout: Duration,
    profile: StoreProfile,
    replicas: Option<Replicas>,
    subscriber: Option<Arc<Subscriber>>,
    /// The server does not know `SET` with `NX` and `GET`.
    is_old: AtomicBool,
}

/// Where a record is, and what it has to be called.
pub(crate) struct Place {
    pub(crate) key: StorageKey,
    pub(crate) name: Name,
}

/// What is sent to the server.
enum Request<'a> {
    /// Two commands.
    Hot(&'a Pipeline),
    Script(&'static Script, &'a str, &'a [&'a [u8]]),
}

/// What came back: an error of the server is a reply as well.
struct Reply {
    first: RedisResult<Value>,
    /// Of a second command.
    second: Option<RedisResult<Value>>,
}

impl Reply {
    fn of_pipeline(replies: Vec<Value>) -> Self {
        let mut replies = replies.into_iter().map(Value::extract_error);
        Self { first: replies.next().unwrap_or(Ok(Value::Nil)), second: replies.next() }
    }
}

/// How often an operation is sent when connections break or a server is not ready: one that was
/// promoted a moment ago is found by the second try, one that is down is not waited for.
const TRIES: u32 = 4;

impl RedisStore {
    /// A store at `url` with the default limits.
    ///
    /// # Errors
    /// The URL is refused (`Invalid`), or the server cannot be reached.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Self::builder().connect(url).await
    }

    /// Other limits, another namespace, the application's own connection.
    pub fn builder() -> RedisStoreBuilder {
        RedisStoreBuilder::default()
    }

    pub(crate) fn with(
        config: RedisStoreBuilder,
        link: Link,
        dial: Option<Dial>,
        replicas: Option<Replicas>,
    ) -> Self {
        let RedisStoreBuilder { namespace, timeout, profile, .. } = config;
        let subscriber = dial.map(|dial| Arc::new(Subscriber::new(dial)));
        let is_old = AtomicBool::new(false);
        let inner = Inner { link, namespace, timeout, profile, replicas, subscriber, is_old };
        Self { inner: Arc::new(inner) }
    }

    /// This store with all that it can do besides.
    #[must_use]
    pub fn connected(&self) -> Connected {
        let connected = Connected::new(Arc::new(self.clone()))
            .with_admin(Arc::new(self.clone()))
            .with_doctor(Arc::new(self.clone()));
        match &self.inner.subscriber {
            Some(_) => connected.with_watch(Arc::new(self.clone())),
            None => connected,
        }
    }

    pub(crate) fn place(&self, key: &IdempotencyKey) -> Place {
        let key = self.inner.namespace.storage_key(key);
        let name = Name::of(key.as_str());
        Place { key, name }
    }

    pub(crate) fn subscriber(&self) -> Option<&Arc<Subscriber>> {
        self.inner.subscriber.as_ref()
    }

    /// Runs a script on the key of `place`.
    pub(crate) async fn run(
        &self,
        operation: Operation,
        script: &'static Script,
        place: &Place,
        arguments: &[&[u8]],
    ) -> Result<Value, StoreError> {
        let request = Request::Script(script, place.key.as_str(), arguments);
        let reply = self.within_timeout(operation, self.send(operation, &request)).await?;
        reply.first.map_err(|error| self.classify(operation, &error))
    }

    /// Answers an error when nothing came back in time (C51).
    ///
    /// No `async fn`, which would keep `work` twice: these futures are large as it is.
    pub(crate) fn within_timeout<T>(
        &self,
        operation: Operation,
        work: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> impl Future<Output = Result<T, StoreError>> + Send {
        let timeout = self.inner.timeout;
        tokio::time::timeout(timeout, work).map(move |ended| {
            ended.unwrap_or_else(|_| {
                // it may hang for ever, or the server behind it may have been replaced
                self.inner.link.give_up_connection();
                let detail = format!("no reply within {timeout:?}");
                let error = StoreError::new(operation, ErrorKind::Timeout, detail);
                let only_reads =
                    matches!(operation, Operation::Lookup | Operation::List | Operation::Doctor);
                Err(if only_reads { error.without_effect() } else { error })
            })
        })
    }

    /// Sends, and sends again where that can help: all operations may be repeated, except those of
    /// operators, whose second copy would answer that the record has changed.
    async fn send(&self, operation: Operation, request: &Request<'_>) -> Result<Reply, StoreError> {
        let may_repeat = !matches!(operation, Operation::Settle | Operation::Remove);
        let mut may_have_happened = false;
        let mut tries = 1;
        loop {
            let error = match self.send_once(request).await {
                Ok(reply) => match &reply.first {
                    Err(error) if is_worth_another_try(error) && !is_redirection(error) => {
                        error.clone()
                    }
                    _ => return Ok(reply),
                },
                // one command alone gets through
                Err(error) if matches!(request, Request::Hot(_)) && is_redirection(&error) => {
                    return Ok(Reply { first: Err(error), second: None });
                }
                Err(error) => error,
            };
            let classified = self.classify(operation, &error);
            let again = is_worth_another_try(&error);
            if again {
                self.inner.link.give_up_connection();
            }
            let unknown = classified.effect() == idempotency_core::Effect::Unknown;
            if !again || tries == TRIES || !may_repeat && unknown {
                return Err(if may_have_happened && !unknown {
                    StoreError::new(
                        operation,
                        classified.kind(),
                        "an earlier try broke off, this one was refused",
                    )
                    .with_source(classified)
                } else {
                    classified
                });
            }
            may_have_happened |= unknown;
            let longest = 20_u64 << tries;
            tries += 1;
            tokio::time::sleep(Duration::from_millis(fastrand::u64(longest / 2..longest))).await;
        }
    }

    async fn send_once(&self, request: &Request<'_>) -> RedisResult<Reply> {
        match request {
            Request::Hot(commands) => {
                self.inner.link.pipeline(commands).await.map(Reply::of_pipeline)
            }
            Request::Script(script, key, arguments) => {
                let first = self.inner.link.script(script, key, arguments).await?;
                Ok(Reply { first: Ok(first), second: None })
            }
        }
    }

    /// Where the driver sends again by itself, an error says nothing of the tries before.
    fn classify(&self, operation: Operation, error: &RedisError) -> StoreError {
        let error = classify(operation, error);
        let says_all =
            matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Denied | ErrorKind::Invalid);
        if self.inner.link.sends_again() && !says_all {
            let detail = "the Cluster could not answer; an earlier try may have been applied";
            return StoreError::new(operation, error.kind(), detail).with_source(error);
        }
        error
    }

    /// What the failure of a command that only reads means. A connection that broke is given up: whoever comes
    /// next dials.
    pub(crate) fn failed_to_read(&self, operation: Operation, error: &RedisError) -> StoreError {
        if is_worth_another_try(error) {
            self.inner.link.give_up_connection();
        }
        classify(operation, error).without_effect()
    }

    /// Gives a connection up whose replies are not those that were asked for (C35).
    pub(crate) fn in_step<T>(&self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        let is_out_of_step = |error: &StoreError| match error.kind() {
            ErrorKind::Unexpected => error.effect() == idempotency_core::Effect::Unknown,
            // of another key: it may be kept there, or it was meant for somebody else
            ErrorKind::Corrupt => {
                let cause = std::error::Error::source(error);
                let cause = cause.and_then(|cause| cause.downcast_ref::<CorruptRecord>());
                error.effect() == idempotency_core::Effect::Unknown
                    || cause == Some(&CorruptRecord::OtherKey)
            }
            _ => false,
        };
        if answer.as_ref().is_err_and(is_out_of_step) {
            self.inner.link.give_up_connection();
        }
        answer
    }

    /// Without a script: `SET … NX GET PX` and `PTTL`, sent together, decide everything but a take-over.
    async fn claim_hot(
        &self,
        request: &ClaimRequest<'_>,
        place: &Place,
        value: &[u8],
        life: &[u8],
    ) -> Result<Hot, StoreError> {
        let commands = hot_commands(place.key.as_str(), value, life);
        let reply = self.send(Operation::Claim, &Request::Hot(&commands)).await?;
        match (reply.first, reply.second) {
            (Ok(set), Some(Ok(left))) => answer::hot_claim(request, place.name, [set, left]),
            (Ok(Value::Nil), Some(Err(_))) => {
                answer::hot_claim(request, place.name, [Value::Nil, Value::Nil])
            }
            (Err(error), _) if is_unknown_syntax(&error) => {
                self.inner.is_old.store(true, Ordering::Relaxed);
                Ok(Hot::AskTheScript)
            }
            // a full server refuses `SET` before it looks for the key, and runs scripts that only read
            (Err(error), _) if is_redirection(&error) || is_out_of_memory(&error) => {
                Ok(Hot::AskTheScript)
            }
            (Err(error), _) => Err(self.classify(Operation::Claim, &error)),
            // the second of the two was refused, as it is while a slot moves to another node
            (Ok(_), _) => Ok(Hot::AskTheScript),
        }
    }

    async fn claim_once(&self, request: &ClaimRequest<'_>) -> Result<ClaimOutcome, StoreError> {
        let place = self.place(request.key);
        let value = wire::first_attempt(place.name, request);
        let life = wire::millis(wire::life_of_claim(request)).to_string();
        if !self.inner.is_old.load(Ordering::Relaxed) {
            let hot = self.claim_hot(request, &place, &value, life.as_bytes()).await;
            if let Hot::Answer(outcome) = self.in_step(hot)? {
                return Ok(outcome);
            }
        }
        // boxed, so that the hot path is not as large as this one
        Box::pin(self.claim_by_script(request, &place, &value, life.as_bytes())).await
    }

    async fn claim_by_script(
        &self,
        request: &ClaimRequest<'_>,
        place: &Place,
        value: &[u8],
        life: &[u8],
    ) -> Result<ClaimOutcome, StoreError> {
        let may_take_over: &[u8] = match request.takeover {
            Takeover::Allow => b"1",
            Takeover::Refuse => b"0",
        };
        let arguments = [value, life, may_take_over];
        let asked = Request::Script(&script::CLAIM, place.key.as_str(), &arguments);
        let reply = self.send(Operation::Claim, &asked).await?.first;
        let reply = reply.map_err(|error| self.classify(Operation::Claim, &error))?;
        self.in_step(answer::claim(request, place.name, reply))
    }
}

/// Of the size they will have: nothing is moved while they are put together.
fn hot_commands(key: &str, value: &[u8], life: &[u8]) -> Pipeline {
    let mut set = Cmd::with_capacity(7, key.len() + value.len() + life.len() + 16);
    set.arg("SET").arg(key).arg(value).arg("NX").arg("GET").arg("PX").arg(life);
    let mut pttl = Cmd::with_capacity(2, key.len() + 4);
    pttl.arg("PTTL").arg(key);
    let mut commands = Pipeline::with_capacity(2);
    commands.add_command(set).add_command(pttl).ignore_errors();
    commands
}

#[async_trait]
impl IdempotencyStore for RedisStore {
    async fn claim(&self, request: ClaimRequest<'_>) -> Result<ClaimOutcome, StoreError> {
        self.within_timeout(Operation::Claim, async {
            let outcome = self.claim_once(&request).await?;
            if let (ClaimOutcome::Acquired(_), Some(replicas)) = (&outcome, &self.inner.replicas) {
                Box::pin(replicas.have_it()).await?;
            }
            Ok(outcome)
        })
        .await
    }

    async fn complete(&self, request: CompleteRequest<'_>) -> Result<FinishOutcome, StoreError> {
        self.profile().check_response(&request.response)?;
        let place = self.place(request.key);
        let value = wire::completed(place.name, &request);
        let life = wire::millis(request.retention.get()).to_string();
        let arguments: [&[u8]; 2] = [&value, life.as_bytes()];
        let reply = self.run(Operation::Complete, &script::COMPLETE, &place, &arguments).await?;
        self.in_step(answer::complete(place.name, reply))
    }

    async fn renew(&self, request: RenewRequest<'_>) -> Result<RenewOutcome, StoreError> {
        self.profile().check_checkpoint(request.checkpoint.as_ref())?;
        let place = self.place(request.key);
        let checkpoint = request.checkpoint.as_deref().map(wire::payload).unwrap_or_default();
        let lease = wire::millis(request.lease.get()).to_string();
        let arguments: [&[u8]; 5] = [
            &place.name.mark(),
            &wire::holder(request.token, request.attempt),
            &request.sequence.get().to_be_bytes(),
            lease.as_bytes(),
            &checkpoint,
        ];
        let reply = self.run(Operation::Renew, &script::RENEW, &place, &arguments).await?;
        self.in_step(answer::renew(place.name, reply))
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<ReleaseOutcome, StoreError> {
        let place = self.place(request.key);
        let release: &[u8] = match request.release {
            Release::NotStarted => b"N",
            Release::Failed => b"F",
            Release::Unknown => b"U",
        };
        let holder = wire::holder(request.token, request.attempt);
        let arguments: [&[u8]; 3] = [&place.name.mark(), &holder, release];
        let reply = self.run(Operation::Release, &script::RELEASE, &place, &arguments).await?;
        self.in_step(answer::release(place.name, reply))
    }

    async fn lookup(&self, key: &IdempotencyKey) -> Result<Option<Record>, StoreError> {
        let place = self.place(key);
        let mark = place.name.mark();
        let reply = self.run(Operation::Lookup, &script::LOOKUP, &place, &[&mark]).await?;
        let found = self.in_step(answer::lookup(Operation::Lookup, place.name, reply))?;
        let found = found.as_ref();
        let shown = found.and_then(|(record, now)| machine::lookup(Some(record), (*now).into()));
        Ok(shown.cloned())
    }

    fn profile(&self) -> &StoreProfile {
        &self.inner.profile
    }
}

/// Shows nothing of where the server is.
impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("link", &self.inner.link)
            .field("namespace", &self.inner.namespace)
            .field("timeout", &self.inner.timeout)
            .finish_non_exhaustive()
    }
}
