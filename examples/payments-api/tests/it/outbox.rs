//! Events in the database of their charges: none is lost, none is made up, whatever breaks.

use std::{collections::HashSet, time::Duration};

use futures_util::future::join_all;
use idempotency::sqlx::{self, Connection, PgConnection};
use test_servers::postgres::{CommitProxy, Cut};

use crate::{
    exactly_once::{call, count, insist, server},
    receiver::{Receiver, SILENCE, states},
    service::{Service, eventually, try_send},
};

/// The URL with another database: services on one database send each other's events.
fn within(url: &str, database: &str) -> String {
    format!("{}/{database}", url.rsplit_once('/').unwrap().0)
}

/// A database of its own on the server.
async fn database(name: &'static str) -> String {
    let mut connection = PgConnection::connect(&server().url()).await.unwrap();
    let create = sqlx::AssertSqlSafe(format!("CREATE DATABASE {name}"));
    sqlx::raw_sql(create).execute(&mut connection).await.unwrap();
    within(&server().url(), name)
}

async fn service_of(receiver: &Receiver, name: &str, url: &str) -> Service {
    let store = format!("{url}?create=on");
    let options = ["--store", &store, "--lease", "3s", "--rate-limit", "1000/1s"];
    receiver.service_named(name, &[&options[..], &["--webhook-timeout", "2s"]].concat()).await
}

/// Every event is delivered, and the ledger's charges are exactly those that have one.
async fn everything_is_delivered(service: &Service, receiver: &Receiver) {
    eventually("everything is delivered", async || {
        let states = states(service).await;
        states.iter().all(|event| event["state"] == "delivered")
            && states.len() == service.effects().await.len()
    })
    .await;
    let mut told = receiver.charges();
    told.dedup();
    assert_eq!(told, service.charges().await);
    let ids: HashSet<_> = receiver.ids().into_iter().collect();
    assert_eq!(ids.len(), told.len(), "one id for each charge");
}

/// Kinds of fault: the process learns nothing of a commit that happened, and tells nobody; or it tells of one
/// that did not happen; or a replay is told again (H-50).
#[tokio::test]
async fn a_connection_cut_around_the_commit_sends_one_event() {
    database("outbox_cut").await;
    let proxy = CommitProxy::start(server().address(), Duration::ZERO).await.unwrap();
    let receiver = Receiver::answering([]).await;
    let service = service_of(&receiver, "one", &within(&proxy.url(), "outbox_cut")).await;
    let rounds = count(20, 200);
    for round in 0..rounds {
        let call = call("tok_visa", &format!("cut_{round}"));
        proxy.cut(if round % 2 == 0 { Cut::AfterCommit } else { Cut::BeforeCommit });
        service.send(call.clone()).await;
        assert!(proxy.has_cut(), "no commit was seen");
        insist(&service, &call).await;
        assert!(service.send(call).await.is_replay());
    }
    everything_is_delivered(&service, &receiver).await;
    assert_eq!(receiver.got().len(), usize::try_from(rounds).unwrap());
}

/// Kind of fault: an event dies with the process that would have sent it (H-10). Its first try is under way,
/// and never answered, when the process is killed.
#[tokio::test]
async fn an_event_survives_the_process_that_was_sending_it() {
    let url = database("outbox_killed").await;
    let receiver = Receiver::answering([SILENCE]).await;
    let service = service_of(&receiver, "first", &url).await;
    assert_eq!(service.send(call("tok_visa", "killed")).await.status, 201);
    eventually("the first try", async || receiver.got().len() == 1).await;
    service.kill().await;
    let service = service_of(&receiver, "second", &url).await;
    everything_is_delivered(&service, &receiver).await;
    let got = receiver.got();
    assert_eq!(got.len(), 2, "{got:?}");
    assert_eq!((got[1].id(), &got[1].body), (got[0].id(), &got[0].body));
    assert_eq!(got[1].sender, "second");
}

/// The same at any moment: killed in the middle of 30 charges, before, in and after their commits.
#[tokio::test]
async fn a_service_that_is_killed_tells_of_each_charge() {
    let url = database("outbox_killed_at_work").await;
    let receiver = Receiver::slow(Duration::from_millis(50), []).await;
    let service = service_of(&receiver, "first", &url).await;
    let calls: Vec<_> = (0..30)
        .map(|number| call(&format!("tok_slow_{}", 10 * number), &format!("killed_{number}")))
        .collect();
    let address = service.addr;
    let sent = join_all(calls.iter().map(|call| try_send(address, call.clone())));
    let killed = async {
        eventually("some are charged", async || service.effects().await.len() >= 10).await;
        service.kill().await;
    };
    let (sent, ()) = tokio::join!(sent, killed);
    assert!(sent.iter().any(Option::is_none), "nobody was cut off");
    let service = service_of(&receiver, "second", &url).await;
    for call in &calls {
        insist(&service, call).await;
    }
    everything_is_delivered(&service, &receiver).await;
    assert_eq!(service.effects().await.len(), calls.len());
}

/// Kind of fault: an event of a charge that was rolled back, or never made.
#[tokio::test]
async fn what_was_not_committed_has_no_event() {
    let url = database("outbox_rolled_back").await;
    let receiver = Receiver::answering([]).await;
    let service = service_of(&receiver, "one", &url).await;
    for source in ["tok_panic", "tok_panic", "tok_card_declined", "tok_internal_error"] {
        let status = service.send(call(source, source)).await.status;
        assert!(status.is_client_error() || status.is_server_error(), "{source}: {status}");
    }
    // refunds are told to nobody
    let refund = call("tok_visa", "refund").path("/v1/refunds");
    assert_eq!(service.send(refund).await.status, 201);
    assert!(states(&service).await.is_empty());
    // events are sent in turn: what was there before would have been sent before
    let charged = service.send(call("tok_visa", "charged")).await;
    eventually("it is delivered", async || !receiver.got().is_empty()).await;
    assert_eq!(receiver.charges(), [charged.json()["id"].as_str().unwrap()]);
    assert_eq!(states(&service).await.len(), 1);
}

/// Kind of fault: two processes send the same event at the same time, or one of them sends nothing.
#[tokio::test]
async fn two_processes_share_the_events() {
    let url = database("outbox_shared").await;
    // some fail, so that a try of one process is followed by a try of the other
    let statuses = (0..40).map(|number| if number % 2 == 0 { 500 } else { 204 });
    let receiver = Receiver::slow(Duration::from_millis(100), statuses).await;
    let first = service_of(&receiver, "first", &url).await;
    let second = service_of(&receiver, "second", &url).await;
    let waves = count(3, 20);
    for wave in 0..waves {
        let sent = join_all((0..20).map(|number| {
            let service = if number % 2 == 0 { &first } else { &second };
            service.send(call("tok_visa", &format!("shared_{wave}_{number}")))
        }));
        assert!(sent.await.iter().all(|reply| reply.status == 201));
    }
    everything_is_delivered(&first, &receiver).await;
    assert_eq!(receiver.most_at_once(), 1, "no event is sent twice at the same time");
    let got = receiver.got();
    assert_eq!(
        got.len(),
        usize::try_from(20 * waves + 20).unwrap(),
        "one delivery each, and the tries that failed"
    );
    let senders: HashSet<_> = got.iter().map(|webhook| webhook.sender.as_str()).collect();
    assert_eq!(senders.len(), 2, "both send");
}

/// Kind of fault: two processes send the same event. Here the other one is taking it at this very moment: it
/// has not committed that yet. The event is passed over, neither waited for nor taken as well.
#[tokio::test]
async fn an_event_that_another_process_is_taking_is_passed_over() {
    const ADD: &str = "INSERT INTO payments_api_outbox (id, body, next_try) \
        VALUES ($1, '{}', now() + interval '2 s')";
    const TAKE: &str = "UPDATE payments_api_outbox \
        SET tries = tries + 1, next_try = now() + interval '1 h' WHERE id = $1 RETURNING tries";
    const DUE: &str = "SELECT next_try <= now() FROM payments_api_outbox WHERE id = $1";
    let url = database("outbox_being_taken").await;
    let receiver = Receiver::answering([]).await;
    let service = service_of(&receiver, "one", &url).await;
    let mut other = PgConnection::connect(&url).await.unwrap();
    let mut onlooker = PgConnection::connect(&url).await.unwrap();
    let (mut taking, id) = (other.begin().await.unwrap(), "evt_being_taken");
    sqlx::query(ADD).bind(id).execute(&mut onlooker).await.unwrap();
    let tries: i32 = sqlx::query_scalar(TAKE).bind(id).fetch_one(&mut *taking).await.unwrap();
    assert_eq!(tries, 1, "this machine is too slow: the service was faster");
    eventually("it is due for whoever does not see it taken", async || {
        sqlx::query_scalar::<_, bool>(DUE).bind(id).fetch_one(&mut onlooker).await.unwrap()
    })
    .await;
    assert_eq!(service.send(call("tok_visa", "beside")).await.status, 201);
    eventually("another event is not held up", async || receiver.got().len() == 1).await;
    taking.commit().await.unwrap();
    // events are sent in turn: this one would have been sent before
    assert_eq!(service.send(call("tok_visa", "after")).await.status, 201);
    eventually("the next one", async || receiver.got().len() >= 2).await;
    assert_eq!(receiver.charges(), service.charges().await);
    let states = states(&service).await;
    let taken = states.iter().find(|event| event["id"] == id).unwrap();
    assert_eq!((&taken["state"], &taken["tries"]), (&"waiting".into(), &1.into()));
}
