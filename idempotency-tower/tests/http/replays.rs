//! What a repetition gets.

use axum::{
    Router,
    response::{AppendHeaders, IntoResponse},
    routing::post as on_post,
};
use bytes::Bytes;
use http::{Method, StatusCode, header};
use idempotency_core::SystemClock;
use idempotency_tower::{KeySource, Profile, StoredHeaders};

use crate::{
    demo::{Runs, layer},
    support::{Connection, Server, post},
};

/// A route per kind of answer; each counts its runs.
fn answers(runs: &Runs) -> Router {
    fn route<R: IntoResponse + Send + 'static>(
        runs: &Runs,
        answer: impl Fn() -> R + Clone + Send + Sync + 'static,
    ) -> axum::routing::MethodRouter {
        let runs = runs.clone();
        on_post(move || {
            runs.count();
            let answer = answer();
            async move { answer }
        })
    }
    let number = runs.clone();
    let order = move || {
        let number = number.get();
        let location = (header::LOCATION, format!("/orders/{number}"));
        let json = (header::CONTENT_TYPE, "application/json".to_owned());
        let body = format!("{{\"id\":{number}}}");
        (StatusCode::CREATED, AppendHeaders([location, json]), body)
    };
    let chunked = || {
        let chunks = ["a", "b"].map(|chunk| Ok::<_, std::io::Error>(Bytes::from(chunk)));
        axum::body::Body::from_stream(futures_util::stream::iter(chunks))
    };
    Router::new()
        .route("/orders", route(runs, order))
        .route("/no-content", route(runs, || StatusCode::NO_CONTENT))
        .route("/not-modified", route(runs, || StatusCode::NOT_MODIFIED))
        .route("/zero", route(runs, || ""))
        .route("/null", route(runs, || axum::Json(())))
        .route(
            "/location",
            route(runs, || (StatusCode::CREATED, [(header::LOCATION, "/orders/1")])),
        )
        .route("/bytes", route(runs, || (0..=255).collect::<Vec<u8>>()))
        .route("/invalid", route(runs, || b"caf\xe9\0\xff".to_vec()))
        .route("/chunked", route(runs, chunked))
        .route("/lines", route(runs, lines))
}

fn lines() -> impl IntoResponse {
    let cookie = "a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT";
    AppendHeaders(
        [
            ("set-cookie", &b"b=2; Secure"[..]),
            ("set-cookie", cookie.as_bytes()),
            ("content-disposition", b"attachment; filename=\"a,b.txt\""),
            ("link", b"</a>; rel=\"next\""),
            ("link", b"</b>, </c>"),
            ("x-empty", b""),
            ("location", b"/caf\xe9"),
            ("www-authenticate", b"Bearer"),
            ("date", b"Wed, 21 Oct 2015 07:28:00 GMT"),
            ("connection", b"x-hop"),
            ("x-hop", b"1"),
            ("keep-alive", b"timeout=5"),
            ("traceparent", b"00-1-1-00"),
            ("x-request-id", b"r1"),
            ("x-ratelimit-remaining", b"7"),
        ]
        .map(|(name, value)| (name, http::HeaderValue::from_bytes(value).unwrap())),
    )
}

/// The exchange that all of this is about.
#[tokio::test]
async fn a_repetition_gets_the_first_answer_and_nothing_runs() {
    let runs = Runs::default();
    let server = Server::start(answers(&runs).route_layer(layer())).await;
    let first = server.send(post("/orders").key("k1")).await;
    assert_eq!(first.status, 201);
    assert_eq!(first.headers["location"], "/orders/1");
    assert!(!first.is_replay());
    let second = server.send(post("/orders").key("k1")).await;
    assert!(second.is_replay());
    assert_eq!(
        (second.status, &second.body, &second.headers["location"]),
        (first.status, &first.body, &first.headers["location"])
    );
    assert_eq!(runs.get(), 1);
    let other = server.send(post("/orders").key("k1").body("{}")).await;
    assert_eq!((other.status.as_u16(), other.problem()), (422, "key-reused"));
    assert_eq!((runs.get(), other.retry_after()), (1, None));
    assert_eq!(server.send(post("/orders").key("k2")).await.text(), "{\"id\":2}");
}

/// Both the first answer and its replays say when the key can be used for something else.
#[tokio::test]
async fn answers_tell_when_their_key_ends() {
    let server = Server::start(answers(&Runs::default()).route_layer(layer())).await;
    let first = server.send(post("/orders").key("k")).await;
    let second = server.send(post("/orders").key("k")).await;
    let now = idempotency_core::Clock::now(&SystemClock::new());
    for reply in [first, second] {
        let expires = reply.headers["idempotency-expires"].to_str().unwrap();
        let expires = httpdate::parse_http_date(expires).unwrap();
        let expires = expires.duration_since(std::time::UNIX_EPOCH).unwrap();
        let left = expires.as_secs() - now.as_unix_millis() / 1_000;
        assert!((86_390..=86_401).contains(&left), "{left}");
    }
}

/// Kinds of fault: an empty answer is taken for none (H-21); bytes that are not text are changed
/// (H-38); length and framing of a replay do not fit (H-37). One keep-alive connection for all, so
/// what does not fit breaks the next answer.
#[tokio::test]
async fn answers_of_every_shape_come_back_identical_on_one_connection() {
    let paths = [
        "/no-content",
        "/not-modified",
        "/zero",
        "/null",
        "/location",
        "/bytes",
        "/invalid",
        "/chunked",
    ];
    for http2 in [false, true] {
        let runs = Runs::default();
        let server = Server::start(answers(&runs).route_layer(layer())).await;
        let mut connection = if http2 {
            Connection::open_http2(server.addr).await
        } else {
            Connection::open(server.addr).await
        };
        for path in paths {
            let first = connection.send(post(path).key(path)).await;
            let second = connection.send(post(path).key(path)).await;
            assert!(second.is_replay(), "{path}");
            assert_eq!((second.status, &second.body), (first.status, &first.body), "{path}");
            assert_eq!(second.lines("location"), first.lines("location"), "{path}");
            let both = second.headers.contains_key("content-length")
                && second.headers.contains_key("transfer-encoding");
            assert!(!both, "{path}");
        }
        assert_eq!(runs.get(), paths.len());
    }
}

/// Kinds of fault: header lines that are joined or split (H-35); headers of one exchange or one
/// connection that are sent again (H-36).
#[tokio::test]
async fn header_lines_come_back_as_they_were_less_those_of_one_exchange() {
    let runs = Runs::default();
    let stored = StoredHeaders::default().allow(header::SET_COOKIE);
    let open = answers(&runs).route_layer(layer().stored_headers(stored));
    let strict = answers(&runs).route_layer(layer());
    for (app, cookies) in [(open, 2), (strict, 0)] {
        let server = Server::start(app).await;
        let first = server.send(post("/lines").key("k")).await;
        let second = server.send(post("/lines").key("k")).await;
        assert!(second.is_replay());
        for name in ["content-disposition", "link", "x-empty", "location"] {
            assert!(!first.lines(name).is_empty(), "{name}");
            assert_eq!(second.lines(name), first.lines(name), "{name}");
        }
        assert_eq!(first.lines("set-cookie").len(), 2);
        assert_eq!(second.lines("set-cookie"), first.lines("set-cookie")[..cookies]);
        for name in [
            "www-authenticate",
            "x-hop",
            "keep-alive",
            "transfer-encoding",
            "traceparent",
            "x-request-id",
            "x-ratelimit-remaining",
        ] {
            assert!(second.lines(name).is_empty(), "{name}");
        }
        assert_ne!(second.lines("date"), first.lines("date"), "the date is fresh");
        assert_eq!(second.lines("date").len(), 1);
    }
}

/// Kind of fault: reads that are answered from the store (H-44). What the profile does not name
/// passes untouched.
#[tokio::test]
async fn only_the_methods_of_the_profile_are_concerned() {
    let runs = Runs::default();
    let count = runs.clone();
    let any = axum::routing::any(move || {
        let number = count.count();
        async move { number.to_string() }
    });
    let mut profile = Profile::ietf();
    profile.methods = vec![Method::POST, Method::PUT].into();
    let store = crate::faulty_store::FaultyStore::new(crate::faulty_store::Mood::Well);
    let layer = idempotency_tower::IdempotencyLayer::new(store.clone(), crate::demo::account);
    let app = Router::new().route("/", any).route_layer(layer.profile(profile));
    let server = Server::start(app).await;
    let safe = [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE];
    for method in safe.into_iter().chain([Method::DELETE, Method::PATCH]) {
        let calls = (store.calls(), runs.get());
        for _ in 0..2 {
            let reply = server.send(post("/").method(method.clone()).key("k")).await;
            assert_eq!((reply.status.as_u16(), reply.is_replay()), (200, false));
        }
        assert_eq!((store.calls(), runs.get()), (calls.0, calls.1 + 2), "{method}");
    }
    for method in [Method::POST, Method::PUT] {
        let call = post("/").method(method.clone()).key(method.as_str());
        assert!(!server.send(call.clone()).await.is_replay());
        assert!(server.send(call).await.is_replay());
    }
}

/// A profile is data: header, rule, statuses and markers follow it.
#[tokio::test]
async fn another_profile_is_other_values() {
    let runs = Runs::default();
    let mut profile = Profile::ietf();
    profile.key_source = KeySource::Header(http::HeaderName::from_static("x-key"));
    profile.key_rule.max_bytes = 8;
    profile.statuses.mismatch = StatusCode::BAD_REQUEST;
    profile.statuses.key_missing = StatusCode::PRECONDITION_REQUIRED;
    profile.markers.replayed = None;
    profile.markers.expires = None;
    profile.retention = Some(idempotency_core::Retention::DEFAULT);
    let app = answers(&runs).route_layer(layer().profile(profile).required());
    let server = Server::start(app).await;
    let call = || post("/orders").header("x-key", "12345678");
    let first = server.send(call()).await;
    let second = server.send(call()).await;
    assert_eq!((second.status, &second.body), (first.status, &first.body));
    for name in ["idempotent-replayed", "idempotency-expires"] {
        assert!(!second.headers.contains_key(name));
    }
    let other = server.send(call().body("{}")).await;
    assert_eq!((other.status.as_u16(), other.problem()), (400, "key-reused"));
    let missing = server.send(post("/orders").key("k")).await;
    assert_eq!((missing.status.as_u16(), missing.problem()), (428, "key-missing"));
    let long = server.send(post("/orders").header("x-key", "123456789")).await;
    assert_eq!((long.status.as_u16(), long.problem()), (400, "key-invalid"));
    assert_eq!(runs.get(), 1);
}
