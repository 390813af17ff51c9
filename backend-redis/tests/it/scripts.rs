//! Scripts that the server has forgotten.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use idempotency_core::{FinishOutcome, RenewOutcome};
use idempotency_redis::redis;
use test_servers::redis::RedisServer;

use crate::support::{Caller, count, fresh, key};

/// Kind of fault: Redis scripts and cluster (H-45). Scripts that the server was told to forget, or lost
/// with its memory, must not be noticed by anybody.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_forgets_its_scripts_is_not_noticed() {
    let server = RedisServer::start().unwrap();
    let store = fresh(&server.url()).await;
    let forget = || server.tell(&["SCRIPT", "FLUSH"]).unwrap();
    let caller = Caller::new(&key("between"));
    caller.acquire(&store).await;
    for sequence in 1..4 {
        forget();
        let renewed = caller.renew(&store, sequence).await.unwrap();
        assert!(matches!(renewed, RenewOutcome::Held { .. }), "{renewed:?}");
    }
    forget();
    assert_eq!(caller.complete(&store, "done").await.unwrap(), FinishOutcome::Done);

    let over = Arc::new(AtomicBool::new(false));
    let forgetting = std::thread::spawn({
        let (over, port) = (Arc::clone(&over), server.url());
        move || {
            let mut raw = redis::Client::open(port).unwrap().get_connection().unwrap();
            while !over.load(Ordering::Relaxed) {
                redis::cmd("SCRIPT").arg("FLUSH").exec(&mut raw).unwrap();
            }
        }
    });
    let tasks: Vec<_> = (0..100)
        .map(|task| {
            let store = store.clone();
            tokio::spawn(async move {
                for round in 0..count(5, 50) {
                    let caller = Caller::new(&key(format!("{task}-{round}")));
                    caller.acquire(&store).await;
                    let renewed = caller.renew(&store, 1).await.unwrap();
                    assert!(matches!(renewed, RenewOutcome::Held { .. }), "{renewed:?}");
                    let done = caller.complete(&store, "done").await.unwrap();
                    assert_eq!(done, FinishOutcome::Done);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    over.store(true, Ordering::Relaxed);
    forgetting.join().unwrap();

    let caller = Caller::new(&key("restarted"));
    server.kill_and_restart().unwrap();
    // the memory is gone with the server: what is left to show is that nobody sees an error
    caller.acquire(&store).await;
    assert_eq!(caller.complete(&store, "done").await.unwrap(), FinishOutcome::Done);
}
