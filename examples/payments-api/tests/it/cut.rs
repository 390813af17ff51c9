//! A way to the service that can be cut when the client waits for its answer.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// The way.
pub(crate) struct Cut {
    pub(crate) address: SocketAddr,
    /// Nothing is to be cut, or it was: none.
    at: Arc<Mutex<Option<At>>>,
}

#[derive(Clone)]
struct At {
    /// What the request contains.
    text: String,
    again: bool,
}

impl Cut {
    pub(crate) async fn before(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let cut = Self { address: listener.local_addr().unwrap(), at: Arc::default() };
        let at = Arc::clone(&cut.at);
        tokio::spawn(async move {
            while let Ok((from, _)) = listener.accept().await {
                let to = TcpStream::connect(target).await.unwrap();
                tokio::spawn(carry(from, to, Arc::clone(&at)));
            }
        });
        cut
    }

    /// The connection is cut once, when the service has answered a request that contains `text`.
    pub(crate) fn at_the_next(&self, text: &str) {
        *self.at.lock().unwrap() = Some(At { text: text.to_owned(), again: false });
    }

    /// The same at each of them, until [`mend`](Self::mend).
    pub(crate) fn at_every(&self, text: &str) {
        *self.at.lock().unwrap() = Some(At { text: text.to_owned(), again: true });
    }

    pub(crate) fn mend(&self) {
        *self.at.lock().unwrap() = None;
    }

    pub(crate) fn is_done(&self) -> bool {
        self.at.lock().unwrap().is_none()
    }
}

/// Whether the request with this text is to be cut.
fn is_met(at: &Mutex<Option<At>>, text: &str) -> bool {
    let mut at = at.lock().unwrap();
    let is_met = at.as_ref().is_some_and(|at| text.contains(&at.text));
    at.take_if(|at| is_met && !at.again);
    is_met
}

async fn carry(
    mut from: TcpStream,
    mut to: TcpStream,
    at: Arc<Mutex<Option<At>>>,
) -> std::io::Result<()> {
    let (mut request, mut answer) = ([0; 8192], [0; 8192]);
    let mut is_cut = false;
    loop {
        tokio::select! {
            read = from.read(&mut request) => {
                let part = &request[..read?];
                if part.is_empty() {
                    return Ok(());
                }
                let text = String::from_utf8_lossy(part);
                is_cut |= is_met(&at, &text);
                to.write_all(part).await?;
            }
            read = to.read(&mut answer) => {
                let part = &answer[..read?];
                if part.is_empty() || is_cut {
                    return Ok(());
                }
                from.write_all(part).await?;
            }
        }
    }
}
