//! The API as the README describes it.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::Value;
use test_servers::redis::RedisServer;
use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::service::{Service, charge, eventually};

/// What the README promises: one charge, one answer, the truth while it runs and after misuse.
#[tokio::test]
async fn a_repeated_charge_happens_once() {
    let service = Service::start(&[]).await;
    let first = service.send(charge("tok_visa").key("order-1")).await;
    assert_eq!(first.status, 201);
    let json = first.json();
    assert_eq!(first.headers["location"], format!("/v1/charges/{}", json["id"].as_str().unwrap()));
    let mut members: Vec<_> = json.as_object().unwrap().keys().cloned().collect();
    members.sort();
    assert_eq!(members, ["amount", "currency", "customer", "id", "object", "status"]);
    let second = service.send(charge("tok_visa").key("\"order-1\"").token("sk_test_acme_2")).await;
    assert!(second.is_replay() && second.body == first.body);
    let other = service.send(charge("tok_visa").key("order-1").customer("cus_2")).await;
    assert_eq!(other.status, 422);
    let stranger = service.send(charge("tok_visa").key("order-1").token("sk_test_other")).await;
    assert_eq!((stranger.status.as_u16(), stranger.is_replay()), (201, false));
    let effects = service.effects().await;
    assert_eq!(effects.len(), 2);
    assert_eq!((&effects[0]["id"], &effects[0]["attempt"]), (&json["id"], &Value::from(1)));
    assert_eq!(effects[0]["key_digest"].as_str().unwrap().len(), 16);
    let list = service.send(charge("").get("/v1/charges")).await.json();
    assert_eq!(list["data"].as_array().unwrap().len(), 1, "the account's own");
    let refund = service.send(charge("tok_visa").path("/v1/refunds").key("refund-1")).await;
    assert_eq!((refund.status.as_u16(), &refund.json()["object"]), (201, &Value::from("refund")));
    assert_eq!(service.send(charge("").get("/healthz")).await.body, "ok");
}

/// Every test source, first and repeated: status, whether it is a replay, and the effects in the end.
#[tokio::test]
async fn every_source_does_what_the_table_says() {
    let service = Service::start(&["--max-response-bytes", "1000"]).await;
    let cases = [
        ("tok_card_declined", (402, false), (402, true), 0),
        ("tok_unavailable_once", (503, false), (201, false), 1),
        ("tok_rate_limited_once", (429, false), (201, false), 1),
        ("tok_internal_error", (500, false), (500, false), 0),
        ("tok_slow_10", (201, false), (201, true), 1),
        ("tok_panic", (500, false), (500, false), 2),
        ("tok_large_1000", (200, false), (200, true), 1),
        ("tok_large_1001", (200, false), (410, false), 1),
        ("tok_cookies", (201, false), (201, true), 1),
        ("tok_binary", (200, false), (200, true), 1),
        ("tok_empty", (204, false), (204, true), 1),
        ("tok_stream_2", (200, false), (410, false), 1),
    ];
    for (source, first_told, second_told, effects) in cases {
        let before = service.effects().await.len();
        let call = charge(source).key(source);
        let first = service.send(call.clone()).await;
        let second = service.send(call).await;
        assert_eq!((first.status.as_u16(), first.is_replay()), first_told, "{source}");
        assert_eq!((second.status.as_u16(), second.is_replay()), second_told, "{source}");
        if second.is_replay() {
            assert_eq!(second.body, first.body, "{source}");
            assert_eq!(second.lines("link"), first.lines("link"), "{source}");
            assert!(second.lines("set-cookie").is_empty());
        }
        assert_eq!(service.effects().await.len() - before, effects, "{source}");
    }
    let attempts = service.effects().await;
    let of_panic = attempts.iter().filter(|e| e["attempt"] == 2).count();
    assert_eq!(of_panic, 3, "two that passed, and the second panic");
}

#[tokio::test]
async fn bad_input_is_told_what_is_wrong_with_it() {
    let service = Service::start(&["--max-request-bytes", "500"]).await;
    let body = |text: &str| charge("tok_visa").body(text);
    let cases = [
        (body("{"), 400, "EOF"),
        (body("{}"), 422, "missing field"),
        (charge("tok_amex"), 422, "tok_card_declined"),
        (charge("tok_visa").customer(""), 422, "customer"),
        (charge("tok_visa").customer(&"x".repeat(600)), 413, "500"),
        (charge("tok_visa").token("sk_live_acme"), 401, "sk_test_ACCOUNT"),
    ];
    for (number, (call, status, detail)) in cases.into_iter().enumerate() {
        for call in [call.clone().key(format!("k{number}")), call] {
            let reply = service.send(call).await;
            assert_eq!(reply.status.as_u16(), status, "{reply:?}");
            assert_eq!(reply.headers["content-type"], "application/problem+json");
            let told = reply.json()["detail"].as_str().unwrap().to_owned();
            assert!(status == 413 || told.contains(detail), "{told}");
            assert_eq!(reply.headers.contains_key("www-authenticate"), status == 401);
        }
    }
    assert!(service.effects().await.is_empty());
}

/// Kind of fault: a deploy amid requests loses or doubles them (H-43), or leaves keys that are stuck. All that has
/// begun is finished, answered and stored before the process ends; the next process has an answer to every key
/// at once.
#[tokio::test]
async fn sigterm_amid_50_requests_loses_and_doubles_nothing() {
    let redis = tokio::task::spawn_blocking(RedisServer::start).await.unwrap().unwrap();
    let options = ["--store", &redis.url()];
    let mut service = Service::start(&options).await;
    let keys: Vec<String> = (0..50).map(|n| format!("key-{n}")).collect();
    let half_begun = async {
        eventually("effects", async || service.effects().await.len() >= 25).await;
        service.terminate();
    };
    // some wait for their answer, some leave after 100 ms
    let calls = keys.iter().enumerate().map(async |(number, key)| {
        let call = service.send(charge("tok_slow_400").key(key));
        let patience = Duration::from_millis(if number % 5 == 0 { 100 } else { 20_000 });
        tokio::time::timeout(patience, call).await.map(|reply| reply.status.as_u16())
    });
    let (replies, ()) = tokio::join!(join_all(calls), half_begun);
    for (number, reply) in replies.into_iter().enumerate() {
        assert!(if number % 5 == 0 { reply.is_err() } else { reply == Ok(201) }, "{number}");
    }
    let (status, output) = service.ended().await;
    assert!(status.success(), "{output}");
    let (_, effects) = output.rsplit_once("effects in the ledger: ").expect(&output);
    let effects = effects.trim().parse::<usize>().unwrap();
    // who leaves may leave before the request has arrived
    assert!((40..=50).contains(&effects), "{effects}");

    let next = Service::start(&options).await;
    let again = keys.iter().map(|key| next.send(charge("tok_slow_400").key(key)));
    let again = join_all(again).await;
    assert!(again.iter().all(|reply| reply.status == 201), "{again:?}");
    let replayed = again.iter().filter(|reply| reply.is_replay()).count();
    assert_eq!((replayed, next.effects().await.len()), (effects, 50 - effects));
}

/// Kind of fault: a client that never ends its upload keeps the process from ending (H-43).
#[tokio::test]
async fn asked_twice_it_ends_though_a_client_never_ends_its_upload() {
    let mut service = Service::start(&[]).await;
    let mut socket = TcpStream::connect(service.addr).await.unwrap();
    let half = "POST /v1/charges HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer sk_test_acme\r\n\
                Idempotency-Key: k\r\nContent-Length: 100\r\n\r\n{";
    socket.write_all(half.as_bytes()).await.unwrap();
    eventually("the service listens", async || service.effects().await.is_empty()).await;
    eventually("it ends", async || service.has_ended_when_asked()).await;
    let (status, output) = service.ended().await;
    assert!(status.success() && output.contains("effects in the ledger: 0"), "{output}");
}

#[tokio::test]
async fn wrong_options_are_refused_with_what_is_right() {
    for (options, told) in [
        (["--lease", "soon"], "30s"),
        (["--retention", "1s"], "--retention"),
        (["--store", "mysql://x"], "memory:"),
        (["--listen", "127.0.0.1:1x"], "--listen"),
        (["--rate-limit", "100"], "100/1s"),
    ] {
        let output = Service::refused(&options).await;
        assert!(output.contains(told), "{options:?}: {output}");
    }
}

/// The startup line is all that a newcomer needs.
#[tokio::test]
async fn the_startup_line_can_be_pasted() {
    let service = Service::start(&[]).await;
    let greeting = &service.greeting;
    assert!(greeting.contains(&format!("http://{}", service.addr)), "{greeting}");
    assert!(greeting.contains("kept in memory:"), "{greeting}");
    let body = greeting.split('\'').find(|part| part.starts_with("{\"amount\"")).unwrap();
    assert_eq!(service.send(charge("tok_visa").body(body).key("order-1")).await.status, 201);
}
