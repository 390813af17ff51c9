use std::{fmt::Debug, sync::Arc};

use async_trait::async_trait;

use super::{
    ClaimOutcome, ClaimRequest, CompleteRequest, FinishOutcome, ReleaseOutcome, ReleaseRequest,
    RenewOutcome, RenewRequest, StoreError, StoreProfile,
};
use crate::{key::IdempotencyKey, record::Record};

/// A place that keeps records, one atomic step per operation.
///
/// The *holder* of a record is the caller whose token and attempt it carries while it is in progress
/// and not released, and its retention is not over. A lease that is over does not end that: the
/// holder stays the holder until somebody takes over.
///
/// Every implementation must:
/// - decide in this order: unreadable, past retention, fingerprint, completed, own token, live lease,
///   released, abandoned;
/// - answer [`ErrorKind::Corrupt`](super::ErrorKind::Corrupt) for what it cannot read, and leave it (C00);
/// - take a record past its retention as absent, even while it is there (C30);
/// - decide by one clock, the store's (C33);
/// - write value and expiry together (C32);
/// - keep keys apart by [`Namespace::storage_key`](crate::Namespace::storage_key) or as well (C34),
///   and answer an error when a reply carries another key's record (C35);
/// - stay in a state that this contract allows when a future is dropped at any await point (C45);
/// - answer `Err` only when it could not answer, with what may have happened (C50), within its
///   time-out (C51);
/// - accept every operation again with the same arguments, also late (C50);
/// - give each key a linearizable history (C60).
///
/// A store that offers only compare-and-swap implements [`RecordStore`](super::RecordStore) instead
/// and gets all of this from [`CasStore`](super::CasStore). Whoever implements this trait proves it
/// with the conformance suite.
#[async_trait]
pub trait IdempotencyStore: Debug + Send + Sync {
    /// Asks for the right to execute.
    ///
    /// - absent: `Acquired`, attempt 1, nothing of an expired record survives (C01)
    /// - of any number of concurrent claims exactly one is `Acquired` (C02)
    /// - the token of an unreleased record in progress: `Acquired` again, unchanged; of a released
    ///   one: error `TokenSpent` (C03)
    /// - live claim of another token: `InProgress` (C04)
    /// - completed: `Replay` with the exact bytes (C05)
    /// - another fingerprint, in every state: `Mismatch` (C06)
    /// - released as failed, or abandoned or released as unknown under `Allow`: `Acquired` with the
    ///   next attempt and the last checkpoint (C07)
    /// - abandoned or released as unknown under `Refuse`: `Abandoned` (C08)
    /// - `Acquired` carries the attempt and what is left of the lease (C09)
    /// - a late copy holds the key for at most its lease (C46)
    ///
    /// # Errors
    /// The store could not answer. With effect unknown the caller may hold the key: claim again with
    /// the same token.
    async fn claim(&self, request: ClaimRequest<'_>) -> Result<ClaimOutcome, StoreError>;

    /// Stores the answer.
    ///
    /// - the holder: `Done`, the retention counts from now, the checkpoint is dropped (C10)
    /// - the same attempt again: `Done`, the first response stays (C11)
    /// - another token, attempt or fingerprint: `Lost`, nothing changes (C12)
    /// - lease over or own release, and nobody took over: `Done` (C13)
    /// - the record is gone: stored with the caller's attempt, `Restored` (C14)
    /// - responses of 0 to `max_response_bytes` come back identical; larger ones are refused (C40)
    ///
    /// # Errors
    /// The store could not answer; `TooLarge` has no effect.
    async fn complete(&self, request: CompleteRequest<'_>) -> Result<FinishOutcome, StoreError>;

    /// Makes the lease longer, never shorter, and may replace the checkpoint.
    ///
    /// - the holder: `Held` (C20)
    /// - anyone else, released, completed or gone: `Lost`; never creates, never lengthens (C21)
    /// - a sequence number smaller than the last applied: `Held`, nothing changes (C22)
    /// - checkpoints up to `max_checkpoint_bytes` (C41)
    ///
    /// # Errors
    /// The store could not answer; `TooLarge` has no effect.
    async fn renew(&self, request: RenewRequest<'_>) -> Result<RenewOutcome, StoreError>;

    /// Gives the key back without an answer.
    ///
    /// - `NotStarted` by the holder of attempt 1: the key is unused again; by a later attempt: as
    ///   `Failed` (C25)
    /// - `Failed` or `Unknown` by the holder: marked as such, kept for the retention (C26)
    /// - another token's record, or completed: `Lost`, nothing changes (C27)
    /// - repeated, or gone: `Released` (C28)
    /// - after `NotStarted` a late claim of the token should answer `TokenSpent` (C29)
    ///
    /// # Errors
    /// The store could not answer.
    async fn release(&self, request: ReleaseRequest<'_>) -> Result<ReleaseOutcome, StoreError>;

    /// The record of `key` or none, from the primary. Changes nothing.
    ///
    /// # Errors
    /// The store could not answer.
    async fn lookup(&self, key: &IdempotencyKey) -> Result<Option<Record>, StoreError>;

    /// What this store promises and where its limits are.
    fn profile(&self) -> &StoreProfile;
}

#[async_trait]
impl<S: IdempotencyStore + ?Sized> IdempotencyStore for Arc<S> {
    async fn claim(&self, request: ClaimRequest<'_>) -> Result<ClaimOutcome, StoreError> {
        (**self).claim(request).await
    }

    async fn complete(&self, request: CompleteRequest<'_>) -> Result<FinishOutcome, StoreError> {
        (**self).complete(request).await
    }

    async fn renew(&self, request: RenewRequest<'_>) -> Result<RenewOutcome, StoreError> {
        (**self).renew(request).await
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<ReleaseOutcome, StoreError> {
        (**self).release(request).await
    }

    async fn lookup(&self, key: &IdempotencyKey) -> Result<Option<Record>, StoreError> {
        (**self).lookup(key).await
    }

    fn profile(&self) -> &StoreProfile {
        (**self).profile()
    }
}
