//! How much a test run does.

/// Whether it is the full run: `IDEMPOTENCY_TEST=full`.
pub fn is_full() -> bool {
    std::env::var("IDEMPOTENCY_TEST").is_ok_and(|value| value == "full")
}

/// `usual`, or `full` in the full run.
pub fn count(usual: u32, full: u32) -> u32 {
    if is_full() { full } else { usual }
}
