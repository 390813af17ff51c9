//! A proxy that knows enough of the protocol to be slow, or to cut a connection around a COMMIT.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
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
pub(crate) enum Cut {
    Nothing,
    /// The connection ends before it reaches the server.
    BeforeCommit,
    /// The connection ends with the server's reply to it.
    AfterCommit,
}

pub(crate) struct Proxy {
    address: SocketAddr,
    cut: Arc<AtomicU8>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// In front of `server`; every piece is late by `delay`.
    pub(crate) async fn start(server: SocketAddr, delay: Duration) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let cut = Arc::new(AtomicU8::new(Cut::Nothing as u8));
        let shared = Arc::clone(&cut);
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(serve(client, server, delay, Arc::clone(&shared)));
            }
        });
        Self { address, cut, accepting }
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@{}/postgres", self.address)
    }

    pub(crate) fn cut(&self, cut: Cut) {
        self.cut.store(cut as u8, Ordering::SeqCst);
    }

    pub(crate) fn has_cut(&self) -> bool {
        self.cut.load(Ordering::SeqCst) == Cut::Nothing as u8
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// The message that the driver commits with.
const COMMIT: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";

async fn serve(client: TcpStream, server: SocketAddr, delay: Duration, cut: Arc<AtomicU8>) {
    let Ok(server) = TcpStream::connect(server).await else { return };
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let (mut request, mut reply) = (vec![0; 65_536], vec![0; 65_536]);
    let mut lose_reply = false;
    loop {
        tokio::select! {
            read = from_client.read(&mut request) => {
                let Ok(length @ 1..) = read else { return };
                let sent = &request[..length];
                if sent.windows(COMMIT.len()).any(|part| part == COMMIT) {
                    let now = cut.swap(Cut::Nothing as u8, Ordering::SeqCst);
                    if now == Cut::BeforeCommit as u8 {
                        return;
                    }
                    lose_reply |= now == Cut::AfterCommit as u8;
                }
                time::sleep(delay).await;
                if to_server.write_all(sent).await.is_err() {
                    return;
                }
            }
            read = from_server.read(&mut reply) => {
                let Ok(length @ 1..) = read else { return };
                if lose_reply {
                    return;
                }
                time::sleep(delay).await;
                if to_client.write_all(&reply[..length]).await.is_err() {
                    return;
                }
            }
        }
    }
}
