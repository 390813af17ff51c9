use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto::ring, pki_types::PrivateKeyDer},
};

use crate::{Authority, ServerError};

/// Speaks TLS on loopback in front of a server that does not. It ends when it is dropped.
#[derive(Debug)]
pub struct TlsProxy {
    address: SocketAddr,
    serving: JoinHandle<()>,
}

impl TlsProxy {
    /// A proxy before `server`, under a certificate of `authority`.
    ///
    /// # Errors
    /// There is no port to listen on, or no certificate can be made.
    pub async fn start(authority: &Authority, server: SocketAddr) -> Result<Self, ServerError> {
        let acceptor = acceptor(authority)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.map_err(ServerError::io("a port for TLS"))?;
        let address = listener.local_addr().map_err(ServerError::io("a port for TLS"))?;
        let serving = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                // who does not believe the certificate hangs up: that is the client's to tell
                tokio::spawn(async move { pass(&acceptor, client, server).await });
            }
        });
        Ok(Self { address, serving })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for TlsProxy {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn pass(acceptor: &TlsAcceptor, client: TcpStream, server: SocketAddr) -> io::Result<()> {
    let mut client = acceptor.accept(client).await?;
    let mut server = TcpStream::connect(server).await?;
    copy_bidirectional(&mut client, &mut server).await.map(drop)
}

fn acceptor(authority: &Authority) -> Result<TlsAcceptor, ServerError> {
    let (certificate, key) = authority.certify()?;
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|config| {
            config.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key)
        });
    let config = config.map_err(|error| ServerError::io("TLS")(io::Error::other(error)))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
