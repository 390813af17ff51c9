//! Maps that the records could live in: claim and complete from empty, and the longest pause on the
//! way. For the decision record; the store itself is measured elsewhere.

use std::{
    collections::{HashMap, hash_map},
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use dashmap::DashMap;

use super::others::BareMap;
use crate::{
    cli::Args,
    driver::{Latencies, timed},
    load::{intents, response},
    report::{Figure, Report, Row},
};

type Key = Arc<str>;

/// As large as a record.
#[derive(Debug, Default)]
struct Value {
    _fields: [u64; 15],
    response: Option<Bytes>,
}

trait Map {
    fn claim(&self, key: &Key) -> bool;
    fn complete(&self, key: &Key, response: &Bytes) -> bool;
}

impl Map for scc::HashMap<Key, Box<Value>> {
    fn claim(&self, key: &Key) -> bool {
        match self.entry_sync(Arc::clone(key)) {
            scc::hash_map::Entry::Occupied(_) => false,
            scc::hash_map::Entry::Vacant(place) => {
                place.insert_entry(Box::default());
                true
            }
        }
    }

    fn complete(&self, key: &Key, response: &Bytes) -> bool {
        let put = |_: &Key, value: &mut Box<Value>| value.response = Some(copy(response));
        self.update_sync(key, put).is_some()
    }
}

impl Map for DashMap<Key, Box<Value>> {
    fn claim(&self, key: &Key) -> bool {
        match self.entry(Arc::clone(key)) {
            dashmap::Entry::Occupied(_) => false,
            dashmap::Entry::Vacant(place) => {
                place.insert(Box::default());
                true
            }
        }
    }

    fn complete(&self, key: &Key, response: &Bytes) -> bool {
        let put = |mut value: dashmap::mapref::one::RefMut<'_, Key, Box<Value>>| {
            value.response = Some(copy(response));
        };
        self.get_mut(key).map(put).is_some()
    }
}

impl Map for Mutex<HashMap<Key, Box<Value>>> {
    fn claim(&self, key: &Key) -> bool {
        let mut map = self.lock().unwrap_or_else(PoisonError::into_inner);
        match map.entry(Arc::clone(key)) {
            hash_map::Entry::Occupied(_) => false,
            hash_map::Entry::Vacant(place) => {
                place.insert(Box::default());
                true
            }
        }
    }

    fn complete(&self, key: &Key, response: &Bytes) -> bool {
        let mut map = self.lock().unwrap_or_else(PoisonError::into_inner);
        let put = |value: &mut Box<Value>| value.response = Some(copy(response));
        map.get_mut(key).map(put).is_some()
    }
}

/// Several of the maps above, by a hash of their own.
struct Sharded(Vec<Mutex<HashMap<Key, Box<Value>>>>, RandomState);

impl Sharded {
    fn new(shards: usize) -> Self {
        let shards = (0..shards).map(|_| Mutex::default()).collect();
        Self(shards, RandomState::new())
    }

    fn shard(&self, key: &Key) -> Option<&Mutex<HashMap<Key, Box<Value>>>> {
        let [a, b, ..] = self.1.hash_one(key).to_le_bytes();
        self.0.get(usize::from(u16::from_le_bytes([a, b])) % self.0.len())
    }
}

impl Map for Sharded {
    fn claim(&self, key: &Key) -> bool {
        self.shard(key).is_some_and(|shard| shard.claim(key))
    }

    fn complete(&self, key: &Key, response: &Bytes) -> bool {
        self.shard(key).is_some_and(|shard| shard.complete(key, response))
    }
}

type NewMap = fn() -> Box<dyn Map>;

const MAPS: [(&str, NewMap); 4] = [
    ("scc::HashMap", || Box::new(scc::HashMap::new())),
    ("DashMap", || Box::new(DashMap::new())),
    ("Mutex<HashMap>", || Box::new(Mutex::default())),
    ("128 x Mutex<HashMap>", || Box::new(Sharded::new(128))),
];

pub(super) fn run(args: &Args, report: &mut Report) -> anyhow::Result<()> {
    let keys: Vec<_> = intents(5, args.records)?.iter().map(BareMap::key).collect();
    let few = keys.get(..usize::try_from(args.keys)?.min(keys.len()));
    let few = few.unwrap_or_default();
    let mut costs = MAPS.map(|_| Vec::new());
    for _ in 0..args.runs {
        for ((_, new), costs) in MAPS.iter().zip(&mut costs) {
            let (map, response) = (new(), response());
            let taken = timed(u32::try_from(few.len())?, || {
                for key in few {
                    assert!(map.claim(key) && map.complete(key, &response));
                }
            });
            costs.push(taken.cpu_ns());
        }
    }
    for ((name, _), costs) in MAPS.iter().zip(costs) {
        report.add(row(format!("maps: claim + complete, CPU time: {name}"), "ns", costs));
    }
    for (name, new) in MAPS {
        let (map, mut latencies) = (new(), Latencies::new()?);
        for key in &keys {
            anyhow::ensure!(latencies.record(|| map.claim(key)));
        }
        let longest = f64::from(u32::try_from(latencies.cpu.max())?) / 1e3;
        report.add(row(
            format!("maps: longest claim while growing, CPU time: {name}"),
            "us",
            vec![longest],
        ));
    }
    Ok(())
}

fn copy(response: &Bytes) -> Bytes {
    Bytes::copy_from_slice(response)
}

fn row(what: String, unit: &'static str, ours: Vec<f64>) -> Row {
    Row { what, unit, ours, other: Vec::new(), figure: Figure::Ours, bar: None }
}
