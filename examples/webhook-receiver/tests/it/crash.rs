//! A receiver that dies amid an event.

use test_servers::redis::RedisServer;

use crate::{
    program::Program,
    support::{deliver, event, eventually, inbox, standard},
};

/// Kind of fault: the process that dies amid an event has used it up (H-66). Its lease ends, then the next
/// delivery runs; until then the sender is told to come back.
#[tokio::test]
async fn after_a_crash_the_event_runs_when_the_lease_has_ended() {
    let redis = tokio::task::spawn_blocking(RedisServer::start).await.unwrap().unwrap();
    let url = redis.url();
    let options = ["--store", url.as_str(), "--lease", "1s"];
    let dying = Program::start(&[&options[..], &["--work", "1h"]].concat()).await;
    let paid = event("charge.succeeded", "ch_1");
    let first = tokio::spawn(standard(dying.address, "msg_1", &paid).send());
    let address = dying.address;
    eventually("the event is being handled", async || inbox(address).await["begun"] == 1).await;
    dying.kill().await;
    assert!(first.await.unwrap().is_err(), "nothing was acknowledged");

    let next = Program::start(&options).await;
    let redelivered = async || match deliver(standard(next.address, "msg_1", &paid)).await {
        (409, false) => {
            assert_eq!(inbox(next.address).await["begun"], 0);
            false
        }
        told => {
            assert_eq!(told, (204, false));
            true
        }
    };
    eventually("the event runs", redelivered).await;
    assert_eq!(inbox(next.address).await["handled"][0]["attempt"], 2);
    assert_eq!(deliver(standard(next.address, "msg_1", &paid)).await, (204, true));
    assert_eq!(inbox(next.address).await["begun"], 1);
}
