use std::{
    net::{Ipv4Addr, SocketAddr},
    thread::JoinHandle,
};

use dynoxide::Database;
use tokio::sync::oneshot;

use crate::ServerError;

/// An emulator with no tables. Ends when it is dropped.
#[derive(Debug)]
pub struct DynamoDbEmulator {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl DynamoDbEmulator {
    /// Starts one on a free port of loopback.
    ///
    /// # Errors
    /// The machine refuses a port or a thread, or the emulator does not start.
    pub fn start() -> Result<Self, ServerError> {
        Self::start_on(0)
    }

    /// Starts one on this port of loopback; 0 takes a free one.
    ///
    /// # Errors
    /// The port is taken, the machine refuses a thread, or the emulator does not start.
    pub fn start_on(port: u16) -> Result<Self, ServerError> {
        let io = ServerError::io;
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        let listener = listener.map_err(io("a port for the DynamoDB emulator"))?;
        listener.set_nonblocking(true).map_err(io("a port for the DynamoDB emulator"))?;
        let address = listener.local_addr().map_err(io("the emulator's port"))?;
        let database = Database::memory().map_err(|error| ServerError::Answer {
            what: "the DynamoDB emulator".to_owned(),
            answer: error.to_string(),
        })?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(io("a runtime for the DynamoDB emulator"))?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener).map_err(io("the emulator's port"))?
        };
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("dynamodb-emulator".to_owned())
            .spawn(move || {
                // the listener is bound: whoever connects now waits for an answer, not for a port
                runtime.block_on(async {
                    tokio::select! {
                        () = dynoxide::server::serve_on(listener, database) => {}
                        _ = stopped => {}
                    }
                });
                runtime.shutdown_background();
            })
            .map_err(io("a thread for the DynamoDB emulator"))?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same as a URL.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The store URL of a table in it.
    pub fn url(&self, table: &str) -> String {
        format!("dynamodb://{table}?endpoint={}", self.endpoint())
    }
}

impl Drop for DynamoDbEmulator {
    fn drop(&mut self) {
        // an error means that the thread has ended already
        let _ended = self.stop.take().map(|stop| stop.send(()));
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}
