use std::sync::Arc;

use idempotency_core::{Clock, Sharing, StoreProfile, Survives, SystemClock};

use crate::MemoryStore;

/// The limits and the clock of a [`MemoryStore`].
///
/// ```
/// use idempotency_memory::MemoryStore;
///
/// let store = MemoryStore::builder()
///     .capacity(50_000)
///     .max_response_bytes(64 * 1024)
///     .build();
/// assert_eq!(store.capacity(), 50_000);
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder makes nothing until `build`"]
pub struct MemoryStoreBuilder {
    pub(crate) capacity: usize,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) profile: StoreProfile,
}

/// With responses of 300 bytes this is about 650 MB: enough to be out of the way, and still a bound
/// that a flood of keys meets before the machine's memory ends.
const DEFAULT_CAPACITY: usize = 1_000_000;

impl Default for MemoryStoreBuilder {
    fn default() -> Self {
        let mut profile = StoreProfile::new("memory");
        profile.remembers_not_started = true;
        profile.expires_by_itself = true;
        profile.sharing = Sharing::Process;
        profile.survives = Survives::Nothing;
        Self { capacity: DEFAULT_CAPACITY, clock: Arc::new(SystemClock::new()), profile }
    }
}

impl MemoryStoreBuilder {
    /// The most records held at once, 1 000 000 unless told otherwise. A new key beyond that is
    /// refused as `Full`; with 0 every new key is.
    ///
    /// It bounds the number of records, not their bytes: the memory is at most about `capacity`
    /// times the largest response.
    pub fn capacity(self, capacity: usize) -> Self {
        Self { capacity, ..self }
    }

    /// The longest response in bytes, 1 MiB unless told otherwise.
    pub fn max_response_bytes(mut self, bytes: usize) -> Self {
        self.profile.max_response_bytes = bytes;
        self
    }

    /// The longest checkpoint in bytes, 64 KiB unless told otherwise.
    pub fn max_checkpoint_bytes(mut self, bytes: usize) -> Self {
        self.profile.max_checkpoint_bytes = bytes;
        self
    }

    /// The clock that decides, [`SystemClock`] unless told otherwise.
    pub fn clock(self, clock: impl Clock + 'static) -> Self {
        Self { clock: Arc::new(clock), ..self }
    }

    /// An empty store with these limits. Nothing runs before the first claim.
    #[must_use]
    pub fn build(self) -> MemoryStore {
        MemoryStore::with(self)
    }
}
