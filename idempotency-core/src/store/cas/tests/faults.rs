//! Lost races, lost replies, silence, and time that passes between two calls.

use super::{
    faulty::{Fault, Faulty},
    *,
};
use crate::{
    Effect, ErrorKind, Operation, RecordStore, SystemClock,
    machine::{self, Write},
};

/// A map in which token 1 holds the key.
async fn held() -> MapRecords {
    let map = MapRecords::new(ManualClock::new());
    let claimed = CasStore::new(map.clone()).claim(claim(&key(), 1)).await;
    assert!(is_acquired(&claimed.unwrap()));
    map
}

fn faulty(map: &MapRecords, fault: Fault, times: u32) -> CasStore<Faulty> {
    CasStore::new(Faulty::new(map, fault, times))
}

#[tokio::test(start_paused = true)]
async fn a_lost_race_is_run_again_on_what_is_there_then() {
    for lost in [1, 3, 15] {
        let store = faulty(&held().await, Fault::LoseRace, lost);
        let done = store.complete(complete(&key(), 1)).await.unwrap();
        assert_eq!(done, FinishOutcome::Done, "{lost} races lost");
    }
}

/// Kind of fault: endless contention. It ends, says so, and has changed nothing.
#[tokio::test(start_paused = true)]
async fn sixteen_lost_races_are_a_conflict_without_effect() {
    let map = held().await;
    let before = map.stored(&place()).unwrap().0.value;
    let store = faulty(&map, Fault::LoseRace, 16);
    let error = store.complete(complete(&key(), 1)).await.unwrap_err();
    let said = (error.kind(), error.operation(), error.effect());
    let expected = (ErrorKind::Conflict, Operation::Complete, Effect::None);
    assert_eq!(said, expected);
    assert!(error.is_transient());
    assert_eq!(map.stored(&place()).unwrap().0.value, before);
    let done = store.complete(complete(&key(), 1)).await.unwrap();
    assert_eq!(done, FinishOutcome::Done, "the seventeenth put is in peace");
}

/// Kind of fault: a retry after a lost reply is refused as a duplicate of itself. C03, C11.
#[tokio::test]
async fn a_caller_whose_reply_was_lost_is_recognised() {
    let map = MapRecords::new(ManualClock::new());
    let key = key();

    let store = faulty(&map, Fault::LoseReply, 1);
    let error = store.claim(claim(&key, 1)).await.unwrap_err();
    let said = (error.kind(), error.effect());
    assert_eq!(said, (ErrorKind::Unavailable, Effect::Unknown));
    let again = store.claim(claim(&key, 1)).await.unwrap();
    assert!(
        matches!(&again, ClaimOutcome::Acquired(it) if it.attempt == AttemptNumber::FIRST),
        "{again:?}"
    );
    let other = store.claim(claim(&key, 2)).await.unwrap();
    assert!(matches!(other, ClaimOutcome::InProgress(_)), "{other:?}");

    // shared, and of no particular type: that is a record store too
    let shared: Arc<dyn RecordStore> = Arc::new(Faulty::new(&map, Fault::LoseReply, 1));
    let store = CasStore::new(shared);
    let error = store.renew(renew(&key, 1)).await.unwrap_err();
    // the records below said `claim`
    assert_eq!(error.operation(), Operation::Renew);
    let again = store.renew(renew(&key, 1)).await.unwrap();
    assert!(matches!(again, RenewOutcome::Held { .. }), "{again:?}");

    let store = faulty(&map, Fault::LoseReply, 1);
    assert!(store.complete(complete(&key, 1)).await.is_err());
    let different =
        CompleteRequest { response: Bytes::from_static(b"made up since"), ..complete(&key, 1) };
    let again = store.complete(different).await.unwrap();
    assert_eq!(again, FinishOutcome::Done);
    let replay = store.claim(claim(&key, 3)).await.unwrap();
    assert!(matches!(&replay, ClaimOutcome::Replay(it) if it.response == "answer"), "{replay:?}");
}

/// C28.
#[tokio::test]
async fn a_release_whose_reply_was_lost_is_released() {
    for kind in [Release::NotStarted, Release::Failed, Release::Unknown] {
        let map = held().await;
        let store = faulty(&map, Fault::LoseReply, 1);
        assert!(store.release(release(&key(), 1, kind)).await.is_err());
        let written = map.stored(&place());
        let again = store.release(release(&key(), 1, kind)).await.unwrap();
        assert_eq!(again, ReleaseOutcome::Released);
        assert_eq!(map.stored(&place()), written, "{kind:?}");
    }
}

/// C51: a server that accepts and never answers.
#[tokio::test(start_paused = true)]
async fn silence_ends_with_a_timeout_and_says_what_may_have_happened() {
    let silent = faulty(&held().await, Fault::GetHangs, u32::MAX);
    let store = silent.timeout(Duration::from_secs(2));
    let clock = SystemClock::new();
    let key = key();
    let freed = release(&key, 1, Release::Failed);
    let errors = [
        store.claim(claim(&key, 1)).await.unwrap_err(),
        store.complete(complete(&key, 1)).await.unwrap_err(),
        store.renew(renew(&key, 1)).await.unwrap_err(),
        store.release(freed).await.unwrap_err(),
        store.lookup(&key).await.unwrap_err(),
    ];
    for error in errors {
        // a lookup changes nothing, whenever it arrives
        let lookup = error.operation() == Operation::Lookup;
        let effect = if lookup { Effect::None } else { Effect::Unknown };
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Timeout, effect), "{error}");
    }
    let took = clock.monotonic().as_secs();
    assert_eq!(took, 10, "five operations of two seconds");
}

/// C50: unknown means unknown. The put was applied, and the caller who asks again is told.
#[tokio::test(start_paused = true)]
async fn a_put_that_times_out_may_have_happened() {
    let map = MapRecords::new(ManualClock::new());
    let store = faulty(&map, Fault::PutHangs, 1);
    let error = store.claim(claim(&key(), 1)).await.unwrap_err();
    let said = (error.kind(), error.effect());
    assert_eq!(said, (ErrorKind::Timeout, Effect::Unknown));
    assert!(is_acquired(&store.claim(claim(&key(), 1)).await.unwrap()));
}

/// The owner renews half-way through its lease; then the lease it had before would be over.
fn stall_while_the_owner_renews(map: &MapRecords) {
    map.clock().advance(LEASE / 2);
    let (stored, _) = map.stored(&place()).unwrap();
    let record = Record::decode(&stored.value, &place()).unwrap();
    let now = map.clock().now().into();
    let renewed = machine::renew(Some(&record), &renew(&key(), 1), now);
    let Write::Put(renewed) = renewed.write else {
        panic!("{renewed:?}");
    };
    map.overwrite(&place(), renewed.encode(&place()));
    map.clock().advance(LEASE / 2 + Duration::from_millis(1));
}

/// Kind of fault: a verdict on an old read (H-04). A claim reads a live record and stalls; meanwhile
/// the owner renews, and the lease that was read runs out. The key was never abandoned, so no answer
/// may say so (C60).
#[tokio::test]
async fn a_record_that_is_renewed_during_a_stall_is_never_seen_as_abandoned() {
    for takeover in [Takeover::Refuse, Takeover::Allow] {
        let map = held().await;
        let fault = Fault::AfterGet(stall_while_the_owner_renews);
        let store = faulty(&map, fault, 1);
        let key = key();
        let request = ClaimRequest { takeover, ..claim(&key, 2) };
        let answer = store.claim(request).await.unwrap();
        assert!(matches!(answer, ClaimOutcome::InProgress(_)), "{answer:?} under {takeover:?}");
    }
}
