//! Answers that are too large to keep, do not end, or break off.

use std::time::Duration;

use axum::{
    Router,
    body::Body,
    response::{IntoResponse, Response},
    routing::post as on_post,
};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::header;
use http_body_util::BodyExt;
use idempotency_core::{Clock, SystemClock};

use crate::{
    demo::{Runs, layer},
    support::{Connection, Server, post, within},
};

const LIMIT: usize = 64 * 1024;

/// Kind of fault: what is too large is not stored, so a retry runs again (H-39).
#[tokio::test]
async fn the_first_caller_gets_a_large_answer_in_full_and_a_retry_is_told() {
    for (size, is_kept) in [(LIMIT - 1, true), (LIMIT, true), (LIMIT + 1, false), (5 << 20, false)]
    {
        for chunked in [false, true] {
            let runs = Runs::default();
            let count = runs.clone();
            let handler = on_post(move || {
                count.count();
                let whole = Bytes::from(vec![b'x'; size]);
                async move {
                    if !chunked {
                        return Body::from(whole);
                    }
                    let chunks: Vec<_> = whole.chunks(10_000).map(Bytes::copy_from_slice).collect();
                    Body::from_stream(stream::iter(chunks).map(Ok::<_, std::io::Error>))
                }
            });
            let layer = layer().max_response_bytes(LIMIT);
            let server = Server::start(Router::new().route("/", handler).route_layer(layer)).await;
            let first = server.send(post("/").key("k")).await;
            assert_eq!((first.status.as_u16(), first.body.len()), (200, size));
            assert!(first.body.iter().all(|b| *b == b'x'));
            let second = server.send(post("/").key("k")).await;
            if is_kept {
                assert!(second.is_replay() && second.body == first.body);
            } else {
                let told = (second.status.as_u16(), second.problem());
                assert_eq!(told, (410, "answer-not-kept"));
                assert!(second.text().contains("too large"), "{}", second.text());
            }
            assert_eq!(runs.get(), 1, "{size} {chunked}");
        }
    }
}

/// An answer the layer would keep and the store does not take.
#[tokio::test]
async fn what_only_the_store_finds_too_large_is_not_kept_either() {
    let store = idempotency_memory::MemoryStore::builder().max_response_bytes(1_000);
    let layer = idempotency_tower::IdempotencyLayer::new(store.build(), crate::demo::account);
    let app = Router::new().route("/", on_post(|| async { "x".repeat(1_000) }));
    let server = Server::start(app.route_layer(layer)).await;
    assert_eq!(server.send(post("/").key("k")).await.body.len(), 1_000);
    let second = server.send(post("/").key("k")).await;
    assert_eq!(second.problem(), "answer-not-kept");
}

fn events(pause: Duration, count: usize) -> Body {
    let events = stream::iter(0..count).then(move |number| async move {
        if number > 0 {
            tokio::time::sleep(pause).await;
        }
        Ok::<_, std::io::Error>(format!("data: {number}\n\n"))
    });
    Body::from_stream(events)
}

fn event_stream(pause: Duration, count: usize) -> Response {
    let kind = [(header::CONTENT_TYPE, "text/event-stream; charset=utf-8")];
    (kind, events(pause, count)).into_response()
}

/// Streams that go on long after their beginning.
fn streams(runs: &Runs, pause: Duration, count: usize) -> Router {
    let (of_events, of_plain) = (runs.clone(), runs.clone());
    let event_stream = on_post(move || async move {
        of_events.count();
        event_stream(pause, count)
    });
    let plain = on_post(move || async move {
        of_plain.count();
        events(pause, count)
    });
    Router::new().route("/events", event_stream).route("/plain", plain).route_layer(layer())
}

/// Kind of fault: clients of a stream get nothing until it has ended (H-40). An event stream starts at
/// once, another one after `buffer_wait`, which is 250 ms: by default both within 300 ms. That a machine stands
/// still for a moment is no fault of the layer, so of several streams the quickest counts, and of event
/// streams, which wait for nothing, half of them.
#[tokio::test]
async fn streams_start_within_300_ms() {
    const LIMIT: Duration = Duration::from_millis(300);
    const STREAMS: usize = 9;
    let runs = Runs::default();
    // what comes second comes too late
    let server = Server::start(streams(&runs, Duration::from_secs(2), 2)).await;
    let clock = SystemClock::new();
    for (path, have_to) in [("/events", STREAMS.div_ceil(2)), ("/plain", 1)] {
        let mut waited = Vec::new();
        for number in 0..STREAMS {
            let begun = clock.monotonic();
            let mut connection = Connection::open(server.addr).await;
            let call = post(path).key(format!("{path}-{number}"));
            let mut body = connection.begin(call).await.into_body();
            let first = within(body.frame()).await.unwrap().unwrap().into_data().unwrap();
            waited.push(clock.monotonic().saturating_sub(begun));
            assert_eq!(first, "data: 0\n\n", "{path}");
        }
        let in_time = waited.iter().filter(|waited| **waited < LIMIT).count();
        assert!(in_time >= have_to, "{path}: {waited:?}");
    }
    assert_eq!(runs.get(), 2 * STREAMS);
}

/// Kind of fault: a stream that is replayed as an empty answer (H-40).
#[tokio::test]
async fn streams_are_never_replayed() {
    let runs = Runs::default();
    let server = Server::start(streams(&runs, Duration::from_millis(200), 15)).await;
    let one = async |path: &str| {
        let mut connection = Connection::open(server.addr).await;
        let mut body = connection.begin(post(path).key(path)).await.into_body();
        let first = within(body.frame()).await.unwrap().unwrap();
        assert!(first.into_data().unwrap().starts_with(b"data: 0"), "{path}");
        // a retry while the stream still runs, and one after its end
        let retry = server.send(post(path).key(path)).await;
        assert_eq!((retry.status.as_u16(), retry.problem()), (410, "answer-not-kept"));
        assert!(retry.text().contains("stream"), "{}", retry.text());
        let rest = within(body.collect()).await.unwrap().to_bytes();
        assert!(rest.ends_with(b"data: 14\n\n"), "{path}");
        let retry = server.send(post(path).key(path)).await;
        assert_eq!(retry.problem(), "answer-not-kept");
    };
    tokio::join!(one("/events"), one("/plain"));
    assert_eq!(runs.get(), 2);
}

/// Kind of fault: an answer that broke off is replayed as a whole one (H-41).
#[tokio::test]
async fn an_answer_that_breaks_off_is_not_replayed() {
    let runs = Runs::default();
    let count = runs.clone();
    let handler = on_post(move || {
        count.count();
        let chunks = ["1", "2", "error"].map(|chunk| match chunk {
            "error" => Err(std::io::Error::other("broke off")),
            chunk => Ok(Bytes::from(chunk)),
        });
        async { Body::from_stream(stream::iter(chunks)) }
    });
    let server = Server::start(Router::new().route("/", handler).route_layer(layer())).await;
    let mut connection = Connection::open(server.addr).await;
    let first = connection.begin(post("/").key("k")).await;
    assert_eq!(first.status(), 200);
    assert!(within(first.into_body().collect()).await.is_err(), "the caller sees it break");
    let second = server.send(post("/").key("k")).await;
    assert_eq!((second.status.as_u16(), second.problem()), (410, "answer-not-kept"));
    assert!(second.text().contains("broke off"), "{}", second.text());
    assert_eq!(runs.get(), 1);
}

/// Kind of fault: the recorder grows with a stream that never ends (H-41). What is held is bounded by
/// the limit; the rest goes through as it comes.
#[tokio::test]
async fn an_endless_answer_goes_through() {
    let chunk = Bytes::from(vec![b'x'; 16 * 1024]);
    let handler = on_post(move || {
        let chunks = stream::repeat(chunk.clone()).map(Ok::<_, std::io::Error>);
        async { Body::from_stream(chunks) }
    });
    let layer = layer().max_response_bytes(LIMIT);
    let server = Server::start(Router::new().route("/", handler).route_layer(layer)).await;
    let mut connection = Connection::open(server.addr).await;
    let mut body = connection.begin(post("/").key("k")).await.into_body();
    let mut received = 0;
    while received < 64 << 20 {
        let frame = within(body.frame()).await.unwrap().unwrap();
        received += frame.into_data().unwrap().len();
    }
    drop((body, connection));
    let second = server.send(post("/").key("k")).await;
    assert_eq!(second.problem(), "answer-not-kept");
}
