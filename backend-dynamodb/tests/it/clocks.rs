//! Clocks that differ (C33): within the bound nothing happens early, beyond it nothing happens at all.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use idempotency_conformance::unique_namespace;
use idempotency_core::{
    ClaimOutcome, Clock, Effect, ErrorKind, Fingerprint, FinishOutcome, Idempotency,
    IdempotencyStore, Namespace, Never, RenewOutcome, Sleep, SystemClock, Timestamp,
};
use idempotency_dynamodb::DynamoDbStore;
use test_servers::dynamodb::{DynamoDbProxy, Fault};

use crate::support::{Caller, builder, connect, emulator, key, lease, proxied, soon};

/// The bound of these tests: dates are whole seconds.
const BOUND: Duration = Duration::from_secs(1);

/// The system's clock, set wrongly.
#[derive(Debug)]
struct Wrong {
    right: SystemClock,
    ahead: Duration,
    behind: Duration,
}

impl Wrong {
    fn ahead(ahead: Duration) -> Self {
        Self { right: SystemClock::new(), ahead, behind: Duration::ZERO }
    }

    fn behind(behind: Duration) -> Self {
        Self { right: SystemClock::new(), ahead: Duration::ZERO, behind }
    }
}

impl Clock for Wrong {
    fn now(&self) -> Timestamp {
        self.right.now().after(self.ahead).before(self.behind)
    }

    fn monotonic(&self) -> Duration {
        self.right.monotonic()
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        self.right.sleep(duration)
    }
}

async fn with_clock(namespace: &Namespace, clock: Wrong) -> DynamoDbStore {
    let builder = builder(namespace).skew_bound(BOUND).clock(clock);
    builder.endpoint(emulator().endpoint()).connect().await.unwrap()
}

/// Two machines whose clocks are half of the bound early and late: as far apart as may be.
async fn two_nodes() -> [DynamoDbStore; 2] {
    let namespace = unique_namespace();
    let half = BOUND / 2;
    [
        with_clock(&namespace, Wrong::ahead(half)).await,
        with_clock(&namespace, Wrong::behind(half)).await,
    ]
}

/// An owner that renews keeps its key, whoever's clock is ahead.
#[tokio::test(flavor = "multi_thread")]
async fn a_live_owner_is_not_taken_over_by_a_clock_at_the_bound() {
    let [ahead, behind] = two_nodes().await;
    for (owner, other, name) in [(&ahead, &behind, "a"), (&behind, &ahead, "b")] {
        let caller = Caller { lease: lease(2_000), ..Caller::new(&key(name)) };
        caller.acquire(owner).await;
        let clock = SystemClock::new();
        let mut sequence = 0;
        while clock.monotonic() < Duration::from_secs(4) {
            sequence += 1;
            let renewed = caller.renew(owner, sequence).await.unwrap();
            assert!(matches!(renewed, RenewOutcome::Held { .. }), "{renewed:?}");
            let outcome = Caller::new(&caller.key).claim(other).await.unwrap();
            assert!(matches!(outcome, ClaimOutcome::InProgress(_)), "{outcome:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(caller.complete(owner, "answer").await.unwrap(), FinishOutcome::Done);
    }
}

/// An owner that is dead is taken over: not before its lease is over on any clock, and not much later
/// than the bound.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_owner_is_taken_over_after_lease_and_bound() {
    let [ahead, behind] = two_nodes().await;
    for (owner, other, name) in [(&ahead, &behind, "a"), (&behind, &ahead, "b")] {
        let before = SystemClock::new();
        let caller = Caller { lease: lease(500), ..Caller::new(&key(name)) };
        caller.acquire(owner).await;
        let acquired = SystemClock::new();
        let next = Caller::new(&caller.key);
        let taken = soon("a take-over", async || match next.claim(other).await.unwrap() {
            ClaimOutcome::Acquired(acquired) => Some(acquired),
            ClaimOutcome::InProgress(_) => None,
            outcome => panic!("{outcome:?}"),
        });
        assert_eq!(taken.await.attempt.get(), 2);
        assert!(
            before.monotonic() >= Duration::from_millis(500),
            "early: {:?}",
            before.monotonic()
        );
        // lease, bound, and the difference of the two clocks; the rest is a slow machine
        let latest = Duration::from_millis(500) + 2 * BOUND + Duration::from_secs(10);
        assert!(acquired.monotonic() < latest, "late: {:?}", acquired.monotonic());
        assert_eq!(caller.complete(owner, "late").await.unwrap(), FinishOutcome::Lost);
    }
}

/// A clock that is a minute off is refused when connecting, and by the first operation of a store over
/// the application's own client; nothing is written.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_a_minute_off_is_refused_and_writes_nothing() {
    let minute = Duration::from_mins(1);
    for clock in [Wrong::ahead, Wrong::behind] {
        let proxy = DynamoDbProxy::start(emulator().address()).await.unwrap();
        let namespace = unique_namespace();
        let right = connect(proxy.address(), &namespace).await;
        let builder = builder(&namespace).skew_bound(BOUND).clock(clock(minute));
        let through = builder.clone().endpoint(format!("http://{}", proxy.address()));
        let error = through.connect().await.unwrap_err();
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Invalid, Effect::None), "{error}");
        assert!(error.to_string().contains("synchronize the clock"), "{error}");

        let store = builder.build(right.client().clone());
        let owner = Caller { lease: lease(1), ..Caller::new(&key("held")) };
        owner.acquire(&right).await;
        proxy.take_seen();
        let runs = AtomicU32::new(0);
        let idempotency = Idempotency::new(store.connected());
        for name in ["new", "held"] {
            let work = async |_| {
                runs.fetch_add(1, Ordering::SeqCst);
                Ok::<_, Never>(())
            };
            let outcome = idempotency.run(&key(name), Fingerprint::of_bytes("x"), work).await;
            assert!(outcome.is_err());
        }
        assert!(owner.complete(&store, "answer").await.is_err());
        assert_eq!(runs.load(Ordering::SeqCst), 0);
        let seen = proxy.take_seen();
        assert!(
            !seen.is_empty() && seen.iter().all(|seen| seen.operation == "GetItem"),
            "{seen:?}"
        );
        assert!(right.lookup(&key("new")).await.unwrap().is_none());
    }
}

/// A clock that goes wrong later, or a service whose time does: the answer is refused, nothing more is
/// written while that lasts, and everything works again afterwards without a restart.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_another_time_is_refused_until_the_times_agree() {
    let (proxy, store) = proxied().await;
    let owner = Caller::new(&key("k"));
    owner.acquire(&store).await;
    for seconds in [60, -60] {
        proxy.set(Fault::Date(seconds));
        proxy.take_seen();
        let error = Caller::new(&key(seconds)).claim(&store).await.unwrap_err();
        // the claim itself was written: nobody knew before
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Invalid, Effect::Unknown),
            "{error}"
        );
        let error = owner.complete(&store, "answer").await.unwrap_err();
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Invalid, Effect::None), "{error}");
        assert!(Caller::new(&owner.key).claim(&store).await.is_err());
        assert!(store.lookup(&owner.key).await.is_err());
        let seen: Vec<_> = proxy.take_seen().into_iter().map(|seen| seen.operation).collect();
        assert_eq!(seen, ["PutItem", "GetItem", "GetItem", "GetItem"]);
        proxy.set(Fault::None);
        let running = Caller::new(&owner.key).claim(&store).await.unwrap();
        assert!(matches!(running, ClaimOutcome::InProgress(_)), "{running:?}");
    }
    assert_eq!(owner.complete(&store, "answer").await.unwrap(), FinishOutcome::Done);
}

/// Dates are whole seconds: a difference within the bound, and one within the second beside it, is none.
#[tokio::test(flavor = "multi_thread")]
async fn a_difference_within_the_bound_is_none() {
    let namespace = unique_namespace();
    for clock in [Wrong::ahead(BOUND), Wrong::behind(BOUND)] {
        let store = with_clock(&namespace, clock).await;
        for round in 0..20 {
            let name = format!("{:?}-{round}", store.profile().skew_bound);
            let _answer = Caller::new(&key(name)).claim(&store).await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
