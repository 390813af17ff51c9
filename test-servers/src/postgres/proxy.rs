use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
    time,
};

/// What happens to the next COMMIT; then nothing happens to the ones after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// It passes.
    Nothing,
    /// The connection ends before it reaches the server.
    BeforeCommit,
    /// The connection ends with the server's reply to it.
    AfterCommit,
}

/// A proxy that knows enough of the protocol to be slow, or to cut a connection around a COMMIT.
#[derive(Debug)]
pub struct CommitProxy {
    address: SocketAddr,
    cut: Arc<AtomicU8>,
    requests: Arc<AtomicU64>,
    accepting: JoinHandle<()>,
}

impl CommitProxy {
    /// In front of `server`, on a free port; every piece is late by `delay`. Ends with the value.
    ///
    /// # Errors
    /// No port to listen on.
    pub async fn start(server: SocketAddr, delay: Duration) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let cut = Arc::new(AtomicU8::new(Cut::Nothing as u8));
        let requests = Arc::<AtomicU64>::default();
        let (shared, counted) = (Arc::clone(&cut), Arc::clone(&requests));
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let (cut, requests) = (Arc::clone(&shared), Arc::clone(&counted));
                connections.spawn(serve(client, server, delay, cut, requests));
            }
        });
        Ok(Self { address, cut, requests, accepting })
    }

    /// `postgres://postgres@127.0.0.1:PORT/postgres`
    pub fn url(&self) -> String {
        format!("postgres://postgres@{}/postgres", self.address)
    }

    /// Cuts at the next COMMIT.
    pub fn cut(&self, cut: Cut) {
        self.cut.store(cut as u8, Ordering::SeqCst);
    }

    /// Pieces that clients have sent: each small message, or group of them, is one.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }

    /// Whether that COMMIT has come.
    pub fn has_cut(&self) -> bool {
        self.cut.load(Ordering::SeqCst) == Cut::Nothing as u8
    }
}

impl Drop for CommitProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// The message that the driver commits with.
const COMMIT: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";

/// Ends with either side, or at a cut.
async fn serve(
    client: TcpStream,
    server: SocketAddr,
    delay: Duration,
    cut: Arc<AtomicU8>,
    requests: Arc<AtomicU64>,
) -> io::Result<()> {
    let server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let (mut request, mut reply) = (vec![0; 65_536], vec![0; 65_536]);
    let mut lose_reply = false;
    loop {
        tokio::select! {
            read = from_client.read(&mut request) => {
                let sent = piece(&request, read?);
                if sent.is_empty() {
                    return Ok(());
                }
                requests.fetch_add(1, Ordering::SeqCst);
                if sent.windows(COMMIT.len()).any(|part| part == COMMIT) {
                    let now = cut.swap(Cut::Nothing as u8, Ordering::SeqCst);
                    if now == Cut::BeforeCommit as u8 {
                        return Ok(());
                    }
                    lose_reply |= now == Cut::AfterCommit as u8;
                }
                time::sleep(delay).await;
                to_server.write_all(sent).await?;
            }
            read = from_server.read(&mut reply) => {
                let received = piece(&reply, read?);
                if lose_reply || received.is_empty() {
                    return Ok(());
                }
                time::sleep(delay).await;
                to_client.write_all(received).await?;
            }
        }
    }
}

/// What was read; nothing at the end.
fn piece(buffer: &[u8], length: usize) -> &[u8] {
    buffer.get(..length).unwrap_or_default()
}
