//! `CasStore` over a map of versions, with the faults of a real store put in between.

mod faults;
mod faulty;
mod map;
mod unreadable;

use std::{num::NonZeroU64, sync::Arc, time::Duration};

use bytes::Bytes;
use map::MapRecords;

use super::CasStore;
use crate::{
    AttemptNumber, ClaimOutcome, ClaimRequest, ClaimToken, Clock, CompleteRequest, Effect,
    ErrorKind, Fingerprint, FinishOutcome, IdempotencyKey, IdempotencyStore, Lease, ManualClock,
    Namespace, Record, Release, ReleaseOutcome, ReleaseRequest, RenewOutcome, RenewRequest,
    Retention, StorageKey, Takeover,
};

fn key() -> IdempotencyKey {
    IdempotencyKey::new("scope", "key").unwrap()
}

fn place() -> StorageKey {
    Namespace::default().storage_key(&key())
}

fn token(name: u8) -> ClaimToken {
    ClaimToken::from_stored_bytes([name; 16])
}

const LEASE: Duration = Duration::from_secs(30);

fn claim(key: &IdempotencyKey, name: u8) -> ClaimRequest<'_> {
    ClaimRequest {
        key,
        fingerprint: Fingerprint::of_bytes("request"),
        token: token(name),
        lease: Lease::new(LEASE).unwrap(),
        retention: Retention::DEFAULT,
        takeover: Takeover::Allow,
    }
}

fn complete(key: &IdempotencyKey, name: u8) -> CompleteRequest<'_> {
    CompleteRequest {
        key,
        token: token(name),
        attempt: AttemptNumber::FIRST,
        fingerprint: Fingerprint::of_bytes("request"),
        response: Bytes::from_static(b"answer"),
        retention: Retention::DEFAULT,
    }
}

fn renew(key: &IdempotencyKey, name: u8) -> RenewRequest<'_> {
    RenewRequest {
        key,
        token: token(name),
        attempt: AttemptNumber::FIRST,
        sequence: NonZeroU64::MIN,
        lease: Lease::new(LEASE).unwrap(),
        checkpoint: None,
    }
}

fn release(key: &IdempotencyKey, name: u8, release: Release) -> ReleaseRequest<'_> {
    ReleaseRequest { key, token: token(name), attempt: AttemptNumber::FIRST, release }
}

fn is_acquired(outcome: &ClaimOutcome) -> bool {
    matches!(outcome, ClaimOutcome::Acquired(_))
}

#[tokio::test]
async fn a_key_goes_from_claim_to_replay() {
    let clock = ManualClock::new();
    let store = CasStore::new(MapRecords::new(clock.clone()));
    let key = key();
    assert_eq!(store.lookup(&key).await.unwrap(), None);
    assert!(is_acquired(&store.claim(claim(&key, 1)).await.unwrap()));
    clock.advance(LEASE);
    let held = store.renew(renew(&key, 1)).await.unwrap();
    assert_eq!(held, RenewOutcome::Held { lease_remaining: LEASE });
    let done = store.complete(complete(&key, 1)).await.unwrap();
    assert_eq!(done, FinishOutcome::Done);
    let replay = store.claim(claim(&key, 2)).await.unwrap();
    assert!(
        matches!(&replay, ClaimOutcome::Replay(replay) if replay.response == "answer"),
        "{replay:?}"
    );
    let record = store.lookup(&key).await.unwrap().unwrap();
    let (stored, _) = store.records().stored(&place()).unwrap();
    assert_eq!(Record::decode(&stored.value, &place()), Ok(record));
    clock.advance(Retention::DEFAULT.get() + Duration::from_millis(1));
    assert_eq!(store.lookup(&key).await.unwrap(), None, "C30");
}

/// C25, C29: the record that remembers the token is unused for everybody else.
#[tokio::test]
async fn a_key_that_was_not_started_is_free_but_not_for_its_old_token() {
    let store = CasStore::new(MapRecords::new(ManualClock::new()));
    let key = key();
    let _ = store.claim(claim(&key, 1)).await.unwrap();
    let freed = release(&key, 1, Release::NotStarted);
    let outcome = store.release(freed).await.unwrap();
    assert_eq!(outcome, ReleaseOutcome::Released);
    let spent = store.claim(claim(&key, 1)).await.unwrap_err();
    assert_eq!(spent.kind(), ErrorKind::TokenSpent);
    assert!(is_acquired(&store.claim(claim(&key, 2)).await.unwrap()));
}

/// The value and its expiry travel together (C32).
#[tokio::test]
async fn every_value_is_put_with_the_expiry_it_holds() {
    let clock = ManualClock::new();
    let store = CasStore::new(MapRecords::new(clock.clone()));
    let key = key();
    let _ = store.claim(claim(&key, 1)).await.unwrap();
    let expected = clock.now().after(LEASE).after(Retention::DEFAULT.get());
    assert_eq!(store.records().stored(&place()).unwrap().1, expected);
    let _ = store.complete(complete(&key, 1)).await.unwrap();
    let expected = clock.now().after(Retention::DEFAULT.get());
    assert_eq!(store.records().stored(&place()).unwrap().1, expected);
}

/// C40, C41: too large is refused before the store is asked.
#[tokio::test]
async fn what_is_too_large_never_reaches_the_store() {
    let store = CasStore::new(MapRecords::new(ManualClock::new()));
    let key = key();
    let profile = store.profile().clone();
    let complete = CompleteRequest {
        response: vec![0; profile.max_response_bytes + 1].into(),
        ..complete(&key, 1)
    };
    let renew = RenewRequest {
        checkpoint: Some(vec![0; profile.max_checkpoint_bytes + 1].into()),
        ..renew(&key, 1)
    };
    for error in
        [store.complete(complete).await.unwrap_err(), store.renew(renew).await.unwrap_err()]
    {
        let said = (error.kind(), error.effect());
        assert_eq!(said, (ErrorKind::TooLarge, Effect::None));
    }
    assert_eq!(store.records().calls(), 0);
}

/// Kind of fault: the second claim overwrites the first (H-01). C02: 200 rounds of 50 callers that
/// start together; in each round one executes and the others see its attempt.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_fifty_simultaneous_claims_exactly_one_is_acquired() {
    let store = Arc::new(CasStore::new(MapRecords::new(ManualClock::new())));
    for round in 0..200 {
        let key = IdempotencyKey::new("scope", format!("round-{round}")).unwrap();
        let start = Arc::new(tokio::sync::Barrier::new(50));
        let callers = (0..50_u8).map(|name| {
            let (store, key) = (Arc::clone(&store), key.clone());
            let start = Arc::clone(&start);
            tokio::spawn(async move {
                start.wait().await;
                (name, store.claim(claim(&key, name)).await.unwrap())
            })
        });
        let mut winners = Vec::new();
        for caller in callers.collect::<Vec<_>>() {
            match caller.await.unwrap() {
                (name, ClaimOutcome::Acquired(_)) => winners.push(name),
                (_, ClaimOutcome::InProgress(running)) => {
                    assert_eq!(running.attempt, AttemptNumber::FIRST);
                }
                (_, other) => panic!("{other:?}"),
            }
        }
        let record = store.lookup(&key).await.unwrap().unwrap();
        let [winner] = winners[..] else {
            panic!("round {round}: {winners:?} were all acquired");
        };
        assert_eq!(record.token, token(winner));
    }
}
