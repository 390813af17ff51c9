//! What is found at the place of a record and is none.

use idempotency_conformance::unique_namespace;
use idempotency_core::{
    AttemptNumber, Effect, ErrorKind, IdempotencyStore, Release, SeenClaim, Settlement, StoreAdmin,
};
use idempotency_redis::redis;

use crate::support::{Caller, connect, key, raw, server};

/// Kind of fault: unreadable and mixed-version records (H-22). Whatever it is, every operation says that
/// it cannot be read, and leaves it and its expiry as they are.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_record_is_refused_and_left_alone() {
    let namespace = unique_namespace();
    let store = connect(&server().url(), &namespace).await;
    let mut raw = raw(server()).await;
    let donor = Caller::new(&key("k/donor"));
    donor.acquire(&store).await;
    let place = |name: &str| namespace.storage_key(&key(format!("k/{name}"))).as_str().to_owned();
    let mut get = redis::cmd("GET");
    let record: Vec<u8> = get.arg(place("donor")).query_async(&mut raw).await.unwrap();
    let with = |at: usize, byte: u8| {
        let mut changed = record.clone();
        changed[at] = byte;
        changed
    };
    for (case, value) in [
        ("number", b"1".to_vec()),
        ("empty", Vec::new()),
        ("json", b"{\"status\":\"done\"}".to_vec()),
        ("cut", record[..record.len() - 1].to_vec()),
        ("cut to its name", record[..20].to_vec()),
        ("longer", [record.as_slice(), b"x"].concat()),
        ("newer", with(3, 2)),
        ("no format", with(3, 0)),
        ("of another key", record.clone()),
    ] {
        let () =
            redis::cmd("SET").arg(place(case)).arg(&value).query_async(&mut raw).await.unwrap();
        refuses_everything(&store, case).await;
        let mut get = redis::cmd("GET");
        let after: Vec<u8> = get.arg(place(case)).query_async(&mut raw).await.unwrap();
        assert_eq!(after, value, "{case}");
    }
    for (case, command) in [("a list", "LPUSH"), ("a set", "SADD")] {
        let () = redis::cmd(command).arg(place(case)).arg("x").query_async(&mut raw).await.unwrap();
        refuses_everything(&store, case).await;
        let mut exists = redis::cmd("TYPE");
        let kind: String = exists.arg(place(case)).query_async(&mut raw).await.unwrap();
        assert!(case.ends_with(&kind), "{case}: {kind}");
    }
    // a record whose expiry somebody took away has no clock any more
    let lasting = Caller::new(&key("k/lasting"));
    lasting.acquire(&store).await;
    let () = redis::cmd("PERSIST").arg(place("lasting")).query_async(&mut raw).await.unwrap();
    refuses_everything(&store, "lasting").await;
}

async fn refuses_everything(store: &idempotency_redis::RedisStore, case: &str) {
    let caller = Caller::new(&key(format!("k/{case}")));
    let seen = SeenClaim { token: caller.token, attempt: AttemptNumber::FIRST };
    let errors = [
        caller.claim(store).await.map(drop).unwrap_err(),
        caller.complete(store, "x").await.map(drop).unwrap_err(),
        caller.renew(store, 1).await.map(drop).unwrap_err(),
        caller.release(store, Release::Failed).await.map(drop).unwrap_err(),
        store.lookup(&caller.key).await.map(drop).unwrap_err(),
        store.settle(&caller.key, seen, Settlement::Failed).await.map(drop).unwrap_err(),
        store.remove(&caller.key, seen).await.map(drop).unwrap_err(),
    ];
    for error in errors {
        let expected = (ErrorKind::Corrupt, Effect::None);
        assert_eq!((error.kind(), error.effect()), expected, "{case}: {error}");
        assert!(!format!("{error} {error:?}").contains("k/"), "{error:?}");
    }
}

/// Kind of fault: TTL arguments and atomic expiry (H-47). From the shortest durations to the longest,
/// what is written has the expiry that was asked for.
#[tokio::test(flavor = "multi_thread")]
async fn the_shortest_and_the_longest_durations_are_written_with_their_expiry() {
    use idempotency_core::{Lease, Retention};
    let namespace = unique_namespace();
    let store = connect(&server().url(), &namespace).await;
    let mut raw = raw(server()).await;
    for (name, lease, retention) in [
        (
            "short",
            Lease::new(std::time::Duration::from_micros(400)),
            Retention::new(Retention::MAX),
        ),
        ("long", Lease::new(Lease::MAX), Retention::new(Retention::MAX)),
        ("odd", Lease::new(std::time::Duration::from_millis(1_500)), Ok(Retention::DEFAULT)),
    ] {
        let (lease, retention) = (lease.unwrap(), retention.unwrap());
        let caller = Caller { lease, retention, ..Caller::new(&key(name)) };
        caller.acquire(&store).await;
        let place = namespace.storage_key(&caller.key);
        let mut left = async || {
            let mut pttl = redis::cmd("PTTL");
            pttl.arg(place.as_str()).query_async::<u64>(&mut raw).await.unwrap()
        };
        let asked = u64::try_from((lease.get() + retention.get()).as_millis()).unwrap();
        let found = left().await;
        assert!(found <= asked && found > asked - 10_000, "{name}: {found} of {asked}");
        let _ = caller.complete(&store, "x").await.unwrap();
        let asked = u64::try_from(retention.get().as_millis()).unwrap();
        let found = left().await;
        assert!(found <= asked && found > asked - 10_000, "{name}: {found} of {asked}");
    }
}
