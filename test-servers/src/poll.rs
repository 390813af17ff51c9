use std::{fmt, thread, time::Duration};

use idempotency_core::{Clock, SystemClock};

const BETWEEN: Duration = Duration::from_millis(10);

/// Asks again and again until there is an answer, or until `patience` is over: then none.
pub fn until<T>(patience: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let clock = SystemClock::new();
    loop {
        if let Some(answer) = ask() {
            return Some(answer);
        }
        if clock.monotonic() > patience {
            return None;
        }
        thread::sleep(BETWEEN);
    }
}

/// What a test has while it waits for something: a minute.
#[derive(Debug)]
pub struct Patience(SystemClock);

impl Patience {
    const MOST: Duration = Duration::from_mins(1);

    /// It begins now.
    #[must_use]
    pub fn begin() -> Self {
        Self(SystemClock::new())
    }

    /// Waits for a moment.
    ///
    /// # Panics
    /// The minute is over, and `what` has not come.
    pub async fn pause(&self, what: impl fmt::Display + Send) {
        assert!(self.0.monotonic() < Self::MOST, "never: {what}");
        tokio::time::sleep(BETWEEN).await;
    }
}

/// Evaluates the expression until it has an answer; a minute is too long. A macro, because a task that
/// calls an async closure is not known to be `Send`.
#[macro_export]
macro_rules! soon {
    ($what:expr, $ask:expr) => {{
        let patience = $crate::Patience::begin();
        loop {
            if let Some(answer) = $ask {
                break answer;
            }
            patience.pause($what).await;
        }
    }};
}

/// Waits until `ask` has an answer; a minute is too long.
///
/// # Panics
/// The minute is over.
pub async fn soon<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    crate::soon!(what, ask().await)
}
