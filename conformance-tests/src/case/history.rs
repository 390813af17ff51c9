//! What concurrent workers saw: C60.

use std::num::NonZeroU64;

use idempotency_core::{
    AttemptNumber, ClaimToken, IdempotencyKey, IdempotencyStore, Lease, Release, Takeover,
};

use super::prelude::*;
use crate::{
    answer::Answer,
    history::{Asked, BRIEF, Fate, History},
    subject::lease,
};

const WORKERS: usize = 4;
const OPERATIONS: usize = 4;

/// The checker tries orders; one that is there is found at once.
const LONGEST_CHECK: Duration = Duration::from_secs(20);

/// One worker on one key.
struct Worker<'t> {
    t: &'t Subject,
    store: Arc<dyn IdempotencyStore>,
    key: &'t IdempotencyKey,
    history: &'t History,
    number: usize,
    held: Option<(ClaimToken, AttemptNumber)>,
    renewals: NonZeroU64,
}

impl Worker<'_> {
    async fn work(mut self) -> Verdict {
        for _ in 0..OPERATIONS {
            let asked = self.next()?;
            self.history.began(self.number, asked);
            let answer = asked.send(&*self.store, self.key).await;
            if self.history.ended(self.number, &answer) == Fate::Unknown {
                self.number += WORKERS;
            }
            if let (Asked::Claim { token, .. }, Ok(Answer::Acquired(attempt, _))) = (asked, answer)
            {
                self.held = Some((token, attempt));
            }
            if self.t.draw(|random| random.u8(..4)) == 0 {
                self.t.elapse(BRIEF * 2).await;
            }
        }
        Ok(())
    }

    fn next(&mut self) -> Verdict<Asked> {
        let choice = self.t.draw(|random| random.u8(..8));
        let Some((token, attempt)) = self.held else {
            return if choice == 0 { Ok(Asked::Lookup) } else { self.claim(self.t.token()) };
        };
        Ok(match choice {
            0 => Asked::Lookup,
            1 | 2 => Asked::Complete { token, attempt, response: self.t.draw(|r| r.u8(..)) },
            3 | 4 => {
                let sequence = self.renewals;
                self.renewals = sequence.saturating_add(1);
                Asked::Renew { token, attempt, sequence, checkpoint: self.t.draw(|r| r.u8(..)) }
            }
            5 => return self.claim(token),
            _ => {
                let all = [Release::NotStarted, Release::Failed, Release::Unknown];
                let release = self.t.draw(|random| random.choice(all));
                self.held = None;
                let release = release.unwrap_or(Release::Failed);
                Asked::Release { token, attempt, release }
            }
        })
    }

    fn claim(&self, token: ClaimToken) -> Verdict<Asked> {
        let (brief, refuse) = self.t.draw(|random| (random.u8(..4) == 0, random.u8(..4) == 0));
        let lease = if brief { lease(BRIEF)? } else { Lease::DEFAULT };
        let takeover = if refuse { Takeover::Refuse } else { Takeover::Allow };
        Ok(Asked::Claim { token, lease, takeover })
    }
}

/// Workers on one key, half of them through `second`; then all that they saw must have an order.
async fn has_an_order(t: &Subject, second: &Arc<dyn IdempotencyStore>) -> Verdict {
    let (key, history) = (t.key()?, Arc::new(History::default()));
    let workers = (0..WORKERS).map(|number| Worker {
        t,
        store: if number % 2 == 0 { t.store() } else { Arc::clone(second) },
        key: &key,
        history: &history,
        number,
        held: None,
        renewals: NonZeroU64::MIN,
    });
    futures_util::future::try_join_all(workers.map(Worker::work)).await?;
    let remembers = t.profile().remembers_not_started;
    let (checked, story) = (Arc::clone(&history), history.story());
    let check_it = tokio::task::spawn_blocking(move || checked.has_an_order(key, remembers));
    let found = tokio::time::timeout(LONGEST_CHECK, check_it).await;
    check(
        "concurrent workers",
        "answers in some order",
        Holds(matches!(found, Ok(Ok(true)))),
        story,
    )
}

pub(crate) async fn what_concurrent_workers_saw_has_an_order(t: &Subject) -> Verdict {
    for _ in 0..t.count(30) {
        has_an_order(t, &t.store()).await?;
    }
    Ok(())
}

pub(crate) async fn what_workers_saw_through_two_connections_has_an_order(t: &Subject) -> Verdict {
    let second = t.second().await?;
    for _ in 0..t.count(30) {
        has_an_order(t, &second).await?;
    }
    Ok(())
}
