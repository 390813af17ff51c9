//! A receiver that is asked to end.
#![cfg(unix)]

use serde_json::json;
use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::{
    program::Program,
    support::{deliver, event, eventually, inbox, standard},
};

/// Kind of fault: the receiver dies at a rolling deploy amid its events (H-66), since it hears of Ctrl-C only
/// and orchestrators send SIGTERM. What has begun is answered, a sender that never ends what it sends
/// is waited for until it is asked once more.
#[tokio::test]
async fn what_has_begun_is_finished_when_it_is_asked_to_end() {
    for signal in ["-TERM", "-INT"] {
        let program = Program::start(&["--work", "1s"]).await;
        let address = program.address;
        let paid = event("charge.succeeded", "ch_1");
        let under_way = tokio::spawn(deliver(standard(address, "msg_1", &paid)));
        eventually("the event is being handled", async || inbox(address).await["begun"] == 1).await;
        let mut stalled = TcpStream::connect(address).await.unwrap();
        stalled.write_all(b"POST /webhooks/standard HTTP/1.1\r\nHost: h\r\n").await.unwrap();
        program.ask_to_end(signal);
        assert_eq!(under_way.await.unwrap(), (204, false), "{signal}");
        program.ask_to_end(signal);
        let (status, rest) = program.ended().await;
        assert!(status.success(), "{signal}: {status}");
        assert!(rest.contains("takes no new deliveries"), "{signal}: {rest}");
        assert!(rest.ends_with("has finished all it had begun\n"), "{signal}: {rest}");
    }
}

/// A delivery whose sender has gone is handled to its end as well.
#[tokio::test]
async fn what_nobody_waits_for_is_finished_too() {
    let redis = test_servers::redis::RedisServer::start;
    let redis = tokio::task::spawn_blocking(redis).await.unwrap().unwrap();
    let url = redis.url();
    let program = Program::start(&["--store", &url, "--work", "1s"]).await;
    let address = program.address;
    let paid = event("charge.succeeded", "ch_1");
    let leaving = tokio::spawn(standard(address, "msg_1", &paid).send());
    eventually("the event is being handled", async || inbox(address).await["begun"] == 1).await;
    leaving.abort();
    program.ask_to_end("-TERM");
    assert!(program.ended().await.0.success());
    let next = Program::start(&["--store", &url]).await;
    assert_eq!(deliver(standard(next.address, "msg_1", &paid)).await, (204, true));
    assert_eq!(inbox(next.address).await["handled"], json!([]));
}
