//! Which try of which payment meets which fault: a pure function of the seed, so that the same seed
//! gives the same faults on every store, in both worlds, however fast the machine is.

use serde::{Deserialize, Serialize};

/// All that chance decides in a storm.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    seed: u64,
    timeout_rate: f64,
}

/// Why a try gets no answer, or not in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum Fault {
    /// The service never sees the request.
    RequestLost,
    /// The service sees the request when the client has given up, and perhaps tried again.
    RequestLate,
    /// The service does its work, and the client never hears of it.
    ReplyLost,
    /// The handler takes longer than the client waits.
    SlowHandler,
    /// The owner of the key crashes before it charges.
    CrashBefore,
    /// The owner of the key crashes after it has charged.
    CrashAfter,
}

const FAULTS: [Fault; 6] = [
    Fault::RequestLost,
    Fault::RequestLate,
    Fault::ReplyLost,
    Fault::SlowHandler,
    Fault::CrashBefore,
    Fault::CrashAfter,
];

/// What one try meets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fate {
    pub(super) fault: Option<Fault>,
    /// How long the handler works, relative to the usual time.
    pub(super) work: f64,
    /// Which worker gets the request.
    pub(super) worker: usize,
    /// For the client's backoff before the next try, from 0 to 1.
    pub(super) jitter: f64,
}

impl Schedule {
    pub(super) const fn new(seed: u64, timeout_rate: f64) -> Self {
        Self { seed, timeout_rate }
    }

    pub(super) const fn seed(&self) -> u64 {
        self.seed
    }

    pub(super) const fn timeout_rate(&self) -> f64 {
        self.timeout_rate
    }

    /// What try number `tried` of `payment` meets.
    pub(super) fn fate(&self, payment: u64, tried: u64) -> Fate {
        let mut random = self.random(payment, tried + 1);
        let is_faulty = random.f64() < self.timeout_rate;
        let fault = random.choice(FAULTS);
        Fate {
            fault: fault.filter(|_| is_faulty),
            work: 0.5 + random.f64(),
            worker: random.usize(..),
            jitter: random.f64(),
        }
    }

    /// What is paid, in cents.
    pub(super) fn amount(&self, payment: u64) -> u64 {
        self.random(payment, 0).u64(100..=20_000)
    }

    /// Which worker is killed as the `number`th.
    pub(super) fn victim(&self, number: u64) -> usize {
        self.random(number, u64::MAX).usize(..)
    }

    /// A generator for one place: nothing that is drawn elsewhere changes what it gives.
    fn random(&self, a: u64, b: u64) -> fastrand::Rng {
        fastrand::Rng::with_seed(mixed(mixed(mixed(self.seed) ^ a) ^ b))
    }
}

/// The finalizer of `SplitMix64`: neighbours get seeds that have nothing in common.
const fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Pinned: a seed in a bug report has to mean the same faults tomorrow.
    #[test]
    fn the_same_seed_gives_the_same_faults() {
        let fates = |seed| {
            let schedule = Schedule::new(seed, 0.5);
            (0..6).map(|payment| schedule.fate(payment, 0).fault).collect::<Vec<_>>()
        };
        assert_eq!(fates(7), fates(7));
        assert_ne!(fates(7), fates(8));
        let schedule = Schedule::new(7, 0.5);
        assert_ne!(schedule.fate(1, 0), schedule.fate(1, 1));
        assert_eq!([0, 1, 2].map(|payment| schedule.amount(payment)), PINNED_AMOUNTS);
        assert_eq!(fates(7), PINNED_FAULTS);
    }

    const PINNED_AMOUNTS: [u64; 3] = [13_926, 9_522, 12_194];
    const PINNED_FAULTS: [Option<Fault>; 6] = [
        Some(Fault::RequestLate),
        None,
        None,
        Some(Fault::CrashBefore),
        None,
        Some(Fault::RequestLate),
    ];

    #[test]
    fn faults_are_as_frequent_as_asked_and_of_all_kinds() {
        let schedule = Schedule::new(1, 0.3);
        let mut found = HashMap::new();
        for payment in 0..10_000 {
            *found.entry(schedule.fate(payment, 0).fault).or_insert(0) += 1;
        }
        assert!((6_700..7_300).contains(&found[&None]), "{found:?}");
        for fault in FAULTS {
            assert!((350..650).contains(&found[&Some(fault)]), "{found:?}");
        }
        let never = Schedule::new(1, 0.0);
        assert!((0..1_000).all(|payment| never.fate(payment, 0).fault.is_none()));
        let always = Schedule::new(1, 1.0);
        assert!((0..1_000).all(|payment| always.fate(payment, 0).fault.is_some()));
    }
}
