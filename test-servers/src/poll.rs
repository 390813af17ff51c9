use std::{thread, time::Duration};

use idempotency_core::{Clock, SystemClock};

/// Asks again and again until there is an answer, or until `patience` is over: then none.
pub fn until<T>(patience: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    const BETWEEN: Duration = Duration::from_millis(10);
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
