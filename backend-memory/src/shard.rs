use std::{cmp::Reverse, collections::BinaryHeap, mem::MaybeUninit};

use hashbrown::HashTable;
use idempotency_core::{IdempotencyKey, Record, Timestamp, machine};

/// A part of the records under one lock: the records, and when each of them has to be looked at.
///
/// Every record is registered once, at a moment not later than its `expires_at`. A deadline that
/// moves later, as it does with every completion, leaves the registration as it is: the record is
/// looked at too early once and registered again. A deadline that moves earlier is registered at
/// once; the old registration is then stale, and stale ones are thrown out before they are the most.
#[derive(Debug, Default)]
pub(crate) struct Shard {
    records: HashTable<Slot>,
    due: BinaryHeap<Reverse<Due>>,
    stale: usize,
}

/// A record with its key, and what a table that grows, or registrations that are checked, have to
/// know of it: neither touches the record.
#[derive(Debug)]
pub(crate) struct Slot {
    hash: u64,
    registered: Timestamp,
    pub(crate) kept: Box<Kept>,
}

/// A record with its key.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) key: IdempotencyKey,
    pub(crate) record: Record,
}

/// A place for a record that is not there yet, allocated before the lock is taken.
pub(crate) type EmptyKept = Box<MaybeUninit<Kept>>;

/// Which record, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At<'a> {
    pub(crate) hash: u64,
    pub(crate) key: &'a IdempotencyKey,
    pub(crate) now: Timestamp,
}

/// A registration. It names its record by hash and moment, so it keeps no key alive. Two records
/// that agree in both are both due then, so it does not matter which one is found first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: Timestamp,
    hash: u64,
}

impl Shard {
    pub(crate) fn get(&self, hash: u64, key: &IdempotencyKey) -> Option<&Record> {
        self.records
            .find(hash, |slot| slot.hash == hash && slot.kept.key == *key)
            .map(|slot| &slot.kept.record)
    }

    /// Puts what `decide` makes of the record, or of its absence, in its place. Gives back what was
    /// there, to be dropped elsewhere. A new record goes to the `empty` place if one is given.
    pub(crate) fn update<E>(
        &mut self,
        at: At<'_>,
        empty: &mut Option<EmptyKept>,
        decide: impl FnOnce(Option<&Record>) -> Result<Option<Record>, E>,
    ) -> Result<Option<Record>, E> {
        let At { hash, key, .. } = at;
        let same_key = |slot: &Slot| slot.hash == hash && slot.kept.key == *key;
        let Some(slot) = self.records.find_mut(hash, same_key) else {
            if let Some(record) = decide(None)? {
                self.insert(at, empty.take(), record);
            }
            return Ok(None);
        };
        let Some(record) = decide(Some(&slot.kept.record))? else {
            return Ok(None);
        };
        let at = record.expires_at;
        let old = std::mem::replace(&mut slot.kept.record, record);
        if at < slot.registered {
            slot.registered = at;
            self.due.push(Reverse(Due { at, hash }));
            self.stale += 1;
            self.drop_stale();
        }
        Ok(Some(old))
    }

    fn insert(&mut self, at: At<'_>, empty: Option<EmptyKept>, record: Record) {
        let At { hash, key, now } = at;
        // a completion may come at once: then the record ends this early
        let at = now.after(record.retention.get()).min(record.expires_at);
        let key = key.clone();
        let empty = empty.unwrap_or_else(Box::new_uninit);
        let slot = Slot { hash, registered: at, kept: Box::write(empty, Kept { key, record }) };
        self.records.insert_unique(hash, slot, |slot| slot.hash);
        self.due.push(Reverse(Due { at, hash }));
    }

    /// Looks at up to `limit` records that are due and moves the expired ones to `gone`. Answers how
    /// many it looked at.
    pub(crate) fn take_expired(
        &mut self,
        now: Timestamp,
        limit: usize,
        gone: &mut Vec<Slot>,
    ) -> usize {
        let mut looked_at = 0;
        while looked_at < limit
            && let Some(Reverse(due)) = self.due.peek().copied()
            && due.at < now
        {
            looked_at += 1;
            self.due.pop();
            let named = |slot: &Slot| slot.hash == due.hash && slot.registered == due.at;
            let Ok(mut found) = self.records.find_entry(due.hash, named) else {
                self.stale = self.stale.saturating_sub(1);
                continue;
            };
            if machine::is_expired(&found.get().kept.record, now.into()) {
                gone.push(found.remove().0);
            } else {
                let slot = found.get_mut();
                let (at, hash) = (slot.kept.record.expires_at, due.hash);
                slot.registered = at;
                self.due.push(Reverse(Due { at, hash }));
            }
        }
        self.drop_stale();
        looked_at
    }

    /// The moment of the first registration; the end of time when there is none.
    pub(crate) fn earliest(&self) -> Timestamp {
        let first = self.due.peek();
        first.map_or(NEVER, |Reverse(due)| due.at)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &Kept)> {
        self.records.iter().map(|slot| (slot.hash, &*slot.kept))
    }

    /// A pass over all registrations pays for at least half as many stale ones.
    fn drop_stale(&mut self) {
        if self.stale * 2 > self.due.len() {
            let records = &self.records;
            self.due.retain(|Reverse(due)| {
                let named = |slot: &Slot| slot.hash == due.hash && slot.registered == due.at;
                records.find(due.hash, named).is_some()
            });
            self.stale = 0;
        }
    }

    /// How many records there should be room for, when the room there is gets tight or is mostly empty.
    pub(crate) fn wanted_room(&self) -> Option<usize> {
        let (len, room) = (self.records.len(), self.records.capacity());
        if room > len * 4 {
            Some(len * 2)
        } else if room >= GROWS_BY_ITSELF && len > room - room / 8 {
            Some(room * 2)
        } else {
            None
        }
    }

    /// Moves everything into `room`, and gives back the room there was. Allocates nothing, unless the
    /// records have become more than fit.
    pub(crate) fn move_into(&mut self, mut room: Room) -> Room {
        if self.records.len() <= room.records.capacity() {
            for slot in self.records.drain() {
                room.records.insert_unique(slot.hash, slot, |slot| slot.hash);
            }
            std::mem::swap(&mut self.records, &mut room.records);
            let mut due = std::mem::take(&mut self.due).into_vec();
            room.due.append(&mut due);
            self.due = std::mem::replace(&mut room.due, due).into();
        }
        room
    }
}

/// Below this a table is so small that it may grow under the lock.
const GROWS_BY_ITSELF: usize = 14;

/// Empty room for the records of a shard. An allocator may be busy for a millisecond with what was
/// freed before, so memory is allocated and freed while no lock is held.
#[derive(Debug)]
pub(crate) struct Room {
    records: HashTable<Slot>,
    due: Vec<Reverse<Due>>,
}

impl Room {
    pub(crate) fn new(records: usize) -> Self {
        let records = HashTable::with_capacity(records);
        let due = Vec::with_capacity(records.capacity());
        Self { records, due }
    }
}

/// The end of time.
pub(crate) const NEVER: Timestamp = Timestamp::from_unix_millis(u64::MAX);

#[cfg(test)]
mod tests;
