use bytes::Bytes;
use idempotency_core::{Release, Takeover};
use proptest::{collection::vec, option, prelude::*};

use super::pace::{Over, Pace};

/// What is done one after the other, on one key.
pub(super) type Program = Vec<Step>;

/// A pause, and then this.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// In units of the [`Pace`].
    pub(super) pause: u32,
    pub(super) over: Over,
    pub(super) ask: Ask,
}

/// What is asked. Tokens, fingerprints and attempts come out of small sets, so that they meet; leases and
/// retentions are in units of the [`Pace`].
#[derive(Clone, Debug)]
pub(super) enum Ask {
    Claim { token: u8, fingerprint: u8, takeover: Takeover, lease: u32, retention: u32 },
    Complete { who: Who, fingerprint: u8, response: Bytes, retention: u32 },
    Renew { who: Who, sequence: u64, lease: u32, checkpoint: Option<Bytes> },
    Release { who: Who, release: Release },
    Lookup,
    Settle { who: Who, verdict: Verdict },
    Remove { who: Who },
    Sweep,
}

/// An attempt, as it names itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Who {
    pub(super) token: u8,
    pub(super) attempt: u32,
}

/// What an operator says.
#[derive(Clone, Copy, Debug)]
pub(super) enum Verdict {
    Failed,
    NotStarted,
    Completed,
}

pub(super) fn program(pace: &Pace) -> impl Strategy<Value = Program> + use<> {
    let (steps, pause) = pace.longest();
    let pause = prop_oneof![6 => Just(0), 3 => 1..4_u32, 1 => 4..10_u32]
        .prop_map(move |units| units.min(pause));
    let over = prop_oneof![Just(Over::Exactly), Just(Over::ByAMillisecond)];
    let step = (pause, over, ask()).prop_map(|(pause, over, ask)| Step { pause, over, ask });
    vec(step, 1..steps)
}

fn ask() -> impl Strategy<Value = Ask> {
    let settle = (who(), verdict()).prop_map(|(who, verdict)| Ask::Settle { who, verdict });
    prop_oneof![
        8 => claim(),
        3 => complete(),
        5 => renew(),
        4 => release(),
        2 => Just(Ask::Lookup),
        2 => settle,
        1 => who().prop_map(|who| Ask::Remove { who }),
        1 => Just(Ask::Sweep),
    ]
}

fn claim() -> impl Strategy<Value = Ask> {
    let takeover = prop_oneof![Just(Takeover::Allow), Just(Takeover::Refuse)];
    (token(), fingerprint(), takeover, units(), units()).prop_map(
        |(token, fingerprint, takeover, lease, retention)| Ask::Claim {
            token,
            fingerprint,
            takeover,
            lease,
            retention,
        },
    )
}

fn complete() -> impl Strategy<Value = Ask> {
    (who(), fingerprint(), bytes(), units()).prop_map(|(who, fingerprint, response, retention)| {
        Ask::Complete { who, fingerprint, response, retention }
    })
}

fn renew() -> impl Strategy<Value = Ask> {
    // also numbers that a float does not tell apart, and that do not fit into a signed one
    let sequence = prop_oneof![
        1..4_u64,
        Just(1 << 32),
        Just((1 << 32) + 1),
        Just(u64::MAX - 1),
        Just(u64::MAX)
    ];
    (who(), sequence, units(), option::of(bytes())).prop_map(
        |(who, sequence, lease, checkpoint)| Ask::Renew { who, sequence, lease, checkpoint },
    )
}

fn release() -> impl Strategy<Value = Ask> {
    let said =
        prop_oneof![Just(Release::NotStarted), Just(Release::Failed), Just(Release::Unknown)];
    (who(), said).prop_map(|(who, release)| Ask::Release { who, release })
}

fn verdict() -> impl Strategy<Value = Verdict> {
    prop_oneof![Just(Verdict::Failed), Just(Verdict::NotStarted), Just(Verdict::Completed)]
}

/// Mostly the same one: a program of one owner goes further.
fn token() -> impl Strategy<Value = u8> {
    prop_oneof![3 => Just(0_u8), 1 => Just(1), 1 => Just(2)]
}

fn who() -> impl Strategy<Value = Who> {
    let attempt = prop_oneof![4 => Just(1_u32), 3 => Just(2), 1 => Just(3)];
    (token(), attempt).prop_map(|(token, attempt)| Who { token, attempt })
}

/// Mostly the same request: a mismatch is found soon enough.
fn fingerprint() -> impl Strategy<Value = u8> {
    prop_oneof![7 => Just(0_u8), 1 => Just(1)]
}

fn units() -> impl Strategy<Value = u32> {
    0..6_u32
}

fn bytes() -> impl Strategy<Value = Bytes> {
    prop_oneof![Just(Vec::new()), vec(any::<u8>(), 1..40)].prop_map(Bytes::from)
}
