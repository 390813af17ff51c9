use std::time::Duration;

use crate::{NameError, PostgresStore, names::Names};
use idempotency_core::{
    ErrorKind, Namespace, Operation, Sharing, StoreError, StoreProfile, Survives,
};
use sqlx::{
    ConnectOptions, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};

/// Where a [`PostgresStore`] keeps its records, and how long it waits.
///
/// ```
/// # fn example(pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use idempotency_core::Namespace;
/// use idempotency_postgres::PostgresStore;
///
/// let store = PostgresStore::builder()
///     .schema("payments")?
///     .table("intents")?
///     .namespace(Namespace::new("payments")?)
///     .timeout(Duration::from_secs(1))
///     .build(pool);
/// # Ok(())
/// # }
/// # use idempotency_postgres::sqlx;
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder makes nothing until `build` or `connect`"]
pub struct PostgresStoreBuilder {
    pub(crate) names: Names,
    pub(crate) namespace: Namespace,
    pub(crate) timeout: Duration,
    pub(crate) lock_timeout: Duration,
    pub(crate) group_commit: bool,
    pub(crate) listen: bool,
    pub(crate) profile: StoreProfile,
    /// The pool has no users but this store and those it is shown to.
    pub(crate) owns_pool: bool,
    max_connections: u32,
}

/// Of one operation, with waiting for a connection: what the executor allows for one try.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(2);

/// Well below [`DEFAULT_TIMEOUT`]: a row that a transaction holds answers in time.
const DEFAULT_LOCK_TIMEOUT: Duration = Duration::from_millis(700);

/// A bytea can be 1 GB, and is copied a few times on its way.
const MOST_RESPONSE_BYTES: usize = 64 << 20;

impl Default for PostgresStoreBuilder {
    fn default() -> Self {
        let mut profile = StoreProfile::new("postgres");
        profile.remembers_not_started = true;
        profile.sharing = Sharing::Server;
        profile.survives = Survives::ServerCrash;
        Self {
            names: Names::default(),
            namespace: Namespace::default(),
            timeout: DEFAULT_TIMEOUT,
            lock_timeout: DEFAULT_LOCK_TIMEOUT,
            group_commit: true,
            listen: true,
            profile,
            owns_pool: false,
            max_connections: 16,
        }
    }
}

impl PostgresStoreBuilder {
    /// The schema, `public` unless told otherwise. It is quoted: `Payments` is not `payments`.
    ///
    /// # Errors
    /// Empty, longer than 63 bytes, or with `$` or control characters.
    pub fn schema(self, schema: &str) -> Result<Self, NameError> {
        let names = Names::new(schema, self.names.bare_table())?;
        Ok(Self { names, ..self })
    }

    /// The table, `idempotency_keys` unless told otherwise. It is quoted, and the names of the
    /// functions begin with it.
    ///
    /// # Errors
    /// Empty, longer than 46 bytes, or with `$` or control characters.
    pub fn table(self, table: &str) -> Result<Self, NameError> {
        let names = Names::new(self.names.schema(), table)?;
        Ok(Self { names, ..self })
    }

    /// Keeps the records of several applications in one table apart.
    pub fn namespace(self, namespace: Namespace) -> Self {
        Self { namespace, ..self }
    }

    /// How long one operation may take, with waiting for a connection: 2 s unless told otherwise.
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// How long an operation waits for a row that somebody's transaction holds: 700 ms unless told
    /// otherwise, and at most half of the time-out. In whole milliseconds, at least 1.
    pub fn lock_timeout(self, lock_timeout: Duration) -> Self {
        Self { lock_timeout, ..self }
    }

    /// Whether claims that arrive while others are under way share one commit, and completions
    /// likewise; on unless told otherwise. Neither a lone claim nor a lone completion is delayed by it.
    pub fn group_commit(self, group_commit: bool) -> Self {
        Self { group_commit, ..self }
    }

    /// Whether waiters listen for notifications; on unless told otherwise. They need a connection of
    /// their own, and do not arrive through a pooler in transaction mode: there waiters only poll.
    pub fn listen(self, listen: bool) -> Self {
        Self { listen, ..self }
    }

    /// The longest response in bytes, 1 MiB unless told otherwise, at most 64 MiB.
    pub fn max_response_bytes(mut self, bytes: usize) -> Self {
        self.profile.max_response_bytes = bytes.min(MOST_RESPONSE_BYTES);
        self
    }

    /// The longest checkpoint in bytes, 64 KiB unless told otherwise, at most 64 MiB.
    pub fn max_checkpoint_bytes(mut self, bytes: usize) -> Self {
        self.profile.max_checkpoint_bytes = bytes.min(MOST_RESPONSE_BYTES);
        self
    }

    /// The most connections of a pool that [`connect`](Self::connect) makes, 16 unless told otherwise.
    pub fn max_connections(self, max_connections: u32) -> Self {
        Self { max_connections: max_connections.max(1), ..self }
    }

    /// A store over the application's own pool. Nothing is sent before the first operation.
    ///
    /// `test_before_acquire(false)` on the pool saves a round trip an operation.
    #[must_use]
    pub fn build(self, pool: PgPool) -> PostgresStore {
        PostgresStore::with(self, pool)
    }

    /// A store with a pool of its own; checks that the server is there and the table is set up.
    ///
    /// The URL is the driver's: `postgres://user:password@host:port/database?sslmode=require`.
    ///
    /// # Errors
    /// The URL is wrong, the server cannot be reached, or the table is missing or of another release:
    /// set it up with `Schema::create`.
    pub async fn connect(self, url: &str) -> Result<PostgresStore, StoreError> {
        let store = self.build_lazy(url)?;
        store.check_schema(Operation::Connect).await?;
        Ok(store)
    }

    /// As [`connect`](Self::connect), without looking whether anything is there.
    ///
    /// # Errors
    /// The URL is wrong.
    pub fn build_lazy(self, url: &str) -> Result<PostgresStore, StoreError> {
        let options: PgConnectOptions = url.parse().map_err(|_: sqlx::Error| {
            // the driver's words may show the URL
            let detail =
                "the driver cannot read the URL; it has the form postgres://user@host/database";
            StoreError::new(Operation::Connect, ErrorKind::Invalid, detail).without_effect()
        })?;
        // PgBouncer refuses a session that begins with that setting, and no number of ours needs it
        let options = options.disable_statement_logging().extra_float_digits(None);
        let pool = PgPoolOptions::new()
            .max_connections(self.max_connections)
            // before the operation's own time-out, so that the error says what was waited for
            .acquire_timeout(self.timeout.mul_f64(0.8))
            .test_before_acquire(false)
            .connect_lazy_with(options);
        Ok(Self { owns_pool: true, ..self }.build(pool))
    }
}
