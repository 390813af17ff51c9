use std::{
    hash::{BuildHasher, RandomState},
    mem::MaybeUninit,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use idempotency_core::{
    Clock, IdempotencyKey, Record, State, StoreError, StoreProfile, SweepReport, Timestamp,
    machine::{self, Decision, Now, Write},
};

use crate::{
    config::MemoryStoreBuilder,
    shard::{At, EmptyKept, Kept, NEVER, Room, Shard, Slot},
    sweeper::Sweeper,
};

/// All records of a store, in shards by the hash of their key.
#[derive(Debug)]
pub(crate) struct Records {
    /// A power of two of them.
    shards: Box<[Cell]>,
    /// Keyed at random, so that nobody can choose keys that meet.
    hasher: RandomState,
    counters: Counters,
    pub(crate) capacity: usize,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) profile: StoreProfile,
    pub(crate) sweeper: Sweeper,
}

/// What changes all the time, on a cache line of its own: the line beside it is read by everybody.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counters {
    /// How many records there are.
    held: AtomicUsize,
    /// Where the next sweep begins, so that all shards have their turn.
    sweep_from: AtomicUsize,
}

/// A shard on a cache line of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Cell {
    shard: Mutex<Shard>,
    /// The shard's earliest registration, to be read without the lock; written under it.
    earliest: AtomicU64,
}

/// What a write needs, allocated before the lock is taken.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    /// The place of a new record.
    pub(crate) empty: Option<EmptyKept>,
    /// Bytes of the request that the decision has not seen: they are put into the record in the place
    /// of the (empty) ones of the decision.
    pub(crate) own: Option<Bytes>,
}

impl Prepared {
    pub(crate) fn for_a_new_record() -> Self {
        Self {
            // written to, so that the system gives the page now and not under the lock
            empty: Some(Box::new(MaybeUninit::zeroed())),
            own: None,
        }
    }

    pub(crate) fn with_bytes(own: Option<Bytes>) -> Self {
        Self { empty: None, own }
    }
}

/// What an operation on a full store gives when it needs a new record.
#[derive(Debug)]
pub(crate) struct NoRoom;

/// A shard that moves to larger room or drops its stale registrations holds its lock for 10 to 20 ns a
/// record: with this many records that stays far below a millisecond.
const RECORDS_PER_SHARD: usize = 4_096;
const MAX_SHARDS: usize = 1 << 14;

/// How many records are looked at under one lock: a few microseconds.
const PER_LOCK: usize = 32;

/// What is due for so long that the background task has fallen behind, or stands still with its runtime,
/// leaves with the next operations on its shard.
const PATIENCE: Duration = Duration::from_secs(1);
/// How many with each: more than come in.
const HELP: usize = 2;

impl Records {
    pub(crate) fn new(config: MemoryStoreBuilder) -> Self {
        let shards = (config.capacity / RECORDS_PER_SHARD).clamp(16, MAX_SHARDS);
        let shards = shards.next_power_of_two();
        Self {
            shards: (0..shards).map(|_| Cell::new()).collect(),
            hasher: RandomState::new(),
            counters: Counters::default(),
            capacity: config.capacity,
            clock: config.clock,
            profile: config.profile,
            sweeper: Sweeper::default(),
        }
    }

    pub(crate) fn held(&self) -> usize {
        self.counters.held.load(Ordering::Relaxed)
    }

    /// One atomic step: reads the record of `key`, lets `decide` decide, writes. The moment is read
    /// under the lock, so that a later decision on a key never has an earlier moment.
    ///
    pub(crate) fn apply<A>(
        &self,
        key: &IdempotencyKey,
        prepared: &mut Prepared,
        decide: impl FnOnce(Option<&Record>, Now) -> Result<Decision<A>, StoreError>,
    ) -> Result<Result<A, NoRoom>, StoreError> {
        let hash = self.hasher.hash_one(key);
        let cell = self.cell(hash);
        let mut shard = cell.lock();
        let now = self.clock.now();
        let mut answered = Err(NoRoom);
        let at = At { hash, key, now };
        let Prepared { empty, own } = prepared;
        let old = shard.update(at, empty, |seen| {
            let Decision { write, answer } = decide(seen, now.into())?;
            let Write::Put(mut record) = write else {
                answered = Ok(answer);
                return Ok(None);
            };
            if seen.is_none() && !self.take_room() {
                return Ok(None);
            }
            insert_own(&mut record, own.take());
            answered = Ok(answer);
            Ok(Some(record))
        })?;
        if let Some(earliest) = cell.note_earliest(&shard) {
            self.sweeper.wake_before(earliest);
        }
        let wanted = shard.wanted_room();
        drop(shard);
        drop(old);
        cell.make_room(wanted);
        if cell.is_overdue(now) {
            let mut report = SweepReport::default();
            self.sweep_shard(cell, HELP, &mut report);
            tell_of_abandoned(report);
        }
        Ok(answered)
    }

    pub(crate) fn lookup(&self, key: &IdempotencyKey) -> Option<Record> {
        let hash = self.hasher.hash_one(key);
        let shard = self.cell(hash).lock();
        machine::lookup(shard.get(hash, key), self.clock.now().into()).cloned()
    }

    /// Looks at up to `limit` records that are due and removes the expired ones. Holds one lock at a
    /// time, for a few records; drops them outside.
    pub(crate) fn sweep(&self, limit: usize) -> SweepReport {
        let mut report = SweepReport::default();
        let mut left = limit;
        let now = self.clock.now();
        let from = self.counters.sweep_from.load(Ordering::Relaxed);
        let (before, after) = self.shards.split_at(from.min(self.shards.len()));
        for (index, cell) in (0..).zip(after.iter().chain(before)) {
            while left > 0 && cell.is_due(now) {
                left -= self.sweep_shard(cell, left.min(PER_LOCK), &mut report);
            }
            if left == 0 {
                let next = (from + index) % self.shards.len();
                self.counters.sweep_from.store(next, Ordering::Relaxed);
                report.more = self.earliest() < now;
                break;
            }
        }
        tell_of_abandoned(report);
        report
    }

    fn sweep_shard(&self, cell: &Cell, limit: usize, report: &mut SweepReport) -> usize {
        let mut gone = Vec::with_capacity(limit);
        let mut shard = cell.lock();
        let looked_at = shard.take_expired(self.clock.now(), limit, &mut gone);
        cell.note_earliest(&shard);
        let wanted = shard.wanted_room();
        drop(shard);
        cell.make_room(wanted);
        let held = &self.counters.held;
        held.fetch_sub(gone.len(), Ordering::Relaxed);
        let unsettled = |slot: &&Slot| machine::is_unsettled(&slot.kept.record);
        report.abandoned += gone.iter().filter(unsettled).count() as u64;
        report.removed += gone.len() as u64;
        looked_at
    }

    /// The earliest registration of all.
    pub(crate) fn earliest(&self) -> Timestamp {
        let all = self.shards.iter().map(Cell::earliest);
        all.min().unwrap_or(NEVER)
    }

    /// Calls `visit` for the records of one shard, under its lock.
    pub(crate) fn visit<T>(
        &self,
        shard: usize,
        visit: impl FnOnce(&mut dyn Iterator<Item = (u64, &Kept)>) -> T,
    ) -> Option<T> {
        let shard = self.shards.get(shard)?.lock();
        Some(visit(&mut shard.iter()))
    }

    /// Bits from the middle of the hash: the table in the shard uses both ends.
    pub(crate) fn shard_of(&self, hash: u64) -> usize {
        let [.., a, b, _, _] = hash.to_le_bytes();
        usize::from(u16::from_le_bytes([a, b])) & (self.shards.len() - 1)
    }

    /// Tells the pages of this store from those of others.
    pub(crate) fn mark(&self) -> u64 {
        self.hasher.hash_one("page")
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "masked with the number of shards, a power of two, less one"
    )]
    fn cell(&self, hash: u64) -> &Cell {
        &self.shards[self.shard_of(hash)]
    }

    fn take_room(&self) -> bool {
        let one_more = |held: usize| (held < self.capacity).then_some(held + 1);
        let held = &self.counters.held;
        let taken = held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        taken.is_ok()
    }
}

/// Whoever waits for a moment of the records is told that there are none any more.
impl Drop for Records {
    fn drop(&mut self) {
        self.sweeper.stop();
    }
}

impl Cell {
    fn new() -> Self {
        Self { shard: Mutex::default(), earliest: AtomicU64::new(NEVER.as_unix_millis()) }
    }

    /// A panic under the lock leaves a record that is whole: there is no half of a write.
    fn lock(&self) -> MutexGuard<'_, Shard> {
        self.shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the shard room for `wanted` records. What is allocated and freed for that, is while the
    /// lock is not held.
    fn make_room(&self, wanted: Option<usize>) {
        if let Some(records) = wanted {
            let room = Room::new(records);
            let mut shard = self.lock();
            let left = if shard.wanted_room().is_some() { shard.move_into(room) } else { room };
            drop(shard);
            drop(left);
        }
    }

    /// Shows the shard's earliest registration to who has no lock. Answers it if it has changed.
    fn note_earliest(&self, shard: &Shard) -> Option<Timestamp> {
        let earliest = shard.earliest();
        if earliest == self.earliest() {
            return None;
        }
        // together with `Sweeper::wake_before`: either the sweeper sees this, or it is woken
        self.earliest.store(earliest.as_unix_millis(), Ordering::SeqCst);
        Some(earliest)
    }

    fn earliest(&self) -> Timestamp {
        Timestamp::from_unix_millis(self.earliest.load(Ordering::SeqCst))
    }

    fn is_due(&self, now: Timestamp) -> bool {
        self.earliest() < now
    }

    fn is_overdue(&self, now: Timestamp) -> bool {
        self.is_due(now) && now.since(self.earliest()) > PATIENCE
    }
}

fn tell_of_abandoned(report: SweepReport) {
    if report.abandoned > 0 {
        let abandoned = report.abandoned;
        tracing::warn!(abandoned, "records left the store with an unknown outcome");
    }
}

/// The record gets its own exact copy, so that a small response never pins a large buffer.
fn insert_own(record: &mut Record, own: Option<Bytes>) {
    match (&mut record.state, own) {
        (State::Completed { response, .. }, Some(own)) => *response = own,
        (State::InProgress { checkpoint, .. }, Some(own)) => *checkpoint = Some(own),
        _ => {}
    }
}
