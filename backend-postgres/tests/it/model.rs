//! Random programs, on the server and on the state machine that is the contract.
//!
//! Time is moved by taking it off all moments of the row. All deadlines are a
//! third or two thirds of a second away from every step, so that the milliseconds which pass on the
//! server while a program runs decide nothing; reported durations may be off by as much.

use std::time::Duration;

use bytes::Bytes;
use idempotency_core::{
    AttemptNumber, ClaimRequest, ClaimToken, Clock, CompleteRequest, ErrorKind, Fingerprint,
    IdempotencyKey, IdempotencyStore, Record, Release, ReleaseRequest, RenewRequest, SeenClaim,
    Settlement, State, StoreAdmin, SystemClock, Takeover, Timestamp,
    machine::{self, Decision, Write},
};
use idempotency_postgres::{
    PostgresStore,
    sqlx::{self, AssertSqlSafe, PgPool},
};
use proptest::prelude::*;

use crate::support::{TABLE, count, fresh, key, lease, raw, retention, runtime, server};

/// The model's clock stands still within a program, the server's does not: so much may pass. A program
/// that took longer, on a machine that stood still, is judged in another try.
const SLACK: Duration = Duration::from_millis(330);

#[derive(Clone, Copy, Debug)]
struct Who {
    token: u8,
    attempt: u32,
}

#[derive(Clone, Debug)]
enum Ask {
    Claim { token: u8, fingerprint: u8, takeover: Takeover, lease: u64, retention: u64 },
    Complete { who: Who, fingerprint: u8, response: Vec<u8>, retention: u64 },
    Renew { who: Who, sequence: u64, lease: u64, checkpoint: Option<Vec<u8>> },
    Release { who: Who, release: Release },
    Lookup,
    Settle { who: Who, verdict: u8 },
    Remove { who: Who },
}

/// Whole seconds later, then this.
#[derive(Clone, Debug)]
struct Step {
    later: u64,
    ask: Ask,
}

fn who() -> impl Strategy<Value = Who> {
    (0..3_u8, prop_oneof![4 => Just(1_u32), 3 => Just(2), 1 => Just(3)])
        .prop_map(|(token, attempt)| Who { token, attempt })
}

/// A third of a second more than whole ones.
fn span() -> impl Strategy<Value = u64> {
    (0..6_u64).prop_map(|seconds| seconds * 1_000 + 333)
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![Just(Vec::new()), prop::collection::vec(any::<u8>(), 1..40)]
}

fn ask() -> impl Strategy<Value = Ask> {
    let takeover = prop_oneof![Just(Takeover::Allow), Just(Takeover::Refuse)];
    let print = || prop_oneof![7 => Just(0_u8), 1 => Just(1)];
    let claim = (0..3_u8, print(), takeover, span(), span()).prop_map(
        |(token, fingerprint, takeover, lease, retention)| Ask::Claim {
            token,
            fingerprint,
            takeover,
            lease,
            retention,
        },
    );
    let complete =
        (who(), print(), bytes(), span()).prop_map(|(who, fingerprint, response, retention)| {
            Ask::Complete { who, fingerprint, response, retention }
        });
    let sequence = prop_oneof![
        1..4_u64,
        Just(1 << 32),
        Just((1 << 32) + 1),
        Just(u64::MAX - 1),
        Just(u64::MAX)
    ];
    let renew = (who(), sequence, span(), prop::option::of(bytes())).prop_map(
        |(who, sequence, lease, checkpoint)| Ask::Renew { who, sequence, lease, checkpoint },
    );
    let said =
        prop_oneof![Just(Release::NotStarted), Just(Release::Failed), Just(Release::Unknown)];
    let release = (who(), said).prop_map(|(who, release)| Ask::Release { who, release });
    let settle = (who(), 0..3_u8).prop_map(|(who, verdict)| Ask::Settle { who, verdict });
    prop_oneof![
        8 => claim,
        3 => complete,
        5 => renew,
        4 => release,
        2 => Just(Ask::Lookup),
        2 => settle,
        1 => who().prop_map(|who| Ask::Remove { who }),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let later = prop_oneof![6 => Just(0_u64), 3 => 1..4_u64, 1 => 4..9_u64];
    let step = (later, ask()).prop_map(|(later, ask)| Step { later: later * 1_000, ask });
    prop::collection::vec(step, 1..30)
}

#[test]
fn random_programs_end_as_the_state_machine_says() {
    let runtime = runtime();
    let store = runtime.block_on(fresh(&server().url()));
    let raw = runtime.block_on(async { raw(&server().url()) });
    let numbers = std::cell::Cell::new(0_u32);
    let config = ProptestConfig::with_cases(count(300, 5_000));
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let clock = SystemClock::new();
    let judged = runner.run(&steps(), |steps| {
        for _ in 0..TRIES {
            numbers.set(numbers.get() + 1);
            let key = key(numbers.get());
            let place = namespace_of(&store, &key);
            let subject = Subject { store: store.clone(), raw: raw.clone(), key, place };
            let started = clock.monotonic();
            match runtime.block_on(subject.run(&steps)) {
                Err(_) if clock.monotonic().saturating_sub(started) > SLACK => {}
                judged => return judged.map_err(TestCaseError::fail),
            }
        }
        Err(TestCaseError::fail(format!("this machine stood still in each of {TRIES} tries")))
    });
    judged.unwrap();
}

const TRIES: u32 = 20;

/// The store's `Debug` names its namespace, which the test chose at random.
fn namespace_of(store: &PostgresStore, key: &IdempotencyKey) -> String {
    let shown = format!("{store:?}");
    let (_, rest) = shown.split_once("Namespace(").unwrap();
    let (name, _) = rest.split_once(')').unwrap();
    let namespace = idempotency_core::Namespace::new(name).unwrap();
    namespace.storage_key(key).as_str().to_owned()
}

struct Subject {
    store: PostgresStore,
    raw: PgPool,
    key: IdempotencyKey,
    place: String,
}

impl Subject {
    async fn run(self, steps: &[Step]) -> Result<(), String> {
        let mut now = 1_000_000_000;
        let mut record = None;
        for (index, step) in steps.iter().enumerate() {
            let ends_now = |record: &Record| record.expires_at.as_unix_millis() == now;
            if step.later == 0 && record.as_ref().is_some_and(ends_now) {
                // the server's clock goes on between two steps: whether this one comes within the last
                // millisecond of the record or after it, nobody can say
                return Ok(());
            }
            now += step.later;
            self.advance(step.later).await;
            let expected = model(&mut record, &self.key, &step.ask, now);
            let found = self.ask(&step.ask).await;
            if !agree(&expected, &found) {
                let wrong = format!("step {index}: expected {expected:?}, found {found:?}");
                return Err(wrong);
            }
        }
        Ok(())
    }

    /// Takes `millis` off every moment of the row.
    async fn advance(&self, millis: u64) {
        if millis == 0 {
            return;
        }
        let columns =
            ["first_claimed_at", "claimed_at", "expires_at", "sweep_at", "lease_until", "ended_at"];
        let earlier = columns.map(|column| format!("{column} = {column} - $2 * interval '1 ms'"));
        let earlier = format!("UPDATE {TABLE} SET {} WHERE key = $1", earlier.join(", "));
        let earlier = sqlx::query(AssertSqlSafe(earlier));
        let millis = i64::try_from(millis).unwrap();
        earlier.bind(&self.place).bind(millis).execute(&self.raw).await.unwrap();
    }

    async fn ask(&self, ask: &Ask) -> Seen {
        let request = Requests { key: &self.key };
        let store = &self.store;
        match ask {
            Ask::Claim { .. } => match store.claim(request.claim(ask)).await {
                Err(error) if error.kind() == ErrorKind::TokenSpent => Seen::spent(),
                outcome => Seen::of(outcome.unwrap()),
            },
            Ask::Complete { .. } => Seen::of(store.complete(request.complete(ask)).await.unwrap()),
            Ask::Renew { .. } => Seen::of(store.renew(request.renew(ask)).await.unwrap()),
            Ask::Release { who, release } => {
                Seen::of(store.release(request.release(*who, *release)).await.unwrap())
            }
            Ask::Lookup => {
                let record = store.lookup(&self.key).await.unwrap();
                // moments are compared by how far they are from the end of the record's life
                Seen::of(record.map(|record| shown(&record, record.expires_at)))
            }
            Ask::Settle { who, verdict } => {
                let settled = store.settle(&self.key, seen(*who), settlement(*verdict)).await;
                Seen::of(settled.unwrap())
            }
            Ask::Remove { who } => Seen::of(store.remove(&self.key, seen(*who)).await.unwrap()),
        }
    }
}

/// What the machine says, and writes.
fn model(record: &mut Option<Record>, key: &IdempotencyKey, ask: &Ask, now: u64) -> Seen {
    fn apply<A: std::fmt::Debug>(record: &mut Option<Record>, decision: Decision<A>) -> Seen {
        if let Write::Put(next) = decision.write {
            *record = Some(next);
        }
        Seen::of(decision.answer)
    }
    let now = Timestamp::from_unix_millis(now).into();
    let request = Requests { key };
    let stored = record.clone();
    let stored = stored.as_ref();
    match ask {
        Ask::Claim { .. } => match machine::claim(stored, &request.claim(ask), now) {
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::TokenSpent);
                Seen::spent()
            }
            Ok(decision) => apply(record, decision),
        },
        Ask::Complete { .. } => {
            apply(record, machine::complete(stored, &request.complete(ask), now))
        }
        Ask::Renew { .. } => apply(record, machine::renew(stored, &request.renew(ask), now)),
        Ask::Release { who, release } => {
            apply(record, machine::release(stored, &request.release(*who, *release), now))
        }
        Ask::Lookup => {
            let record = machine::lookup(stored, now);
            Seen::of(record.map(|record| shown(record, record.expires_at)))
        }
        Ask::Settle { who, verdict } => {
            apply(record, machine::settle(stored, seen(*who), &settlement(*verdict), now))
        }
        Ask::Remove { who } => apply(record, machine::remove(stored, seen(*who), now)),
    }
}

fn seen(who: Who) -> SeenClaim {
    SeenClaim { token: token(who.token), attempt: AttemptNumber::new(who.attempt).unwrap() }
}

fn settlement(verdict: u8) -> Settlement {
    match verdict {
        0 => Settlement::Failed,
        1 => Settlement::NotStarted,
        _ => Settlement::Completed { response: "settled".into(), retention: retention(2_333) },
    }
}

fn token(name: u8) -> ClaimToken {
    ClaimToken::from_stored_bytes([name; 16])
}

fn fingerprint(name: u8) -> Fingerprint {
    Fingerprint::from_stored_bytes([name + 1; 33])
}

/// A record with all moments as distances from `end`, and all bytes.
fn shown(record: &Record, end: Timestamp) -> String {
    let before_end = |moment: Timestamp| end.since(moment);
    let (state, payload) = match &record.state {
        State::InProgress { lease_until, sequence, checkpoint } => {
            (format!("in progress {:?} {sequence}", before_end(*lease_until)), checkpoint.clone())
        }
        State::Released { reason, at, checkpoint } => {
            (format!("{reason:?} {:?}", before_end(*at)), checkpoint.clone())
        }
        State::Completed { at, response } => {
            (format!("completed {:?}", before_end(*at)), Some(response.clone()))
        }
        State::Unused => ("unused".to_owned(), None),
    };
    let (fingerprint, token, attempt) = (record.fingerprint, record.token, record.attempt);
    let claimed = before_end(record.claimed_at);
    let first = before_end(record.first_claimed_at);
    let retention = record.retention;
    format!(
        "{fingerprint:?} {token:?} {attempt} {retention:?} {state} {payload:?} {claimed:?} {first:?}"
    )
}

struct Requests<'a> {
    key: &'a IdempotencyKey,
}

impl<'a> Requests<'a> {
    fn claim(&self, ask: &Ask) -> ClaimRequest<'a> {
        let Ask::Claim { token: name, fingerprint: print, takeover, lease: l, retention: r } = *ask
        else {
            unreachable!()
        };
        ClaimRequest {
            key: self.key,
            fingerprint: fingerprint(print),
            token: token(name),
            lease: lease(l),
            retention: retention(r),
            takeover,
        }
    }

    fn complete(&self, ask: &Ask) -> CompleteRequest<'a> {
        let Ask::Complete { who, fingerprint: print, response, retention: r } = ask else {
            unreachable!()
        };
        let SeenClaim { token, attempt } = seen(*who);
        CompleteRequest {
            key: self.key,
            token,
            attempt,
            fingerprint: fingerprint(*print),
            response: response.clone().into(),
            retention: retention(*r),
        }
    }

    fn renew(&self, ask: &Ask) -> RenewRequest<'a> {
        let Ask::Renew { who, sequence, lease: l, checkpoint } = ask else { unreachable!() };
        let SeenClaim { token, attempt } = seen(*who);
        RenewRequest {
            key: self.key,
            token,
            attempt,
            sequence: (*sequence).try_into().unwrap(),
            lease: lease(*l),
            checkpoint: checkpoint.clone().map(Bytes::from),
        }
    }

    fn release(&self, who: Who, release: Release) -> ReleaseRequest<'a> {
        let SeenClaim { token, attempt } = seen(who);
        ReleaseRequest { key: self.key, token, attempt, release }
    }
}

/// An answer as words, and the durations in it apart.
#[derive(Debug)]
struct Seen {
    words: Vec<String>,
    durations: Vec<Duration>,
}

impl Seen {
    fn spent() -> Self {
        Self { words: vec!["token spent".to_owned()], durations: Vec::new() }
    }

    /// The library's types print durations as Rust does: `1.5s`, `20ms`.
    fn of(answer: impl std::fmt::Debug) -> Self {
        let text = format!("{answer:?}");
        let (mut words, mut durations) = (Vec::new(), Vec::new());
        for word in text.split([' ', ',', '(', ')', '{', '}', '"']).filter(|word| !word.is_empty())
        {
            match duration(word) {
                Some(duration) => durations.push(duration),
                None => words.push(word.to_owned()),
            }
        }
        Self { words, durations }
    }
}

fn duration(word: &str) -> Option<Duration> {
    let (number, unit) = match word.strip_suffix("ms") {
        Some(number) => (number, 1e-3),
        None => (word.strip_suffix("ns").or_else(|| word.strip_suffix('s'))?, 1.0),
    };
    Some(Duration::from_secs_f64(number.parse::<f64>().ok()? * unit))
}

fn agree(expected: &Seen, found: &Seen) -> bool {
    let close = |(a, b): (&Duration, &Duration)| a.abs_diff(*b) <= SLACK;
    expected.words == found.words
        && expected.durations.len() == found.durations.len()
        && expected.durations.iter().zip(&found.durations).all(close)
}
