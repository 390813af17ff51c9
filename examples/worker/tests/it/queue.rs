//! The queue alone, in time that the test moves.

use std::time::Duration;

use worker::{Acknowledged, Queue, QueueSettings};

const VISIBILITY: Duration = Duration::from_secs(10);

fn queue() -> Queue {
    Queue::new(QueueSettings { visibility: VISIBILITY, max_deliveries: 2 })
}

#[tokio::test(start_paused = true)]
async fn a_message_comes_again_until_it_is_acknowledged() {
    let queue = queue();
    queue.send("a", 1);
    let first = queue.receive().await.unwrap();
    let second = queue.receive().await.unwrap();
    assert_eq!((first.body, second.body.as_str()), ("a".to_owned(), "a"));
    assert_eq!(queue.acknowledge(first.receipt), Acknowledged::TooLate);
    assert_eq!(queue.acknowledge(second.receipt), Acknowledged::Lost);
    assert_eq!(queue.acknowledge(second.receipt), Acknowledged::Done);
    assert_eq!(queue.acknowledge(second.receipt), Acknowledged::TooLate);
    assert!(queue.receive().await.is_none() && queue.dead_letters().is_empty());
}

#[tokio::test(start_paused = true)]
async fn too_many_deliveries_make_a_dead_letter_but_postponed_ones_do_not_count() {
    let queue = queue();
    queue.send("a", 0);
    for _ in 0..5 {
        let delivery = queue.receive().await.unwrap();
        queue.postpone(delivery.receipt, Duration::from_secs(1));
    }
    for _ in 0..2 {
        assert!(queue.receive().await.is_some());
    }
    assert!(queue.receive().await.is_none());
    let dead = queue.dead_letters();
    assert_eq!((dead.len(), dead[0].reason.as_str()), (1, "2 deliveries in vain"));
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_message_gets_one_that_is_sent_later_or_hears_that_all_is_done() {
    let queue = queue();
    queue.send("a", 0);
    let first = queue.receive().await.unwrap();
    let (next, ()) = tokio::join!(queue.receive(), async {
        queue.send("b", 0);
    });
    let next = next.unwrap();
    assert_eq!((next.number, next.body.as_str()), (2, "b"));
    queue.bury(next.receipt, "no use");
    let (none, done) = tokio::join!(queue.receive(), async { queue.acknowledge(first.receipt) });
    assert!(none.is_none() && done == Acknowledged::Done);
}
