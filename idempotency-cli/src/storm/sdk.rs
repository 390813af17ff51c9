//! How the clients of payment providers try again.

use std::time::Duration;

/// The retry rule of a client library. All its tries carry one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sdk {
    /// Stripe's: 2 retries, exponential from 0.5 s to 5 s, times 0.5 to 1, at least 0.5 s.
    Stripe,
    /// Amazon's standard mode: 3 tries, full jitter, from 1 s to 20 s.
    Aws,
}

impl Sdk {
    /// Half of the merchants use one, half the other.
    pub(super) const fn of_merchant(merchant: usize) -> Self {
        if merchant.is_multiple_of(2) { Self::Stripe } else { Self::Aws }
    }

    /// Tries of one call, the first one included.
    pub(super) const fn tries(self) -> u32 {
        match self {
            Self::Stripe | Self::Aws => 3,
        }
    }

    /// The pause before retry number `retry`, 1 for the first; `jitter` is from 0 to 1.
    pub(super) fn backoff(self, retry: u32, jitter: f64) -> Duration {
        let double = |base: Duration| base.saturating_mul(1 << retry.saturating_sub(1).min(16));
        match self {
            Self::Stripe => {
                let floor = Duration::from_millis(500);
                let longest = double(floor).min(Duration::from_secs(5));
                longest.mul_f64(0.5 + jitter / 2.0).max(floor)
            }
            Self::Aws => {
                let longest = double(Duration::from_secs(1)).min(Duration::from_secs(20));
                longest.mul_f64(jitter)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_those_of_the_providers() {
        let millis = |sdk: Sdk, retry, jitter| sdk.backoff(retry, jitter).as_millis();
        assert_eq!([1, 2, 3, 9].map(|n| millis(Sdk::Stripe, n, 1.0)), [500, 1_000, 2_000, 5_000]);
        assert_eq!([1, 2, 3, 9].map(|n| millis(Sdk::Stripe, n, 0.0)), [500, 500, 1_000, 2_500]);
        assert_eq!([1, 2, 5, 9].map(|n| millis(Sdk::Aws, n, 1.0)), [1_000, 2_000, 16_000, 20_000]);
        assert_eq!(millis(Sdk::Aws, 3, 0.0), 0);
    }
}
