//! Consumers over a queue that delivers again, in time that the test moves.

use std::{sync::Arc, time::Duration};

use idempotency::{Clock, Idempotency, Lease, MemoryStore, Scope, SystemClock};
use worker::{Acknowledged, Consumer, Ended, Job, Mailer, Message, Queue, QueueSettings, Simulate};

const LEASE: Duration = Duration::from_secs(30);
const VISIBILITY: Duration = Duration::from_secs(5);

fn consumer() -> Consumer {
    let settings = QueueSettings { visibility: VISIBILITY, max_deliveries: 3 };
    let idempotency = Idempotency::builder(MemoryStore::new()).lease(Lease::new(LEASE).unwrap());
    Consumer {
        idempotency: idempotency.build().unwrap(),
        queue: Arc::new(Queue::new(settings)),
        scope: Scope::new("mails").unwrap(),
        mailer: Mailer::new(VISIBILITY * 3),
    }
}

fn send(consumer: &Consumer, id: &str, simulate: Option<Simulate>, lost: u32) {
    let job = Job { to: "ada@example.com".into(), subject: "Welcome".into() };
    let message = Message { id: id.into(), job, simulate };
    consumer.queue.send(serde_json::to_string(&message).unwrap(), lost);
}

/// Two consumers until the queue is empty.
async fn work(consumer: &Consumer) -> Vec<Ended> {
    let (one, other) = tokio::join!(consumer.run(), consumer.run());
    [one, other].concat()
}

fn how(ended: &[Ended]) -> Vec<&str> {
    ended.iter().map(|ended| ended.how.as_str()).collect()
}

/// Kind of fault: a duplicate is ignored and never acknowledged, until it is a dead letter (H-68).
#[tokio::test(start_paused = true)]
async fn a_lost_acknowledgement_is_made_again_without_a_second_run() {
    let consumer = consumer();
    send(&consumer, "a", None, 2);
    let ended = work(&consumer).await;
    assert_eq!(how(&ended), ["sent, mail 1", "sent before, mail 1", "sent before, mail 1"]);
    let acknowledged: Vec<_> = ended.iter().map(|ended| ended.acknowledged.unwrap()).collect();
    assert_eq!(acknowledged, [Acknowledged::Lost, Acknowledged::Lost, Acknowledged::Done]);
    let key = ended[0].key.unwrap();
    assert_eq!((consumer.mailer.runs(key), consumer.mailer.sent().len()), (1, 1));
    assert!(consumer.queue.dead_letters().is_empty());
}

/// Kind of fault: a message is marked as seen before it was handled, and lost with the crash (H-66).
#[tokio::test(start_paused = true)]
async fn a_crash_in_the_middle_is_carried_on_after_the_lease() {
    let consumer = consumer();
    send(&consumer, "a", Some(Simulate::CrashAfterSending), 0);
    let clock = SystemClock::new();
    let ended = work(&consumer).await;
    assert!(clock.monotonic() >= LEASE);
    let done = ended.iter().find(|ended| ended.acknowledged == Some(Acknowledged::Done)).unwrap();
    let (runs, sent) = (consumer.mailer.runs(done.key.unwrap()), consumer.mailer.sent());
    // attempt 2 found the mail of attempt 1
    assert_eq!((done.how.as_str(), runs, sent.len()), ("sent, mail 1", 2, 1));
    assert_eq!(how(&ended).iter().filter(|how| **how == "crashed").count(), 1);
}

/// Kind of fault: a message that outlives its visibility runs twice at once (H-07).
#[tokio::test(start_paused = true)]
async fn a_slow_job_runs_once_though_it_is_delivered_again() {
    let consumer = consumer();
    send(&consumer, "a", Some(Simulate::Slow), 0);
    let ended = work(&consumer).await;
    let told = how(&ended);
    assert!(told.contains(&"in progress elsewhere"), "{told:?}");
    let key = ended[0].key.unwrap();
    assert_eq!((consumer.mailer.runs(key), consumer.mailer.sent().len()), (1, 1), "{told:?}");
    // the delivery that sent it acknowledges too late: it was delivered again in the meantime
    let late = ended.iter().find(|ended| ended.how == "sent, mail 1").unwrap();
    assert_eq!(late.acknowledged, Some(Acknowledged::TooLate));
    let last = ended.iter().find(|ended| ended.acknowledged == Some(Acknowledged::Done)).unwrap();
    assert_eq!(last.how, "sent before, mail 1");
}

/// Kind of fault: a failure that passes is remembered as if it were final (H-19), or a final one is tried
/// for ever.
#[tokio::test(start_paused = true)]
async fn errors_run_again_or_are_kept_as_they_say_themselves() {
    let consumer = consumer();
    send(&consumer, "a", Some(Simulate::UnavailableOnce), 0);
    send(&consumer, "b", Some(Simulate::Refused), 1);
    let ended = consumer.run().await;
    let of = |number| ended.iter().filter(move |ended| ended.number == number).cloned();
    let told = |number| of(number).map(|ended| ended.how).collect::<Vec<_>>();
    assert_eq!(told(1), ["the mail server is down", "sent, mail 1"]);
    assert_eq!(told(2), ["no such address", "no such address"]);
    let runs = |number| consumer.mailer.runs(of(number).next().unwrap().key.unwrap());
    assert_eq!((runs(1), runs(2)), (2, 1));
}

/// Kind of fault: a message that always fails keeps the queue busy for ever.
#[tokio::test(start_paused = true)]
async fn poison_becomes_a_dead_letter_and_the_others_are_handled() {
    let consumer = consumer();
    send(&consumer, "a", Some(Simulate::Panic), 0);
    send(&consumer, "b", None, 0);
    consumer.queue.send("not json", 0);
    send(&consumer, "", None, 0);
    let ended = work(&consumer).await;
    let dead = consumer.queue.dead_letters();
    let mut reasons: Vec<_> = dead.iter().map(|dead| (dead.number, dead.reason.as_str())).collect();
    reasons.sort_unstable();
    assert_eq!(reasons[0], (1, "3 deliveries in vain"));
    assert!(reasons[1].1.starts_with("not a message"), "{reasons:?}");
    assert_eq!((reasons.len(), reasons[2].0), (3, 4), "an empty id is no key");
    assert_eq!(consumer.mailer.sent().len(), 1);
    assert_eq!(ended.iter().filter(|ended| ended.how == "crashed").count(), 3);
}

/// Kind of fault: an id that is used for two jobs silently drops one of them.
#[tokio::test(start_paused = true)]
async fn an_id_that_stands_for_another_job_is_a_dead_letter() {
    let consumer = consumer();
    send(&consumer, "a", None, 0);
    let other = r#"{"id": "a", "job": {"to": "bob@example.com", "subject": "Welcome"}}"#;
    consumer.queue.send(other, 0);
    consumer.run().await;
    let dead = consumer.queue.dead_letters();
    assert_eq!((dead.len(), dead[0].number), (1, 2));
    assert!(dead[0].reason.contains("another job"));
    assert_eq!(consumer.mailer.sent().len(), 1);
}
