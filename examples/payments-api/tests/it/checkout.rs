//! The checkout page as its script uses the service, without a browser; `browser` has one.

use futures_util::future::join_all;
use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::service::{Call, Reply, Service, charge, eventually};

/// What the page sends.
fn pay(source: &str, key: &str) -> Call {
    charge(source).path("/checkout/charges").anonymous().customer("order_1").key(key)
}

async fn own_effects(service: &Service) -> usize {
    service.effects().await.iter().filter(|effect| effect["customer"] == "order_1").count()
}

/// As the page does it: while the first request runs, ask again.
async fn until_final(service: &Service, call: &Call) -> Reply {
    let mut last = None;
    eventually("a final answer", async || {
        let reply = service.send(call.clone()).await;
        let is_final = reply.status != 409;
        last = Some(reply);
        is_final
    })
    .await;
    last.unwrap()
}

/// Kind of fault: a page that takes scripts, styles or frames from anywhere, or that only works while
/// somebody else's server does.
#[tokio::test]
async fn the_page_is_complete_and_lets_nothing_in_from_elsewhere() {
    let service = Service::start(&[]).await;
    let page = service.send(charge("").get("/")).await;
    assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
    let html = String::from_utf8(page.body.to_vec()).unwrap();
    let attribute = |name: &str| {
        let before = format!(" {name}=\"");
        let parts = html.split(before.as_str()).skip(1);
        parts.map(|part| part.split('"').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let mut files = [attribute("src"), attribute("href")].concat();
    files.retain(|file| file != "data:,");
    assert_eq!(files, ["/checkout/page.js", "/checkout/page.css"]);
    files.extend(["/checkout/payment.js".to_owned(), "/checkout/ledger.js".to_owned()]);
    assert!(attribute("style").is_empty() && attribute("onclick").is_empty());
    for file in files.iter().map(String::as_str).chain(["/"]) {
        let reply = service.send(charge("").get(file)).await;
        assert_eq!(reply.status, 200, "{file}");
        let policy = reply.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'"), "{file}: {policy}");
        assert!(
            !policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"),
            "{policy}"
        );
        assert_eq!(reply.headers["x-content-type-options"], "nosniff");
        assert!(!String::from_utf8_lossy(&reply.body).contains("://"), "{file}");
    }
}

/// Kind of fault: a double click pays twice, and so does a reload (H-64).
#[tokio::test]
async fn double_click_and_reload_pay_once() {
    let service = Service::start(&[]).await;
    let call = pay("tok_slow_100", "4b0c7a34-5bd4-4a3e-9a53-2f4f0c3d2a11");
    let clicks = join_all((0..5).map(|_| service.send(call.clone()))).await;
    let created: Vec<_> = clicks.iter().filter(|reply| reply.status == 201).collect();
    assert!(clicks.iter().all(|reply| matches!(reply.status.as_u16(), 201 | 409)), "{clicks:?}");
    let reloaded = until_final(&service, &call).await;
    assert!(reloaded.is_replay() && reloaded.status == 201);
    assert!(created.iter().all(|reply| reply.body == reloaded.body));
    assert_eq!(own_effects(&service).await, 1);
    // another order is another key
    let next = service.send(pay("tok_visa", "9e2f3a52-1d0b-4f0e-8f6b-3a1d9ce1c0de")).await;
    assert_eq!((next.status.as_u16(), next.is_replay()), (201, false));
    assert_eq!(own_effects(&service).await, 2);
}

/// Kind of fault: the connection drops while the charge is made, and the retry makes another one (H-43).
#[tokio::test]
async fn a_dropped_connection_pays_once() {
    let service = Service::start(&[]).await;
    let key = "4b0c7a34-5bd4-4a3e-9a53-2f4f0c3d2a11";
    let call = pay("tok_slow_200", key);
    let body = call.body_text();
    let mut socket = TcpStream::connect(service.addr).await.unwrap();
    let head = format!(
        "POST /checkout/charges HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n\
         Idempotency-Key: {key}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all([head, body].concat().as_bytes()).await.unwrap();
    eventually("the charge", async || own_effects(&service).await == 1).await;
    drop(socket);
    let reply = until_final(&service, &call).await;
    assert_eq!((reply.status.as_u16(), reply.is_replay()), (201, true));
    assert_eq!(own_effects(&service).await, 1);
}

/// What the page shows of each card: replayed declines, failures that pass, and no way around the key.
#[tokio::test]
async fn the_route_answers_as_the_page_expects() {
    let service = Service::start(&[]).await;
    let without = charge("tok_visa").path("/checkout/charges").anonymous();
    assert_eq!(service.send(without).await.status, 400);
    let declined = service.send(pay("tok_card_declined", "k1")).await;
    assert_eq!(declined.status, 402);
    assert!(declined.json()["detail"].as_str().unwrap().contains("declined"));
    assert!(service.send(pay("tok_card_declined", "k1")).await.is_replay());
    for (source, status) in [("tok_unavailable_once", 503), ("tok_rate_limited_once", 429)] {
        let refused = service.send(pay(source, source)).await;
        assert_eq!(refused.status, status);
        assert_eq!(refused.headers["retry-after"], "1");
        assert_eq!(service.send(pay(source, source)).await.status, 201);
    }
    // the shop's charges are the shop's: a key of an account with the same text is another key
    let stranger = service.send(charge("tok_visa").key("k1")).await;
    assert_eq!((stranger.status.as_u16(), stranger.is_replay()), (201, false));
    assert_eq!(own_effects(&service).await, 2);
}

/// Kind of fault: whoever opens the page sends slowly, takes every place of the service, and accounts get 503
/// (H-42). The page has places of its own, and gets them back.
#[tokio::test]
async fn the_page_cannot_crowd_out_the_accounts() {
    let service = Service::start(&["--rate-limit", "1000/1s"]).await;
    let mut stalled = Vec::new();
    eventually("the page has no place left", async || {
        for _ in 0..16 {
            let head = format!(
                "POST /checkout/charges HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n\
                 Idempotency-Key: stalled-{}\r\nContent-Length: 100\r\n\r\n{{",
                stalled.len()
            );
            let mut socket = TcpStream::connect(service.addr).await.unwrap();
            socket.write_all(head.as_bytes()).await.unwrap();
            stalled.push(socket);
        }
        service.send(pay("tok_visa", "late")).await.status == 503
    })
    .await;
    assert!(stalled.len() < 500, "{}", stalled.len());
    assert_eq!(service.send(charge("tok_visa").key("order-1")).await.status, 201);
    drop(stalled);
    eventually("its places are free again", async || {
        service.send(pay("tok_visa", "late")).await.status == 201
    })
    .await;
}
