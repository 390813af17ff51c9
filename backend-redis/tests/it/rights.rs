//! What a user of the server needs, and what is told when something is missing.

use std::{num::NonZeroU32, time::Duration};

use idempotency_core::{
    Doctor, Effect, ErrorKind, FinishOutcome, IdempotencyStore, ListQuery, RenewOutcome,
    StoreAdmin, StoreError, Watch,
};
use idempotency_redis::RedisStore;
use test_servers::redis::{RedisCluster, RedisProgram, RedisSentinel, RedisServer};

use crate::{
    lists::list,
    support::{Caller, is_full, key, lease, replayed},
    transport::works,
};

/// What docs/backends.md lists.
const RIGHTS: [&str; 13] = [
    "+evalsha",
    "+eval",
    "+set",
    "+get",
    "+pttl",
    "+pexpiretime",
    "+time",
    "+setrange",
    "+publish",
    "+subscribe",
    "+unsubscribe",
    "+scan",
    "~idempotency/*",
];
const CHANNELS: &str = "&idempotency:*";

/// Gives the user `zoe` these rights and no others.
fn set_user<'a>(server: &RedisServer, rights: impl IntoIterator<Item = &'a str>) {
    let mut user = vec!["ACL", "SETUSER", "zoe", "reset", "resetchannels", "on", ">secret"];
    user.extend(rights);
    server.tell(&user).unwrap();
}

fn all<'a>(more: &[&'a str]) -> impl Iterator<Item = &'a str> {
    RIGHTS.into_iter().chain([CHANNELS]).chain(more.iter().copied())
}

fn url(server: &RedisServer, password: &str) -> String {
    format!("redis://zoe:{password}@{}", server.address())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_with_the_documented_rights_can_do_everything() {
    let server = RedisServer::start().unwrap();
    set_user(&server, all(&["+info", "+config|get"]));
    let store = RedisStore::connect(&url(&server, "secret")).await.unwrap();
    let caller = Caller { lease: lease(20), ..Caller::new(&key("k")) };
    caller.acquire(&store).await;
    let mut watching = store.watch(&caller.key).await.unwrap();
    assert!(matches!(caller.renew(&store, 1).await.unwrap(), RenewOutcome::Held { .. }));
    assert_eq!(caller.complete(&store, "x").await.unwrap(), FinishOutcome::Done);
    watching.changed().await.unwrap();
    assert_eq!(replayed(&store, &caller.key).await, "x");
    assert_eq!(list(&store, &ListQuery::default()).await, ["k"]);
    assert_eq!(store.examine().await.unwrap().len(), 5);
    // lists do without what the doctor needs
    set_user(&server, all(&[]));
    assert_eq!(list(&store, &ListQuery::default()).await, ["k"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_rights_do_with_replicas_sentinels_and_in_a_cluster() {
    let servers = RedisSentinel::start().unwrap();
    for server in [servers.primary(), servers.replica()] {
        set_user(server, all(&["+role", "+wait"]));
    }
    let with_user = |url: String| url.replacen("://", "://zoe:secret@", 1);
    let builder = RedisStore::builder().wait_replicas(NonZeroU32::MIN, Duration::from_secs(2));
    works(&builder.connect(&with_user(servers.url())).await.unwrap()).await;

    let cluster = RedisCluster::start().unwrap();
    for node in cluster.nodes() {
        set_user(node, all(&["+cluster|slots"]));
    }
    let store = RedisStore::connect(&with_user(cluster.url())).await.unwrap();
    works(&store).await;
    assert_eq!(list(&store, &ListQuery::default()).await, ["k"]);
}

/// What fails of an operation that needs the right.
async fn first_error(store: &RedisStore) -> StoreError {
    let caller = Caller::new(&key("k"));
    let errors = [
        store.lookup(&caller.key).await.err(),
        caller.claim(store).await.err(),
        caller.renew(store, 1).await.err(),
        caller.complete(store, "x").await.err(),
        store.list(ListQuery::default()).await.err(),
        store.watch(&caller.key).await.err(),
        store.examine().await.err(),
    ];
    errors.into_iter().flatten().next().expect("an error")
}

/// An error that only says "refused" sends people to their password. It says what to grant. The servers of the
/// matrix say it in different words.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_right_is_named() {
    let programs: &[_] = if is_full() { &RedisProgram::ALL } else { &[RedisProgram::Default] };
    for program in programs {
        missing_rights_are_named(*program).await;
    }
}

async fn missing_rights_are_named(program: RedisProgram) {
    let server = RedisServer::options().program(program).start().unwrap();
    // it knows no such command
    let is_old = program == RedisProgram::Redis62;
    let all = || all(&["+info"]).filter(|right| !is_old || *right != "+pexpiretime");
    set_user(&server, all());
    let store = RedisStore::connect(&url(&server, "secret")).await.unwrap();
    assert!(list(&store, &ListQuery::default()).await.is_empty());
    for (missing, named) in [
        ("+set", "`+set`"),
        ("+evalsha", "`+evalsha`"),
        ("+scan", "`+scan`"),
        ("+subscribe", "`+subscribe`"),
        ("+info", "`+info`"),
        ("~idempotency/*", "`~NAMESPACE/*`"),
        (CHANNELS, "`&idempotency:*`"),
        // a script runs it, and not every server says which one it was
        ("+get", "grant it "),
    ] {
        set_user(&server, all().filter(|right| *right != missing));
        let error = first_error(&store).await;
        let case = format!("{program:?} without {missing}: {error}");
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Denied, Effect::None), "{case}");
        assert!(error.to_string().contains(named), "{case}");
        assert!(!error.to_string().contains("zoe"), "{case}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_a_missing_one_and_a_wrong_database_are_told_apart() {
    let server = RedisServer::start().unwrap();
    set_user(&server, all(&[]));
    let of = async |url: &str| {
        let error = RedisStore::connect(url).await.unwrap_err();
        assert_eq!(error.effect(), Effect::None, "{error}");
        assert!(!format!("{error} {error:?}").contains("guess"), "{error:?}");
        (error.kind(), error.to_string())
    };
    let (kind, told) = of(&url(&server, "guess")).await;
    assert!(kind == ErrorKind::Denied && told.contains("user or the password"), "{told}");
    let (kind, told) = of(&format!("{}/1", url(&server, "secret"))).await;
    assert!(kind == ErrorKind::Denied && told.contains("`+select`"), "{told}");
    let by_socket = format!("redis+unix://{}?db=99", server.socket());
    for url in [format!("{}/99", server.url()), format!("{}/-1", server.url()), by_socket] {
        let (kind, told) = of(&url).await;
        assert!(kind == ErrorKind::Invalid && told.contains("`databases`"), "{url}: {told}");
    }
    let (kind, told) = of(&format!("{}/first", server.url())).await;
    assert!(kind == ErrorKind::Invalid && told.contains("database number"), "{told}");
    let node = &crate::support::cluster().nodes()[0];
    let (kind, told) = of(&format!("{}/1", node.url())).await;
    assert!(kind == ErrorKind::Invalid && told.contains("leave the number out"), "{told}");

    server.tell(&["CONFIG", "SET", "requirepass", "guess"]).unwrap();
    let store = RedisStore::connect(&server.url()).await;
    let error = match store {
        Ok(store) => Caller::new(&key("k")).claim(&store).await.unwrap_err(),
        Err(error) => error,
    };
    assert_eq!((error.kind(), error.effect()), (ErrorKind::Denied, Effect::None), "{error}");
    assert!(error.to_string().contains("PASSWORD@HOST"), "{error}");
}
