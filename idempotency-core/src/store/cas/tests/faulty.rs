use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use bytes::Bytes;

use super::map::MapRecords;
use crate::{
    ErrorKind, Operation, RecordStore, StorageKey, StoreError, StoreProfile, Timestamp, Version,
    Versioned,
};

/// What goes wrong.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// Somebody else writes the same bytes again just before a put.
    LoseRace,
    /// A put is applied and its reply is lost.
    LoseReply,
    /// A get never returns.
    GetHangs,
    /// A put is applied and never returns.
    PutHangs,
    /// After the answer to a get, this happens before the caller goes on.
    AfterGet(fn(&MapRecords)),
}

/// A map in which something goes wrong, the next few times.
#[derive(Debug)]
pub(super) struct Faulty {
    map: MapRecords,
    fault: Fault,
    left: AtomicU32,
}

impl Faulty {
    pub(super) fn new(map: &MapRecords, fault: Fault, times: u32) -> Self {
        Self { map: map.clone(), fault, left: AtomicU32::new(times) }
    }

    fn strikes(&self) -> bool {
        let (order, one_less) = (Ordering::Relaxed, |left: u32| left.checked_sub(1));
        self.left.fetch_update(order, order, one_less).is_ok()
    }
}

#[async_trait]
impl RecordStore for Faulty {
    async fn get(&self, key: &StorageKey) -> Result<Option<Versioned>, StoreError> {
        let found = self.map.get(key).await;
        match self.fault {
            Fault::GetHangs if self.strikes() => std::future::pending().await,
            Fault::AfterGet(then) if self.strikes() => then(&self.map),
            _ => {}
        }
        found
    }

    async fn put_if(
        &self,
        key: &StorageKey,
        seen: Option<Version>,
        value: Bytes,
        expires_at: Timestamp,
    ) -> Result<bool, StoreError> {
        if matches!(self.fault, Fault::LoseRace)
            && self.strikes()
            && let Some((there, _)) = self.map.stored(key)
        {
            self.map.overwrite(key, there.value);
        }
        let put = self.map.put_if(key, seen, value, expires_at).await;
        match self.fault {
            Fault::LoseReply if self.strikes() => {
                let kind = ErrorKind::Unavailable;
                Err(StoreError::new(Operation::Claim, kind, "connection reset"))
            }
            Fault::PutHangs if self.strikes() => std::future::pending().await,
            _ => put,
        }
    }

    async fn now(&self) -> Result<Timestamp, StoreError> {
        self.map.now().await
    }

    fn profile(&self) -> &StoreProfile {
        self.map.profile()
    }
}
