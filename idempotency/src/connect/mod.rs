//! Stores by URL. Each backend is one module and one arm.

#[cfg(feature = "dynamodb")]
mod dynamodb;
mod error;
#[cfg(feature = "memory")]
mod memory;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
#[cfg_attr(
    not(all(feature = "dynamodb", feature = "memory", feature = "postgres", feature = "redis")),
    allow(dead_code, reason = "what a URL holds is only read for a store that is built in")
)]
mod store_url;

pub use error::ConnectError;
use idempotency_core::Connected;

use self::store_url::StoreUrl;

/// Connects to the store that a URL names.
///
/// | URL | store | feature |
/// |---|---|---|
/// | `dynamodb://TABLE[?endpoint=http://…]` | a table of Amazon `DynamoDB`, or of an emulator | `dynamodb`; without an endpoint by `http:` also `aws-config` |
/// | `memory:` | a new store in the memory of this process | `memory` |
/// | `postgres://USER[:PASSWORD]@HOST[:PORT]/DATABASE` | a table of `PostgreSQL` | `postgres` |
/// | `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]` | Redis or Valkey, one server | `redis` |
/// | `rediss://…`, `rediss+cluster:`, `rediss+sentinel:` | the same over TLS | `redis-tokio-rustls-comp` |
/// | `redis+unix:///SOCKET[?db=DATABASE]` | by its Unix socket | `redis` |
/// | `redis+cluster://HOST[:PORT],HOST…` | a Redis Cluster, found by any of its nodes | `redis` |
/// | `redis+sentinel://HOST[:PORT],HOST…/SERVICE[/DATABASE]` | the primary that Sentinels name | `redis` |
///
/// Parameters of `dynamodb:`, all optional: `region` and `endpoint`, `namespace`, `create=on` (creates the
/// table when it is missing), `skew_bound_ms` (1 000 unless given; see the crate `idempotency-dynamodb`),
/// `partition_key` and `sort_key` (names), `index` (a name), `max_response_bytes`,
/// `max_checkpoint_bytes` and `timeout_ms`.
///
/// Parameters of `memory:`, all optional: `capacity` (records), `max_response_bytes`,
/// `max_checkpoint_bytes`, and `namespace`. Every call makes a store of its own, also with the same URL
/// and the same namespace: connect once and clone what you get.
///
/// Parameters of `postgres:` (or `postgresql:`), all optional: `table` and `schema`, `namespace`,
/// `create=on` (sets the table up when it is missing), `max_response_bytes`, `max_checkpoint_bytes`,
/// `max_connections`, `timeout_ms`, `lock_timeout_ms`, `group_commit` and `listen` (`on` or `off`), and
/// those of the driver: `sslmode`, `application_name`, `options`, …
///
/// Parameters of the `redis` URLs, all optional: `namespace`, `max_response_bytes`,
/// `max_checkpoint_bytes`, `timeout_ms`, `connect_timeout_ms`, and `wait_replicas` with
/// `wait_replicas_ms` (1 000 unless given).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), idempotency::ConnectError> {
/// let connected = idempotency::connect("memory:?capacity=50000").await?;
/// assert_eq!(connected.store().profile().name, "memory");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The URL is wrong, names a store that this build does not know, or the store cannot be reached. The
/// error names the part of the URL that is wrong and what is allowed. It never shows the URL itself,
/// which may hold a password.
pub async fn connect(url: &str) -> Result<Connected, ConnectError> {
    connect_to(StoreUrl::parse(url)?, SetUp::Expected).await
}

/// Connects as [`connect`] does, also to a store that is not set up yet: to ask it for its
/// [`schema`](Connected::schema) or to have it [examined](Connected::doctor).
///
/// Where there is something to set up (`dynamodb:`, `postgres:`), the server may even be out of reach: the
/// first operation tells.
///
/// # Errors
/// As `connect`.
pub async fn connect_unchecked(url: &str) -> Result<Connected, ConnectError> {
    connect_to(StoreUrl::parse(url)?, SetUp::Unchecked).await
}

/// Whether a store has to be set up already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(any(feature = "dynamodb", feature = "postgres")),
    allow(dead_code, reason = "the other stores need no setting up")
)]
enum SetUp {
    Expected,
    Unchecked,
}

#[cfg_attr(
    not(any(feature = "dynamodb", feature = "postgres")),
    allow(unused_variables, reason = "the other stores need no setting up")
)]
async fn connect_to(url: StoreUrl, set_up: SetUp) -> Result<Connected, ConnectError> {
    match url.scheme() {
        #[cfg(feature = "dynamodb")]
        "dynamodb" => dynamodb::connect(url, set_up).await,
        #[cfg(not(feature = "dynamodb"))]
        "dynamodb" => Err(ConnectError::MissingFeature { scheme: "dynamodb", feature: "dynamodb" }),
        #[cfg(feature = "memory")]
        "memory" => memory::connect(url).await,
        #[cfg(not(feature = "memory"))]
        "memory" => Err(ConnectError::MissingFeature { scheme: "memory", feature: "memory" }),
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => Ok(postgres::connect(url, set_up).await?.connected()),
        #[cfg(not(feature = "postgres"))]
        "postgres" | "postgresql" => {
            Err(ConnectError::MissingFeature { scheme: "postgres", feature: "postgres" })
        }
        #[cfg(feature = "redis")]
        "redis" | "rediss" | "redis+unix" | "redis+cluster" | "rediss+cluster"
        | "redis+sentinel" | "rediss+sentinel" => redis::connect(url).await,
        #[cfg(not(feature = "redis"))]
        "redis" | "rediss" | "redis+unix" | "redis+cluster" | "rediss+cluster"
        | "redis+sentinel" | "rediss+sentinel" => {
            Err(ConnectError::MissingFeature { scheme: "redis", feature: "redis" })
        }
        scheme => Err(ConnectError::UnknownScheme { scheme: scheme.to_owned() }),
    }
}

/// As [`connect`], for what only this store can do: join transactions of the application's
/// (`complete_in`, `run_in_transaction`). `connected` makes of it what `connect` gives.
///
#[cfg_attr(feature = "axum", doc = "```no_run")]
#[cfg_attr(not(feature = "axum"), doc = "```ignore")]
/// use axum::{Extension, Router, body::Bytes, http::StatusCode, response::{IntoResponse, Response}};
/// use idempotency::{FinishOutcome, PostgresStore, Scope, sqlx};
/// use idempotency::tower::{CurrentAttempt, IdempotencyLayer};
///
/// /// The charge and its answer are committed together or not at all.
/// async fn charge(
///     Extension(store): Extension<PostgresStore>,
///     attempt: CurrentAttempt,
///     order: Bytes,
/// ) -> Result<Response, StatusCode> {
///     let unavailable = |_| StatusCode::SERVICE_UNAVAILABLE;
///     let mut transaction = store.begin().await.map_err(unavailable)?;
///     let insert = sqlx::query("INSERT INTO charges (body) VALUES ($1)").bind(order.as_ref());
///     insert.execute(&mut *transaction).await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
///     let response = (StatusCode::CREATED, "charged").into_response();
///     let (answer, response) = attempt.answer_of(response).await;
///     let done = store.complete_in(&mut transaction, &attempt, &answer).await;
///     if done.map_err(unavailable)? != FinishOutcome::Done {
///         return Err(StatusCode::SERVICE_UNAVAILABLE); // another attempt has the key
///     }
///     // when the reply is lost here, the layer finds out what became of the commit
///     transaction.commit().await.map_err(unavailable)?;
///     Ok(response.into_response())
/// }
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let store = idempotency::connect_postgres("postgres://shop@127.0.0.1/shop").await?;
/// let layer = IdempotencyLayer::new(store.connected(), |_| Scope::new("shop").ok()).required();
/// let app: Router = Router::new()
///     .route("/v1/charges", axum::routing::post(charge))
///     .route_layer(layer)
///     .layer(Extension(store));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As `connect`; also for a URL of another store.
#[cfg(feature = "postgres")]
pub async fn connect_postgres(
    url: &str,
) -> Result<idempotency_postgres::PostgresStore, ConnectError> {
    let url = StoreUrl::parse(url)?;
    match url.scheme() {
        "postgres" | "postgresql" => postgres::connect(url, SetUp::Expected).await,
        _ => {
            const ALLOWED: &str = "`postgres://…` and `postgresql://…`";
            Err(store_url::refused("scheme", "it is not PostgreSQL's", ALLOWED))
        }
    }
}
