use std::num::NonZeroU64;

use bytes::Bytes;

use crate::{
    attempt_number::AttemptNumber,
    fingerprint::Fingerprint,
    key::IdempotencyKey,
    time::{Lease, Retention},
    token::ClaimToken,
};

/// Asks for the right to execute what a key stands for.
#[derive(Clone, Copy, Debug)]
pub struct ClaimRequest<'a> {
    /// The key.
    pub key: &'a IdempotencyKey,
    /// Of the request that the caller takes the key to stand for.
    pub fingerprint: Fingerprint,
    /// Names the caller's attempt; the same in every repetition of this claim.
    pub token: ClaimToken,
    /// How long the claim holds without renewal.
    pub lease: Lease,
    /// How long the record lives after its lease, its release or its completion.
    pub retention: Retention,
    /// What to do with an attempt whose outcome is unknown.
    pub takeover: Takeover,
}

/// What a claim does with an attempt whose outcome is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Takeover {
    /// Take the key over as the next attempt.
    Allow,
    /// Leave it and say that it is abandoned.
    Refuse,
}

/// Stores the answer.
#[derive(Clone, Debug)]
pub struct CompleteRequest<'a> {
    /// The key.
    pub key: &'a IdempotencyKey,
    /// Of the attempt that did the work.
    pub token: ClaimToken,
    /// Its number.
    pub attempt: AttemptNumber,
    /// The same as in the claim.
    pub fingerprint: Fingerprint,
    /// Opaque bytes, 0 to the profile's `max_response_bytes`.
    pub response: Bytes,
    /// How long it is replayed from now.
    pub retention: Retention,
}

/// Makes a lease longer and may leave a checkpoint.
#[derive(Clone, Debug)]
pub struct RenewRequest<'a> {
    /// The key.
    pub key: &'a IdempotencyKey,
    /// Of the attempt that holds it.
    pub token: ClaimToken,
    /// Its number.
    pub attempt: AttemptNumber,
    /// 1 for the first renewal of an attempt, then one more each: a late copy of an earlier renewal
    /// must not bring back its checkpoint.
    pub sequence: NonZeroU64,
    /// The lease should last at least this long from now.
    pub lease: Lease,
    /// Replaces the checkpoint when given; 0 to the profile's `max_checkpoint_bytes`.
    pub checkpoint: Option<Bytes>,
}

/// Gives a key back without an answer.
#[derive(Clone, Copy, Debug)]
pub struct ReleaseRequest<'a> {
    /// The key.
    pub key: &'a IdempotencyKey,
    /// Of the attempt that holds it.
    pub token: ClaimToken,
    /// Its number.
    pub attempt: AttemptNumber,
    /// What the attempt says of its work.
    pub release: Release,
}

/// What an attempt that gives its key back says of its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Release {
    /// It did not begin. Attempt 1 frees the key; a later attempt counts as `Failed`, because
    /// earlier ones may have run.
    NotStarted,
    /// It is known not to have happened.
    Failed,
    /// It may have happened.
    Unknown,
}
