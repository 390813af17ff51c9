//! Keys that do not stand in a header.

use axum::{Router, extract::Request, routing::post as on_post};
use http_body_util::BodyExt;
use idempotency_tower::{IdempotencyLayer, JsonPointer, KeySource, Presence, Profile};

use crate::{
    demo::{Runs, account},
    faulty_store::{FaultyStore, Mood},
    support::{Call, Server, post},
};

fn profile(source: KeySource) -> Profile {
    let mut profile = Profile::ietf();
    profile.key_source = source;
    profile
}

/// A service that counts and echoes, and the store behind it.
async fn start(profile: Profile) -> (Server, FaultyStore, Runs) {
    let (runs, store) = (Runs::default(), FaultyStore::new(Mood::Well));
    let count = runs.clone();
    let echo = move |request: Request| async move {
        count.count();
        request.into_body().collect().await.unwrap().to_bytes()
    };
    let layer = IdempotencyLayer::new(store.clone(), account).max_request_bytes(200);
    let app = Router::new().route("/", on_post(echo)).route_layer(layer.profile(profile));
    (Server::start(app).await, store, runs)
}

fn json(body: &str) -> Call {
    post("/").header("content-type", "application/json").body(body.to_owned())
}

fn form(body: &str) -> Call {
    post("/").header("content-type", "application/x-www-form-urlencoded").body(body.to_owned())
}

#[tokio::test]
async fn a_key_can_stand_in_the_body() {
    let pointer = KeySource::JsonPointer(JsonPointer::new("/meta/request_id").unwrap());
    let parameter = KeySource::BodyParameter("ClientToken".into());
    let custom = KeySource::custom("the last word", |_, body| {
        let text = str::from_utf8(body).ok()?;
        text.rsplit_once(' ').map(|(_, word)| word.to_owned())
    });
    let cases = [
        (pointer, json(r#"{"meta":{"request_id":"k"}}"#), json(r#"{"meta":{"request_id":"l"}}"#)),
        (parameter.clone(), json(r#"{"ClientToken":"k"}"#), json(r#"{"ClientToken":"l"}"#)),
        (parameter, form("Action=Run&ClientToken=k"), form("Action=Run&ClientToken=l")),
        (custom, json("pay 5 k"), json("pay 5 l")),
    ];
    for (source, one, other) in cases {
        let (server, store, runs) = start(profile(source)).await;
        let first = server.send(one.clone()).await;
        assert_eq!((first.status.as_u16(), first.is_replay()), (200, false), "{one:?}");
        let second = server.send(one.clone()).await;
        assert!(second.is_replay() && second.body == first.body, "{one:?}");
        assert!(!server.send(other).await.is_replay());
        assert_eq!((runs.get(), store.calls()), (2, 5));
        // the header is not looked at
        assert!(server.send(one.key("else")).await.is_replay());
    }
}

/// Kind of fault: a missing key that all share (H-28), or a body that its search for a key has eaten
/// (H-42).
#[tokio::test]
async fn a_body_without_a_key_passes_and_nothing_is_stored() {
    let source = || KeySource::JsonPointer(JsonPointer::new("/id").unwrap());
    let (server, store, runs) = start(profile(source())).await;
    for body in ["{}", r#"{"id":null}"#, r#"{"other":"k"}"#, ""] {
        for _ in 0..2 {
            let reply = server.send(json(body).anonymous()).await;
            assert_eq!((reply.status.as_u16(), reply.text()), (200, body));
        }
    }
    assert_eq!((store.calls(), runs.get()), (0, 8));
    let keyed = json(r#"{"id":"k"}"#).anonymous();
    assert_eq!(server.send(keyed.clone()).await.problem(), "no-principal");
    let mut strict = profile(source());
    strict.presence = Presence::Required;
    let (server, store, runs) = start(strict).await;
    assert_eq!(server.send(json("{}")).await.problem(), "key-missing");
    assert_eq!(server.send(json("{}").anonymous()).await.problem(), "no-principal");
    assert_eq!((store.calls(), runs.get()), (0, 0));
}

/// Kinds of fault: keys of the body that are held to no rule (H-28 to H-31), and bodies whose key cannot
/// be told, which run without protection.
#[tokio::test]
async fn what_cannot_be_one_key_is_refused_in_bodies_too() {
    let parameter = profile(KeySource::BodyParameter("id".into()));
    let (server, store, runs) = start(parameter).await;
    let bad = [
        json(r#"{"id":""}"#),
        json(r#"{"id":" "}"#),
        json(r#"{"id":"ключ"}"#),
        json(r#"{"id":"a\u0000"}"#),
        json(r#"{"id":["a"]}"#),
        json(r#"{"id":true}"#),
        json(r#"{"id":"a","id":"b"}"#),
        json(r#"{"id":"a""#),
        json("id=a"),
        form("id=a&id=b"),
        form("id="),
        form("id=%ff"),
    ];
    for call in bad {
        let reply = server.send(call.clone()).await;
        assert_eq!((reply.status.as_u16(), reply.problem()), (400, "key-invalid"), "{call:?}");
        assert!(reply.text().contains("of the body") || reply.text().contains("JSON"));
    }
    let large = json(&format!(r#"{{"text":"{}"}}"#, "x".repeat(200)));
    assert_eq!(server.send(large).await.problem(), "body-too-large");
    assert_eq!((store.calls(), runs.get()), (0, 0));
}
