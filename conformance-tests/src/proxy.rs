use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

/// A TCP proxy on loopback that can be told to misbehave.
///
/// ```
/// # async fn example(server: std::net::SocketAddr) -> std::io::Result<()> {
/// use idempotency_conformance::{Fault, FaultProxy};
///
/// let proxy = FaultProxy::start(server).await?;
/// // … connect to `proxy.address()` and use it …
/// proxy.set(Fault::Hang);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    fault: watch::Sender<Fault>,
    accepting: JoinHandle<()>,
}

/// What a [`FaultProxy`] does to connections, old and new ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Fault {
    /// It passes everything on.
    #[default]
    None,
    /// It closes every connection.
    Refuse,
    /// It accepts connections and passes nothing on, in either direction.
    Hang,
    /// It closes a connection when a request comes, without passing it on.
    LoseRequests,
    /// It passes requests on, and closes the connection when the reply comes.
    LoseReplies,
    /// It passes everything on, in either direction, this much later.
    Delay(Duration),
    /// It swallows what comes next from a client, keeps the connection, and passes on all the rest: as
    /// [`Fault::None`] from then on.
    SwallowRequest,
    /// It swallows what comes next from the server, keeps the connection, and passes on all the rest: as
    /// [`Fault::None`] from then on. A protocol that answers in order is out of step then.
    SwallowReply,
}

impl FaultProxy {
    /// A proxy before `server`, on a free port of loopback. Ends when it is dropped.
    ///
    /// # Errors
    /// No port to listen on.
    pub async fn start(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let fault = watch::Sender::new(Fault::None);
        let accepting = tokio::spawn(accept(listener, server, fault.clone()));
        Ok(Self { address, fault, accepting })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it does now.
    pub fn fault(&self) -> Fault {
        *self.fault.borrow()
    }

    /// From now on it does this.
    pub fn set(&self, fault: Fault) {
        self.fault.send_replace(fault);
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, server: SocketAddr, fault: watch::Sender<Fault>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let fault = fault.clone();
        connections.spawn(async move {
            // either side that ends, ends the connection: that is all a proxy can tell its client
            let _ended: io::Result<()> = serve(client, server, fault).await;
        });
    }
}

async fn serve(client: TcpStream, server: SocketAddr, set: watch::Sender<Fault>) -> io::Result<()> {
    let mut fault = set.subscribe();
    if *fault.borrow() == Fault::Refuse {
        return Ok(());
    }
    let server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let (mut request, mut reply) = (vec![0; 16_384], vec![0; 16_384]);
    loop {
        let now = *fault.borrow_and_update();
        tokio::select! {
            // what was set before something came is done to it
            biased;
            changed = fault.changed() => {
                if changed.is_err() || *fault.borrow() == Fault::Refuse {
                    return Ok(());
                }
            }
            read = from_client.read(&mut request), if now != Fault::Hang => match (read?, now) {
                (0, _) | (_, Fault::LoseRequests | Fault::Refuse) => return Ok(()),
                (_, Fault::SwallowRequest) if swallows(&set, now) => {}
                (length, _) => {
                    delay(now).await;
                    to_server.write_all(part(&request, length)).await?;
                }
            },
            read = from_server.read(&mut reply), if now != Fault::Hang => match (read?, now) {
                (0, _) | (_, Fault::LoseReplies | Fault::Refuse) => return Ok(()),
                (_, Fault::SwallowReply) if swallows(&set, now) => {}
                (length, _) => {
                    delay(now).await;
                    to_client.write_all(part(&reply, length)).await?;
                }
            },
        }
    }
}

/// Whether this connection is the one that does it: it happens once.
fn swallows(set: &watch::Sender<Fault>, fault: Fault) -> bool {
    set.send_if_modified(|now| {
        let first = *now == fault;
        if first {
            *now = Fault::None;
        }
        first
    })
}

async fn delay(fault: Fault) {
    if let Fault::Delay(duration) = fault {
        tokio::time::sleep(duration).await;
    }
}

fn part(buffer: &[u8], length: usize) -> &[u8] {
    buffer.get(..length).unwrap_or(buffer)
}
