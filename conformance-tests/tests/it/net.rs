//! A store over TCP: `CasStore` over a little server of this file, for the cases about outages.

use std::{
    collections::HashMap,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, LazyLock},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use idempotency_conformance::{
    Fixture, Harness, HarnessError, RawRecord, Suite, Written, unique_namespace,
};
use idempotency_core::{
    CasStore, Clock, ErrorKind, IdempotencyKey, Namespace, Operation, RecordStore, StorageKey,
    StoreError, StoreProfile, SystemClock, Timestamp, Version, Versioned,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Mutex,
};

/// What is wrong with the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NetFault {
    None,
    EffectNone,
    Unexpected,
    NeverReconnects,
    NoTimeout,
    Shifted,
}

/// Key, then the version that must be there and the value to put, if it is a write.
type Call = (String, Option<(u64, Bytes)>);

/// Whether it was put, the version and the value that are there, and the time.
type Reply = (bool, u64, Bytes, u64);

async fn write_bytes(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    stream.write_u32(u32::try_from(bytes.len()).unwrap()).await?;
    stream.write_all(bytes).await
}

async fn read_bytes(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let length = stream.read_u32().await?;
    let mut bytes = vec![0; length as usize];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

async fn call(stream: &mut TcpStream, (key, put): &Call) -> io::Result<()> {
    let mut frame = vec![u8::from(put.is_some())];
    let (seen, value) = put.clone().unwrap_or_default();
    frame.extend(seen.to_be_bytes());
    frame.extend(u16::try_from(key.len()).unwrap().to_be_bytes());
    frame.extend(key.as_bytes());
    frame.extend(&value);
    write_bytes(stream, &frame).await
}

async fn reply(stream: &mut TcpStream) -> io::Result<Reply> {
    let done = stream.read_u8().await? == 1;
    let version = stream.read_u64().await?;
    let now = stream.read_u64().await?;
    Ok((done, version, read_bytes(stream).await?.into(), now))
}

type Records = Arc<Mutex<HashMap<String, (u64, Bytes)>>>;

async fn serve(mut stream: TcpStream, records: Records, clock: SystemClock) -> io::Result<()> {
    stream.set_nodelay(true)?;
    loop {
        let frame = read_bytes(&mut stream).await?;
        let seen = u64::from_be_bytes(frame[1..9].try_into().unwrap());
        let end = 11 + usize::from(u16::from_be_bytes([frame[9], frame[10]]));
        let key = String::from_utf8(frame[11..end].to_vec()).unwrap();
        let mut records = records.lock().await;
        let (mut version, mut value) = records.get(&key).cloned().unwrap_or_default();
        let done = frame[0] == 1 && version == seen;
        if done {
            (version, value) = (version + 1, Bytes::copy_from_slice(&frame[end..]));
            records.insert(key, (version, value.clone()));
        }
        drop(records);
        let mut answer = vec![u8::from(done)];
        answer.extend(version.to_be_bytes());
        answer.extend(clock.now().as_unix_millis().to_be_bytes());
        answer.extend(u32::try_from(value.len()).unwrap().to_be_bytes());
        answer.extend(&value);
        stream.write_all(&answer).await?;
    }
}

/// One server a process, in a thread of its own: it outlives the runtimes of the tests.
static SERVER: LazyLock<SocketAddr> = LazyLock::new(|| {
    let (address, started) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            address.send(listener.local_addr().unwrap()).unwrap();
            let (records, clock) = (Records::default(), SystemClock::new());
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&records), clock.clone()));
            }
        });
    });
    started.recv().unwrap()
});

#[derive(Debug)]
pub(crate) struct NetRecords {
    address: SocketAddr,
    fault: NetFault,
    stream: Mutex<Option<TcpStream>>,
    profile: StoreProfile,
}

impl NetRecords {
    fn new(address: SocketAddr, fault: NetFault) -> Self {
        Self { address, fault, stream: Mutex::new(None), profile: profile() }
    }

    /// One call at a time. The stream goes back only after a whole reply: a future that is dropped
    /// takes it along.
    async fn ask(&self, question: Call) -> Result<Reply, StoreError> {
        let mut slot = self.stream.lock().await;
        if self.fault == NetFault::Shifted {
            if slot.is_none() {
                *slot = Some(self.connect().await?);
            }
            let stream = slot.as_mut().unwrap();
            call(stream, &question).await.map_err(|e| self.failed(&e))?;
            return reply(stream).await.map_err(|e| self.failed(&e));
        }
        let mut stream = match slot.take() {
            Some(stream) => stream,
            None => self.connect().await?,
        };
        let answer = async {
            call(&mut stream, &question).await?;
            reply(&mut stream).await
        };
        let answer = answer.await;
        if answer.is_ok() || self.fault == NetFault::NeverReconnects {
            *slot = Some(stream);
        }
        answer.map_err(|error| self.failed(&error))
    }

    async fn connect(&self) -> Result<TcpStream, StoreError> {
        let stream = TcpStream::connect(self.address).await;
        let stream = stream.map_err(|error| self.failed(&error))?;
        stream.set_nodelay(true).map_err(|error| self.failed(&error))?;
        Ok(stream)
    }

    fn failed(&self, error: &io::Error) -> StoreError {
        let kind = match self.fault {
            NetFault::Unexpected => ErrorKind::Unexpected,
            _ => ErrorKind::Unavailable,
        };
        let failed = StoreError::new(Operation::Lookup, kind, error.to_string());
        match self.fault {
            NetFault::EffectNone => failed.without_effect(),
            _ => failed,
        }
    }
}

#[async_trait]
impl RecordStore for NetRecords {
    async fn get(&self, key: &StorageKey) -> Result<Option<Versioned>, StoreError> {
        let (_, version, value, _) = self.ask((key.as_str().to_owned(), None)).await?;
        let there = version > 0;
        let version = Version(version);
        Ok(there.then_some(Versioned { value, version }))
    }

    async fn put_if(
        &self,
        key: &StorageKey,
        seen: Option<Version>,
        value: Bytes,
        _: Timestamp,
    ) -> Result<bool, StoreError> {
        let seen = seen.map_or(0, |version| version.0);
        let put = (key.as_str().to_owned(), Some((seen, value)));
        Ok(self.ask(put).await?.0)
    }

    async fn now(&self) -> Result<Timestamp, StoreError> {
        let (.., now) = self.ask((String::new(), None)).await?;
        Ok(Timestamp::from_unix_millis(now))
    }

    fn profile(&self) -> &StoreProfile {
        &self.profile
    }
}

fn profile() -> StoreProfile {
    let mut profile = StoreProfile::new("over a network");
    profile.remembers_not_started = true;
    profile.sharing = idempotency_core::Sharing::Server;
    profile
}

pub(crate) struct NetHarness(pub(crate) NetFault);

impl NetHarness {
    fn store(&self, address: SocketAddr, namespace: &Namespace) -> CasStore<NetRecords> {
        let timeout = match self.0 {
            NetFault::NoTimeout => Duration::from_mins(10),
            _ => Duration::from_millis(700),
        };
        let store = CasStore::new(NetRecords::new(address, self.0));
        store.namespace(namespace.clone()).timeout(timeout)
    }
}

impl Harness for NetHarness {
    type Store = CasStore<NetRecords>;

    async fn fresh(&self) -> Result<Fixture<Self::Store>, HarnessError> {
        let namespace = unique_namespace();
        Ok(Fixture::new(self.store(*SERVER, &namespace), namespace))
    }

    fn profile(&self) -> StoreProfile {
        profile()
    }

    async fn connect_again(
        &self,
        namespace: &Namespace,
    ) -> Result<Option<Self::Store>, HarnessError> {
        Ok(Some(self.store(*SERVER, namespace)))
    }

    async fn write_raw(
        &self,
        namespace: &Namespace,
        key: &IdempotencyKey,
        raw: RawRecord<'_>,
    ) -> Result<Option<Written>, HarnessError> {
        let records = NetRecords::new(*SERVER, NetFault::None);
        let (place, mut source) = (namespace.storage_key(key), namespace.storage_key(key));
        if let RawRecord::RecordOf(other) = raw {
            source = namespace.storage_key(other);
        }
        let seen = records.get(&place).await?.map(|found| found.version);
        let stored = records.get(&source).await?.map(|found| found.value);
        let value = match (raw, stored) {
            (RawRecord::RecordOf(_), Some(stored)) => stored,
            (RawRecord::Truncated, Some(stored)) => stored.slice(..stored.len() - 1),
            (RawRecord::NewerFormat, Some(stored)) => {
                let mut bytes = stored.to_vec();
                bytes[4] = 2;
                bytes.into()
            }
            _ => Bytes::from_static(b"1"),
        };
        let done = records.put_if(&place, seen, value, Timestamp::default()).await?;
        Ok(done.then_some(Written::Done))
    }

    fn server(&self) -> Option<SocketAddr> {
        Some(*SERVER)
    }

    async fn connect_through(
        &self,
        address: SocketAddr,
        namespace: &Namespace,
    ) -> Result<Option<Self::Store>, HarnessError> {
        Ok(Some(self.store(address, namespace)))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_over_a_network_keeps_the_contract() {
    let report = Suite::new(NetHarness(NetFault::None)).run().await;
    assert!(report.is_green(), "{report}");
}
