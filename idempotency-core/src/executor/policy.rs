use serde::{Deserialize, Serialize};

use crate::store::Takeover;

/// What becomes of a key after its work has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Disposition {
    /// Store the result: every retry gets it.
    Store,
    /// It is known not to have happened: a retry executes at once, as the next attempt.
    Failed,
    /// Nothing began: the key is free again, as if it had never been used.
    NotStarted,
    /// It may have happened: the next attempt is told that it is not the first, or, where takeover
    /// is refused, the recovery hook decides.
    Unknown,
}

/// Says of an error whether it is final.
///
/// ```
/// use idempotency_core::{Classify, Disposition};
///
/// enum ChargeError { Declined, RateLimited, ProviderDown, TimedOut }
///
/// impl Classify for ChargeError {
///     fn disposition(&self) -> Disposition {
///         match self {
///             Self::Declined => Disposition::Store,
///             Self::RateLimited => Disposition::NotStarted,
///             Self::ProviderDown => Disposition::Failed,
///             Self::TimedOut => Disposition::Unknown,
///         }
///     }
/// }
/// ```
pub trait Classify {
    /// What becomes of the key.
    fn disposition(&self) -> Disposition;
}

/// The error of work that cannot fail. (`std::convert::Infallible` cannot be serialized.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Never {}

impl Classify for Never {
    fn disposition(&self) -> Disposition {
        match *self {}
    }
}

/// Which results are final.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ResultPolicy {
    /// Successes and business errors are stored, passing ones are not.
    ///
    /// Of a status: 200 to 499 is stored except 401, 403, 408, 425 and 429; those and all others are
    /// `Failed`, but 500 and above is `Unknown` where takeover is refused. Of a typed error: as it
    /// says itself.
    #[default]
    Transient,
    /// Everything is stored, server errors too (as Stripe's v1 API does).
    All,
    /// Only successes are stored; errors are `Failed`.
    SuccessOnly,
}

impl ResultPolicy {
    /// What becomes of a key whose work ended with this HTTP status.
    pub const fn of_status(self, status: u16, takeover: Takeover) -> Disposition {
        match (self, status) {
            (Self::All, _)
            | (Self::SuccessOnly, 200..=299)
            | (Self::Transient, 200..=400 | 402 | 404..=407 | 409..=424 | 426..=428 | 430..=499) => {
                Disposition::Store
            }
            (Self::Transient | Self::SuccessOnly, 500..) => match takeover {
                Takeover::Allow => Disposition::Failed,
                Takeover::Refuse => Disposition::Unknown,
            },
            (Self::Transient | Self::SuccessOnly, _) => Disposition::Failed,
        }
    }

    /// What becomes of a key whose work ended with an error that asks for `disposition`.
    ///
    /// `NotStarted` and `Unknown` are facts about what happened, so no policy overrules them.
    pub const fn of_error(self, disposition: Disposition) -> Disposition {
        match (self, disposition) {
            (_, Disposition::NotStarted | Disposition::Unknown) | (Self::Transient, _) => {
                disposition
            }
            (Self::All, _) => Disposition::Store,
            (Self::SuccessOnly, _) => Disposition::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Disposition::{Failed, NotStarted, Store, Unknown};
    use ResultPolicy::{All, SuccessOnly, Transient};

    /// Kinds of fault: a passing failure pinned for a day (H-19); a refusal before the work burns
    /// the key (H-20).
    #[test]
    fn statuses_are_stored_or_not_as_the_table_says() {
        for status in 100..=599 {
            let stored_by_default =
                (200..500).contains(&status) && ![401, 403, 408, 425, 429].contains(&status);
            let not_stored = |refused| {
                if status >= 500 && refused == Takeover::Refuse { Unknown } else { Failed }
            };
            for takeover in [Takeover::Allow, Takeover::Refuse] {
                let expected = if stored_by_default { Store } else { not_stored(takeover) };
                assert_eq!(Transient.of_status(status, takeover), expected, "{status}");
                assert_eq!(All.of_status(status, takeover), Store);
                let expected =
                    if (200..300).contains(&status) { Store } else { not_stored(takeover) };
                assert_eq!(SuccessOnly.of_status(status, takeover), expected, "{status}");
            }
        }
    }

    #[test]
    fn no_policy_overrules_what_is_known_to_have_happened() {
        for policy in [Transient, All, SuccessOnly] {
            assert_eq!(policy.of_error(NotStarted), NotStarted);
            assert_eq!(policy.of_error(Unknown), Unknown);
        }
        assert_eq!([Store, Failed].map(|d| Transient.of_error(d)), [Store, Failed]);
        assert_eq!([Store, Failed].map(|d| All.of_error(d)), [Store, Store]);
        assert_eq!([Store, Failed].map(|d| SuccessOnly.of_error(d)), [Failed, Failed]);
    }
}
