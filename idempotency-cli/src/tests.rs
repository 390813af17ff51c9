//! The verbs in this process: on `memory:`, whose records another process never sees, and on a store
//! that can do nothing but the contract.

use std::{io::BufRead, time::Duration};

use clap::Parser;
use idempotency::{
    ClaimOutcome, ClaimRequest, ClaimToken, Fingerprint, IdempotencyKey, Lease, ListQuery,
    ListState, Retention, Takeover,
};

use super::*;

async fn call(
    store: &Connected,
    call: &str,
    typed: Option<&str>,
) -> (anyhow::Result<Ended>, String) {
    let arguments = ["idempotency"].into_iter().chain(call.split(' '));
    let mut typed = typed.map(str::as_bytes);
    let answers = typed.as_mut().map(|typed| typed as &mut (dyn BufRead + Send));
    let mut out = Vec::new();
    let mut console = Console::new(&mut out, answers);
    let ended = match Cli::try_parse_from(arguments).unwrap().command {
        Command::Lookup(options) => lookup::run(&options, store, &mut console).await,
        Command::List(options) => list::run(&options, store, &mut console).await,
        Command::Settle(options) => settle::run(&options, store, &mut console).await,
        Command::Remove(options) => remove::run(&options, store, &mut console).await,
        Command::Sweep(options) => sweep::run(&options, store, &mut console).await,
        Command::Schema(options) => schema::run(&options, store, &mut console).await,
        Command::Doctor(options) => doctor::run(&options, store, &mut console).await,
        _ => panic!("{call}"),
    };
    (ended, String::from_utf8(out).unwrap())
}

async fn store_with_an_abandoned_attempt() -> Connected {
    let store = idempotency::connect("memory:").await.unwrap();
    let request = ClaimRequest {
        key: &IdempotencyKey::new("shop", "lost").unwrap(),
        fingerprint: Fingerprint::of_bytes("x"),
        token: ClaimToken::random().unwrap(),
        lease: Lease::new(Duration::from_millis(1)).unwrap(),
        retention: Retention::DEFAULT,
        takeover: Takeover::Allow,
    };
    let claimed = store.store().claim(request).await.unwrap();
    assert!(matches!(claimed, ClaimOutcome::Acquired(_)), "{claimed:?}");
    let query = ListQuery { state: Some(ListState::Abandoned), ..ListQuery::default() };
    let abandoned = async {
        while store.admin().unwrap().list(query.clone()).await.unwrap().records.is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), abandoned).await.unwrap();
    store
}

#[tokio::test]
async fn records_in_memory_are_listed_settled_and_removed() {
    let store = store_with_an_abandoned_attempt().await;
    let (ended, shown) = call(&store, "list memory: --keys", None).await;
    assert_eq!(ended.unwrap(), Ended::Done);
    assert!(shown.contains("shop") && shown.contains("abandoned"), "{shown}");
    let settle = "settle memory: lost --scope shop --failed";
    let (ended, shown) = call(&store, settle, Some("n\n")).await;
    assert!(ended.is_err() && shown.contains("attempt 2"), "{shown}");
    let (ended, shown) = call(&store, settle, Some("y\n")).await;
    assert_eq!(ended.unwrap(), Ended::Done, "{shown}");
    let (ended, shown) = call(&store, "lookup memory: lost --scope shop", None).await;
    assert!(ended.unwrap() == Ended::Done && shown.contains("failed"), "{shown}");
    let (ended, shown) = call(&store, "remove memory: lost --scope shop", Some("yes\n")).await;
    assert!(ended.unwrap() == Ended::Done && shown.ends_with("removed\n"), "{shown}");
    let (ended, _) = call(&store, "lookup memory: lost --scope shop", None).await;
    assert_eq!(ended.unwrap(), Ended::No);
}

/// A store of a user's own that implements the contract alone.
#[tokio::test]
async fn a_store_without_a_verb_says_so() {
    let full = store_with_an_abandoned_attempt().await;
    let bare = Connected::new(full.store());
    for (verb, what) in [
        ("list memory:", "list its records"),
        ("settle memory: lost --scope shop --failed --yes", "settle an attempt"),
        ("remove memory: lost --scope shop --yes", "remove a record"),
        ("doctor memory:", "be examined"),
    ] {
        let (ended, shown) = call(&bare, verb, None).await;
        let error = ended.unwrap_err();
        assert_eq!(error.to_string(), format!("the store memory cannot {what}"), "{shown}");
        assert!(matches!(error.downcast_ref(), Some(ended::Refused::CannotDo(_))), "{error:?}");
    }
    let (ended, shown) = call(&bare, "sweep memory:", None).await;
    assert!(ended.unwrap() == Ended::Done && shown.contains("itself"), "{shown}");
    let (ended, _) = call(&bare, "lookup memory: lost --scope shop", None).await;
    assert_eq!(ended.unwrap(), Ended::Done);
}
