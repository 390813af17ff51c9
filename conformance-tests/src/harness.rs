use std::{any::Any, fmt, future::Future, net::SocketAddr, time::Duration};

use idempotency_core::{
    Connected, Idempotency, IdempotencyBuilder, IdempotencyKey, ManualClock, Namespace,
    StoreProfile,
};

/// Why a harness could not do its part. `?` makes one from any error.
pub type HarnessError = Box<dyn std::error::Error + Send + Sync>;

/// What the suite asks of whoever has a store: [`fresh`](Self::fresh) and
/// [`profile`](Self::profile), and a few optional hooks for what a store cannot be asked for.
///
/// Write the methods as plain `async fn`; the declared form only promises that the futures are
/// `Send`. A case that needs a hook which is not there fails, unless
/// [`leaves_out`](Self::leaves_out) names the hook: nothing is skipped silently.
pub trait Harness: Send + Sync + 'static {
    /// The store, or a [`Connected`] with what else it can do.
    type Store: Into<Connected> + Send;

    /// A store of a namespace that nobody has used: [`unique_namespace`] makes one. The suite
    /// never wipes anything, so a shared server will do.
    ///
    /// # Errors
    /// There is no store to be had; the case fails.
    fn fresh(&self) -> impl Future<Output = Result<Fixture<Self::Store>, HarnessError>> + Send;

    /// What the store must say that it promises.
    fn profile(&self) -> StoreProfile;

    /// The hooks that this harness does without. Cases that need them are skipped, by name.
    fn leaves_out(&self) -> &'static [Hook] {
        &[]
    }

    /// Lets time pass on the store's clock; sleeps unless overridden. A fixture with a
    /// [`ManualClock`] does not come here. Where all cases share the clock that this moves, run them
    /// one at a time: [`Suite::parallel`](crate::Suite::parallel).
    fn elapse(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(duration)
    }

    /// Makes the record of `key`, if there is one, older by `duration`, past the store: all its moments move
    /// into the past, and it may be gone then. Only [`Programs`](crate::Programs) asks for it, so that nobody
    /// has to wait; a fixture with a [`ManualClock`] does not come here.
    ///
    /// # Errors
    /// It could not be done; the program fails.
    fn age(
        &self,
        namespace: &Namespace,
        key: &IdempotencyKey,
        duration: Duration,
    ) -> impl Future<Output = Result<Aged, HarnessError>> + Send {
        let _ = (namespace, key, duration);
        std::future::ready(Ok(Aged::Impossible))
    }

    /// Another connection to the records of `namespace`, as independent as it can be.
    ///
    /// # Errors
    /// The connection failed; the case fails.
    fn connect_again(
        &self,
        namespace: &Namespace,
    ) -> impl Future<Output = Result<Option<Self::Store>, HarnessError>> + Send {
        let _ = namespace;
        std::future::ready(Ok(None))
    }

    /// Puts `raw` at the place of `key`, past the store and without an expiry of its own. Answers
    /// whether this store can hold such a thing.
    ///
    /// # Errors
    /// It could not be written; the case fails.
    fn write_raw(
        &self,
        namespace: &Namespace,
        key: &IdempotencyKey,
        raw: RawRecord<'_>,
    ) -> impl Future<Output = Result<Option<Written>, HarnessError>> + Send {
        let _ = (namespace, key, raw);
        std::future::ready(Ok(None))
    }

    /// Where the server listens, so that a [`FaultProxy`](crate::FaultProxy) can stand before it.
    fn server(&self) -> Option<SocketAddr> {
        None
    }

    /// A connection to the records of `namespace` through a proxy at `address`. Give it a time-out
    /// of a second or so: the suite waits for it.
    ///
    /// # Errors
    /// The connection failed; the case fails.
    fn connect_through(
        &self,
        address: SocketAddr,
        namespace: &Namespace,
    ) -> impl Future<Output = Result<Option<Self::Store>, HarnessError>> + Send {
        let _ = (address, namespace);
        std::future::ready(Ok(None))
    }

    /// The executor that the cases of C47 and C61 to C63 drive, over a scripted store of the suite's
    /// own. Override it to put something of your own between the two.
    fn executor(&self, store: Connected) -> IdempotencyBuilder {
        Idempotency::builder(store)
    }
}

/// A store for one case.
pub struct Fixture<S> {
    pub(crate) store: S,
    pub(crate) namespace: Namespace,
    pub(crate) clock: Option<ManualClock>,
    pub(crate) guard: Option<Box<dyn Any + Send + Sync>>,
}

impl<S> Fixture<S> {
    /// `store`, whose records live in `namespace`.
    pub fn new(store: S, namespace: Namespace) -> Self {
        Self { store, namespace, clock: None, guard: None }
    }

    /// The clock that the store decides by, for a suite that never waits.
    #[must_use]
    pub fn clock(self, clock: ManualClock) -> Self {
        Self { clock: Some(clock), ..self }
    }

    /// Dropped when the case is over: a directory, a process, whatever has to be cleaned up.
    #[must_use]
    pub fn guard(self, guard: impl Any + Send + Sync) -> Self {
        Self { guard: Some(Box::new(guard)), ..self }
    }
}

impl<S> fmt::Debug for Fixture<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fixture")
            .field("namespace", &self.namespace)
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

/// An optional method of a [`Harness`] that some cases need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hook {
    /// [`Harness::connect_again`]
    SecondConnection,
    /// [`Harness::write_raw`]
    RawWrite,
    /// [`Harness::server`] and [`Harness::connect_through`]
    Server,
}

impl Hook {
    /// All of them: what a harness with no hooks leaves out.
    pub const ALL: &'static [Self] = &[Self::SecondConnection, Self::RawWrite, Self::Server];

    pub(crate) const fn method(self) -> &'static str {
        match self {
            Self::SecondConnection => "Harness::connect_again",
            Self::RawWrite => "Harness::write_raw",
            Self::Server => "Harness::server and Harness::connect_through",
        }
    }
}

/// What [`Harness::write_raw`] puts at the place of a key.
#[derive(Clone, Copy, Debug)]
pub enum RawRecord<'a> {
    /// Data of another program.
    Foreign,
    /// The record that is there now, without its end (or without one of its fields).
    Truncated,
    /// The record that is there now, marked as written by a later release.
    NewerFormat,
    /// The record that another key has now, unchanged.
    RecordOf(&'a IdempotencyKey),
}

/// What a raw write came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a store that cannot hold such a thing has nothing to be asked about"]
pub enum Written {
    /// It is there.
    Done,
    /// The server does not let such a thing be stored: a schema, for instance, forbids it.
    Impossible,
}

/// What [`Harness::age`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "where a record cannot be made older, time has to be waited for"]
pub enum Aged {
    /// The record is older, or there was none.
    Done,
    /// This harness cannot do it, now or ever.
    Impossible,
}

/// A namespace that nobody has used: `suite-` and 64 random bits.
pub fn unique_namespace() -> Namespace {
    let name = format!("suite-{:016x}", fastrand::u64(..));
    Namespace::new(name).unwrap_or_default()
}
