use std::{fmt, num::NonZeroU32};

/// 1 for the first execution under a key, one more for each take-over.
///
/// It is the fencing number: pass it to what the work changes, and let that refuse a smaller one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptNumber(NonZeroU32);

impl AttemptNumber {
    /// The first execution under a key.
    pub const FIRST: Self = Self(NonZeroU32::MIN);

    /// `number`, or none for zero.
    pub const fn new(number: u32) -> Option<Self> {
        match NonZeroU32::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0.get()
    }

    /// The number of the attempt that takes over from this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for AttemptNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
