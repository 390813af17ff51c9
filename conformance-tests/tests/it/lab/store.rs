use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
    num::NonZeroU32,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use bytes::Bytes;
use idempotency_core::{
    ClaimOutcome, ClaimRequest, Clock, CompleteRequest, ErrorKind, FinishOutcome, IdempotencyKey,
    IdempotencyStore, ManualClock, Namespace, Operation, Record, ReleaseOutcome, ReleaseRequest,
    RenewOutcome, RenewRequest, Retention, State, StoreError, StoreProfile, Sweep, SweepReport,
    Watch, Watching,
    machine::{Now, Write},
};
use tokio::{sync::watch, task::yield_now};

use super::rules::{Answer, Rules, Steps};

/// Bytes under places, as a server would keep them, of all namespaces.
#[derive(Default)]
pub(crate) struct Server {
    pub(crate) records: Mutex<BTreeMap<String, Bytes>>,
    before: Mutex<HashMap<String, Option<Bytes>>>,
    busy: Mutex<HashSet<String>>,
    writes: watch::Sender<u64>,
}

/// One connection to the laboratory's server.
#[derive(Clone)]
pub(crate) struct LabStore {
    pub(crate) rules: Rules,
    pub(crate) server: Arc<Server>,
    pub(crate) namespace: Namespace,
    pub(crate) clock: ManualClock,
    pub(crate) connection: usize,
    pub(crate) profile: StoreProfile,
}

impl fmt::Debug for LabStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LabStore")
    }
}

impl Server {
    fn get(&self, place: &str) -> Option<Bytes> {
        self.records.lock().unwrap().get(place).cloned()
    }

    /// What was there before the last write.
    fn get_stale(&self, place: &str) -> Option<Bytes> {
        let before = self.before.lock().unwrap().get(place).cloned();
        before.unwrap_or_default()
    }

    pub(crate) fn put(&self, place: &str, value: Option<Bytes>) {
        let mut records = self.records.lock().unwrap();
        let before = match value {
            Some(value) => records.insert(place.to_owned(), value),
            None => records.remove(place),
        };
        self.before.lock().unwrap().insert(place.to_owned(), before);
        self.writes.send_modify(|writes| *writes += 1);
    }
}

impl LabStore {
    fn now(&self) -> Now {
        (self.rules.now)(self.clock.now(), self.connection).into()
    }

    fn read(
        &self,
        operation: Operation,
        key: &IdempotencyKey,
    ) -> Result<Option<Record>, StoreError> {
        let place = (self.rules.place)(&self.namespace, key);
        let reads = [Operation::Lookup, Operation::Claim].contains(&operation);
        let stored = if reads && self.rules.steps == Steps::StaleReads {
            self.server.get_stale(&place)
        } else {
            self.server.get(&place)
        };
        match stored {
            None => Ok(None),
            Some(stored) => {
                (self.rules.read)(operation, &stored, &(self.rules.name)(&self.namespace, key))
            }
        }
    }

    fn write(&self, key: &IdempotencyKey, record: &Record) {
        let place = (self.rules.place)(&self.namespace, key);
        let value = record.encode(&(self.rules.name)(&self.namespace, key));
        self.server.put(&place, Some(value));
    }

    async fn apply<A>(
        &self,
        operation: Operation,
        key: &IdempotencyKey,
        decide: impl Fn(Option<&Record>, Now) -> Answer<A>,
    ) -> Result<A, StoreError> {
        yield_now().await;
        let place = (self.rules.place)(&self.namespace, key);
        if self.rules.steps == Steps::Busy {
            self.mark_busy(operation, &place).await?;
        }
        let record = self.read(operation, key)?;
        let decision = decide(record.as_ref(), self.now());
        if let Ok(decision) = &decision {
            self.carry_out(operation, key, &decision.write).await;
        }
        if self.rules.steps == Steps::Busy {
            yield_now().await;
            self.server.busy.lock().unwrap().remove(&place);
        }
        yield_now().await;
        assert!(self.rules.steps != Steps::Panic, "a store that panics");
        decision.map(|decision| decision.answer)
    }

    async fn mark_busy(&self, operation: Operation, place: &str) -> Result<(), StoreError> {
        for _ in 0..1_000 {
            if self.server.busy.lock().unwrap().insert(place.to_owned()) {
                return Ok(());
            }
            yield_now().await;
        }
        Err(StoreError::new(operation, ErrorKind::Conflict, "busy"))
    }

    async fn carry_out(&self, operation: Operation, key: &IdempotencyKey, write: &Write) {
        let Write::Put(record) = write else {
            return;
        };
        match self.rules.steps {
            Steps::CheckThenAct => yield_now().await,
            Steps::RemoveThenWrite if operation == Operation::Complete => {
                let place = (self.rules.place)(&self.namespace, key);
                self.server.put(&place, None);
                yield_now().await;
                yield_now().await;
            }
            Steps::Provisional => {
                if let State::InProgress { sequence, checkpoint, .. } = &record.state {
                    let lease_until = record.claimed_at.after(Retention::MAX);
                    let (sequence, checkpoint) = (*sequence, checkpoint.clone());
                    let state = State::InProgress { lease_until, sequence, checkpoint };
                    let expires_at = lease_until;
                    self.write(key, &Record { state, expires_at, ..record.clone() });
                    yield_now().await;
                }
            }
            _ => {}
        }
        self.write(key, record);
    }
}

#[async_trait]
impl IdempotencyStore for LabStore {
    async fn claim(&self, request: ClaimRequest<'_>) -> Result<ClaimOutcome, StoreError> {
        let decide = |record: Option<&Record>, now| (self.rules.claim)(record, &request, now);
        self.apply(Operation::Claim, request.key, decide).await
    }

    async fn complete(&self, request: CompleteRequest<'_>) -> Result<FinishOutcome, StoreError> {
        (self.rules.check_response)(&self.profile, &request.response)?;
        let decide = |record: Option<&Record>, now| (self.rules.complete)(record, &request, now);
        self.apply(Operation::Complete, request.key, decide).await
    }

    async fn renew(&self, request: RenewRequest<'_>) -> Result<RenewOutcome, StoreError> {
        (self.rules.check_checkpoint)(&self.profile, request.checkpoint.as_ref())?;
        let decide = |record: Option<&Record>, now| (self.rules.renew)(record, &request, now);
        self.apply(Operation::Renew, request.key, decide).await
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<ReleaseOutcome, StoreError> {
        let decide = |record: Option<&Record>, now| (self.rules.release)(record, &request, now);
        self.apply(Operation::Release, request.key, decide).await
    }

    async fn lookup(&self, key: &IdempotencyKey) -> Result<Option<Record>, StoreError> {
        yield_now().await;
        let record = self.read(Operation::Lookup, key)?;
        Ok((self.rules.lookup)(record.as_ref(), self.now()))
    }

    fn profile(&self) -> &StoreProfile {
        &self.profile
    }
}

#[async_trait]
impl Sweep for LabStore {
    async fn sweep(&self, batch: NonZeroU32) -> Result<SweepReport, StoreError> {
        let batch = (self.rules.sweep_batch)(batch.get() as usize);
        let expired = self.expired();
        if self.rules.steps == Steps::SweepLater {
            yield_now().await;
            yield_now().await;
        }
        let mut report = SweepReport::default();
        for (place, abandoned) in expired.iter().take(batch) {
            self.server.put(place, None);
            report.removed += 1;
            report.abandoned += u64::from(*abandoned);
        }
        report.more = expired.len() > batch;
        yield_now().await;
        Ok(report)
    }
}

impl LabStore {
    /// The places of this namespace that a sweep may remove, and whether each was abandoned.
    fn expired(&self) -> Vec<(String, bool)> {
        let now = self.now();
        let records = self.server.records.lock().unwrap();
        let ours = self.namespace.name().to_owned() + "/";
        let places = records.iter().filter(|(place, _)| place.starts_with(&ours));
        let judged = places.filter_map(|(place, stored)| {
            let key = idempotency_core::StorageKey::decode(place, &self.namespace)?;
            let storage_key = (self.rules.name)(&self.namespace, &key);
            match Record::decode(stored, &storage_key) {
                Ok(record) if (self.rules.sweep)(&record, now) => {
                    Some((place.clone(), (self.rules.counts_as_abandoned)(&record)))
                }
                Err(_) if self.rules.sweeps_unreadable => Some((place.clone(), false)),
                _ => None,
            }
        });
        judged.collect()
    }
}

#[async_trait]
impl Watch for LabStore {
    async fn watch(&self, key: &IdempotencyKey) -> Result<Box<dyn Watching>, StoreError> {
        let record = self.read(Operation::Watch, key)?;
        if let Some(record) = (self.rules.watching)(record) {
            self.write(key, &record);
        }
        Ok(Box::new(LabWatching(self.server.writes.subscribe())))
    }
}

#[derive(Debug)]
struct LabWatching(watch::Receiver<u64>);

#[async_trait]
impl Watching for LabWatching {
    async fn changed(&mut self) -> Result<(), StoreError> {
        let gone = |_| StoreError::new(Operation::Watch, ErrorKind::Unavailable, "gone");
        self.0.changed().await.map_err(gone)
    }
}
