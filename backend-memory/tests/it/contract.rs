//! The operations, one caller after the other.

use idempotency_core::{
    ClaimOutcome, ErrorKind, FinishOutcome, IdempotencyStore, Release, ReleaseOutcome,
    RenewOutcome, Takeover,
};

use crate::support::{Caller, LEASE, RETENTION, attempt, body, millis, store};

#[tokio::test]
async fn one_executes_the_others_wait_then_all_get_the_same_bytes() {
    let (store, clock) = store();
    let first = Caller::of("k");
    first.acquires(&store, 1).await;
    clock.advance(millis(300));
    let ClaimOutcome::InProgress(running) = first.another().claim(&store).await else {
        panic!("a live claim was not seen")
    };
    assert_eq!(running.running_for, millis(300));
    assert_eq!(running.lease_remaining, LEASE.saturating_sub(millis(300)));
    assert_eq!(first.complete(&store, 1, "done").await, FinishOutcome::Done);
    for caller in [first.clone(), first.another(), first.another()] {
        caller.replays(&store, b"done").await;
    }
    // a late copy of the completion does not put another answer
    assert_eq!(first.complete(&store, 1, "again").await, FinishOutcome::Done);
    first.replays(&store, b"done").await;
}

/// Kind of fault: an owner that dies keeps the key for the whole retention (H-02). The lease decides,
/// and the last checkpoint reaches the successor.
#[tokio::test]
async fn a_dead_owner_blocks_the_key_for_its_lease_only() {
    let (store, clock) = store();
    let dead = Caller::of("k");
    dead.acquires(&store, 1).await;
    let held = dead.try_renew(&store, 1, 1, Some(b"half way")).await.unwrap();
    assert_eq!(held, RenewOutcome::Held { lease_remaining: LEASE });
    clock.advance(LEASE);
    let waiting = dead.another().claim(&store).await;
    assert!(
        matches!(waiting, ClaimOutcome::InProgress(running) if running.lease_remaining.is_zero())
    );
    clock.advance(millis(1));
    let successor = dead.another();
    let ClaimOutcome::Acquired(acquired) = successor.claim(&store).await else {
        panic!("nobody took over")
    };
    assert_eq!(acquired.attempt, attempt(2));
    assert_eq!(acquired.checkpoint.as_deref(), Some(&b"half way"[..]));
    assert_eq!(successor.complete(&store, 2, "second").await, FinishOutcome::Done);
    dead.replays(&store, b"second").await;
}

/// Kind of fault: a write that does not check who owns the claim (H-06). Whatever the late owner
/// sends, its successor keeps the key.
#[tokio::test]
async fn a_late_owner_cannot_touch_the_claim_of_its_successor() {
    let (store, clock) = store();
    let late = Caller::of("k");
    late.acquires(&store, 1).await;
    clock.advance(LEASE + millis(1));
    let successor = late.another();
    successor.acquires(&store, 2).await;
    let before = store.lookup(&late.key).await.unwrap();
    for release in [Release::NotStarted, Release::Failed, Release::Unknown] {
        assert_eq!(late.release(&store, 1, release).await, ReleaseOutcome::Lost);
    }
    assert_eq!(late.complete(&store, 1, "late").await, FinishOutcome::Lost);
    assert_eq!(late.try_renew(&store, 1, 1, Some(b"late")).await.unwrap(), RenewOutcome::Lost);
    assert_eq!(store.lookup(&late.key).await.unwrap(), before);
    let third = late.another().claim(&store).await;
    assert!(matches!(third, ClaimOutcome::InProgress(running) if running.attempt == attempt(2)));
}

/// Kind of fault: a take-over decided on an old look at the record (H-04). Looking and taking over are
/// one step, so a completion in between is never lost.
#[tokio::test]
async fn a_completion_before_the_take_over_is_what_the_other_one_gets() {
    let (store, clock) = store();
    let owner = Caller::of("k");
    owner.acquires(&store, 1).await;
    let seen = store.lookup(&owner.key).await.unwrap();
    assert!(seen.is_some());
    clock.advance(LEASE + millis(1));
    assert_eq!(owner.complete(&store, 1, "owner").await, FinishOutcome::Done);
    for _ in 0..3 {
        owner.another().replays(&store, b"owner").await;
    }
}

/// Kind of fault: a refused duplicate cleans up what belongs to the owner (H-05). Refusals leave every
/// byte of the record as it was.
#[tokio::test]
async fn refused_duplicates_change_nothing() {
    let (store, _clock) = store();
    let owner = Caller::of("k");
    let reused = Caller { fingerprint: body("charge 13"), ..owner.another() };
    owner.acquires(&store, 1).await;
    let claimed = store.lookup(&owner.key).await.unwrap();
    let waiting = owner.another().claim(&store).await;
    assert!(matches!(waiting, ClaimOutcome::InProgress(_)));
    assert!(matches!(reused.claim(&store).await, ClaimOutcome::Mismatch(_)));
    assert_eq!(store.lookup(&owner.key).await.unwrap(), claimed);
    let _ = owner.complete(&store, 1, "done").await;
    let completed = store.lookup(&owner.key).await.unwrap();
    owner.another().replays(&store, b"done").await;
    assert!(matches!(reused.claim(&store).await, ClaimOutcome::Mismatch(_)));
    for release in [Release::NotStarted, Release::Failed, Release::Unknown] {
        let _ = reused.release(&store, 1, release).await;
        let _ = owner.another().release(&store, 1, release).await;
    }
    assert_eq!(store.lookup(&owner.key).await.unwrap(), completed);
    owner.another().replays(&store, b"done").await;
}

#[tokio::test]
async fn who_refuses_to_take_over_is_told_that_the_outcome_is_unknown() {
    let (store, clock) = store();
    let dead = Caller::of("k");
    dead.acquires(&store, 1).await;
    clock.advance(LEASE + millis(500));
    let other = dead.another();
    let refusal = store.claim(other.request(Takeover::Refuse)).await.unwrap();
    assert!(matches!(refusal, ClaimOutcome::Abandoned(a) if a.since == millis(500)));
    other.acquires(&store, 2).await;
}

#[tokio::test]
async fn a_late_copy_of_a_renewal_does_not_bring_its_checkpoint_back() {
    let (store, clock) = store();
    let owner = Caller::of("k");
    owner.acquires(&store, 1).await;
    for (sequence, checkpoint) in [(1, &b"one"[..]), (2, b"two"), (1, b"one")] {
        let renewed = owner.try_renew(&store, 1, sequence, Some(checkpoint)).await.unwrap();
        assert!(matches!(renewed, RenewOutcome::Held { .. }));
    }
    let renewed = owner.try_renew(&store, 1, 3, None).await.unwrap();
    assert!(matches!(renewed, RenewOutcome::Held { .. }));
    clock.advance(LEASE + millis(1));
    let ClaimOutcome::Acquired(acquired) = owner.another().claim(&store).await else {
        panic!("nobody took over")
    };
    assert_eq!(acquired.checkpoint.as_deref(), Some(&b"two"[..]));
}

#[tokio::test]
async fn a_key_given_back_before_any_work_is_unused_but_its_token_is_spent() {
    let (store, clock) = store();
    let owner = Caller::of("k");
    owner.acquires(&store, 1).await;
    assert_eq!(owner.release(&store, 1, Release::NotStarted).await, ReleaseOutcome::Released);
    assert_eq!(store.lookup(&owner.key).await.unwrap(), None);
    clock.advance(LEASE);
    let error = owner.try_claim(&store).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TokenSpent);
    owner.another().acquires(&store, 1).await;
    assert!(store.profile().remembers_not_started);
}

/// Kind of fault: a released failure that expires at once or never (H-18). It lives for the retention
/// counted from its release, also when the lease was over by then.
#[tokio::test]
async fn a_failure_released_after_its_lease_lives_for_the_retention_from_then() {
    let (store, clock) = store();
    let owner = Caller::of("k");
    owner.acquires(&store, 1).await;
    clock.advance(LEASE + millis(1_000));
    assert_eq!(owner.release(&store, 1, Release::Failed).await, ReleaseOutcome::Released);
    clock.advance(RETENTION);
    let next = owner.another();
    next.acquires(&store, 2).await;
    let _ = next.release(&store, 2, Release::Unknown).await;
    clock.advance(RETENTION + millis(1));
    owner.another().acquires(&store, 1).await;
}

/// Kind of fault: the retention counted from another moment in each store (H-17): here it counts from
/// the completion.
#[tokio::test]
async fn a_response_is_replayed_for_the_retention_from_its_completion() {
    let (store, clock) = store();
    let owner = Caller::of("k");
    owner.acquires(&store, 1).await;
    clock.advance(millis(4_000));
    let _ = owner.complete(&store, 1, "done").await;
    clock.advance(RETENTION);
    owner.another().replays(&store, b"done").await;
    clock.advance(millis(1));
    assert_eq!(store.lookup(&owner.key).await.unwrap(), None);
    owner.another().acquires(&store, 1).await;
}

#[tokio::test]
async fn a_completion_without_a_record_restores_it() {
    let (store, clock) = store();
    let owner = Caller::of("k");
    assert_eq!(owner.complete(&store, 3, "kept").await, FinishOutcome::Restored);
    owner.another().replays(&store, b"kept").await;
    clock.advance(RETENTION + millis(1));
    assert_eq!(owner.complete(&store, 3, "anew").await, FinishOutcome::Restored);
    assert_eq!(owner.another().complete(&store, 3, "other").await, FinishOutcome::Lost);
}

/// Kind of fault: protection that each mounted layer has for itself (H-60). Clones are one store; two
/// stores are two.
#[tokio::test]
async fn clones_share_their_records_and_other_stores_do_not() {
    let (store, _clock) = store();
    let owner = Caller::of("k");
    owner.acquires(&store.clone(), 1).await;
    let _ = owner.complete(&*store.connected().store(), 1, "done").await;
    owner.another().replays(&store.clone(), b"done").await;
    let (other, _clock) = crate::support::store();
    owner.another().acquires(&other, 1).await;
}

/// Kind of fault: a secret in a log line.
#[tokio::test]
async fn debug_shows_nothing_of_keys_and_responses() {
    let (store, _clock) = store();
    let owner = Caller::of("secret-key");
    owner.acquires(&store, 1).await;
    let _ = owner.complete(&store, 1, "secret-response").await;
    let shown = format!("{store:?} {:?}", store.connected());
    assert!(!shown.contains("secret") && !shown.contains("scope"), "{shown}");
}
