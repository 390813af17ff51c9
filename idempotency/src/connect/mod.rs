//! Stores by URL. Each backend is one module and one arm.

mod error;
#[cfg(feature = "memory")]
mod memory;
#[cfg_attr(
    not(feature = "memory"),
    expect(
        dead_code,
        reason = "what a URL holds is only read for a store that is built in"
    )
)]
mod store_url;

pub use error::ConnectError;
use idempotency_core::Connected;

use self::store_url::StoreUrl;

/// Connects to the store that a URL names.
///
/// | URL | store | feature |
/// |---|---|---|
/// | `memory:` | a new store in the memory of this process | `memory` |
///
/// Parameters of `memory:`, all optional: `capacity` (records), `max_response_bytes`,
/// `max_checkpoint_bytes`, and `namespace`. Every call makes a store of its own, also with the same URL
/// and the same namespace: connect once and clone what you get.
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
    let url = StoreUrl::parse(url)?;
    match url.scheme() {
        #[cfg(feature = "memory")]
        "memory" => memory::connect(url).await,
        #[cfg(not(feature = "memory"))]
        "memory" => Err(ConnectError::MissingFeature {
            scheme: "memory",
            feature: "memory",
        }),
        scheme => Err(ConnectError::UnknownScheme {
            scheme: scheme.to_owned(),
        }),
    }
}
