//! An at-least-once queue in this process. It stands for SQS, AMQP, NATS and their kind, and promises
//! as little as they do: a message that is received is only hidden, and comes again unless it is
//! acknowledged in time.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use idempotency::{Clock, SystemClock};
use tokio::sync::Notify;

/// How a queue treats its messages.
#[derive(Clone, Copy, Debug)]
pub struct QueueSettings {
    /// How long a message is hidden from others after it was received.
    pub visibility: Duration,
    /// How often a message may be received before it goes to the dead letters. Deliveries that were
    /// postponed do not count.
    pub max_deliveries: u32,
}

/// The queue.
#[derive(Debug)]
pub struct Queue {
    settings: QueueSettings,
    clock: SystemClock,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// By number, the oldest first.
    messages: BTreeMap<usize, Entry>,
    dead: Vec<DeadLetter>,
    sent: usize,
}

#[derive(Debug)]
struct Entry {
    body: String,
    visible_at: Duration,
    /// Of the receipt: one more with each delivery.
    deliveries: u32,
    counted: u32,
    lost_acknowledgements: u32,
}

/// A message that was received.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The message's place in the queue, from 1.
    pub number: usize,
    /// What was sent.
    pub body: String,
    /// Names this delivery.
    pub receipt: Receipt,
}

/// One delivery of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    number: usize,
    delivery: u32,
}

/// A message that nobody could handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// The message's place in the queue, from 1.
    pub number: usize,
    /// What was sent.
    pub body: String,
    /// Why it is here.
    pub reason: String,
}

/// What became of an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a message that is not acknowledged comes again"]
pub enum Acknowledged {
    /// The message is gone.
    Done,
    /// It was lost on its way.
    Lost,
    /// The message was delivered again in the meantime, or is gone.
    TooLate,
}

impl Queue {
    /// An empty queue.
    pub fn new(settings: QueueSettings) -> Self {
        let (clock, changed) = (SystemClock::new(), Notify::new());
        Self { settings, clock, state: Mutex::default(), changed }
    }

    /// Puts a message in; its number. So many of its acknowledgements get lost.
    pub fn send(&self, body: impl Into<String>, lost_acknowledgements: u32) -> usize {
        let visible_at = self.clock.monotonic();
        let body = body.into();
        let mut state = self.state();
        state.sent += 1;
        let number = state.sent;
        let entry = Entry { body, visible_at, deliveries: 0, counted: 0, lost_acknowledgements };
        state.messages.insert(number, entry);
        self.changed.notify_waiters();
        number
    }

    /// The next message, once there is one to be seen, and hides it. None: the queue is empty.
    pub async fn receive(&self) -> Option<Delivery> {
        loop {
            // from here on no change is missed
            let changed = self.changed.notified();
            let wait = match self.take() {
                Taken::Delivery(delivery) => return Some(delivery),
                Taken::Empty => return None,
                Taken::VisibleIn(wait) => wait,
            };
            tokio::select! {
                () = changed => {}
                () = self.clock.sleep(wait) => {}
            }
        }
    }

    /// The message was handled and is to come no more.
    pub fn acknowledge(&self, receipt: Receipt) -> Acknowledged {
        let mut state = self.state();
        let Some(entry) = state.of(receipt) else {
            return Acknowledged::TooLate;
        };
        if entry.lost_acknowledgements > 0 {
            entry.lost_acknowledgements -= 1;
            return Acknowledged::Lost;
        }
        state.messages.remove(&receipt.number);
        self.changed.notify_waiters();
        Acknowledged::Done
    }

    /// The message was not handled, through no fault of its own: it comes again after `wait`, and the
    /// delivery does not count.
    pub fn postpone(&self, receipt: Receipt, wait: Duration) {
        let visible_at = self.clock.monotonic().saturating_add(wait);
        if let Some(entry) = self.state().of(receipt) {
            entry.visible_at = visible_at;
            entry.counted = entry.counted.saturating_sub(1);
        }
        self.changed.notify_waiters();
    }

    /// The message can never be handled.
    pub fn bury(&self, receipt: Receipt, reason: impl Into<String>) {
        let mut state = self.state();
        if state.of(receipt).is_some() {
            state.bury(receipt.number, reason.into());
        }
        self.changed.notify_waiters();
    }

    /// The dead letters so far.
    pub fn dead_letters(&self) -> Vec<DeadLetter> {
        self.state().dead.clone()
    }

    fn take(&self) -> Taken {
        let now = self.clock.monotonic();
        let mut state = self.state();
        loop {
            let visible = state.messages.iter_mut().find(|(_, entry)| entry.visible_at <= now);
            let Some((&number, entry)) = visible else {
                let next = state.messages.values().map(|entry| entry.visible_at).min();
                return next.map_or(Taken::Empty, |at| Taken::VisibleIn(at.saturating_sub(now)));
            };
            if entry.counted < self.settings.max_deliveries {
                entry.deliveries += 1;
                entry.counted += 1;
                entry.visible_at = now.saturating_add(self.settings.visibility);
                let receipt = Receipt { number, delivery: entry.deliveries };
                return Taken::Delivery(Delivery { number, body: entry.body.clone(), receipt });
            }
            let reason = format!("{} deliveries in vain", entry.counted);
            state.bury(number, reason);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Taken {
    Delivery(Delivery),
    VisibleIn(Duration),
    Empty,
}

impl State {
    /// The message, unless it was delivered again since.
    fn of(&mut self, receipt: Receipt) -> Option<&mut Entry> {
        self.messages.get_mut(&receipt.number).filter(|entry| entry.deliveries == receipt.delivery)
    }

    fn bury(&mut self, number: usize, reason: String) {
        if let Some(Entry { body, .. }) = self.messages.remove(&number) {
            self.dead.push(DeadLetter { number, body, reason });
        }
    }
}
