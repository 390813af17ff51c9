use anyhow::ensure;
use axum::{
    body::Body,
    http::{Request, StatusCode, header},
};
use http_body_util::BodyExt;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::Address;

/// Which keys a client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    New,
    /// One a client: all answers but the first are replays.
    Same,
    None,
}

/// One keep-alive connection.
#[derive(Debug)]
pub(super) struct Client {
    connection: SendRequest<Body>,
    path: &'static str,
    keys: Keys,
    number: u32,
    /// No two runs use the same keys, also where the store is the same.
    series: u32,
    sent: u32,
}

const BODY: &str = r#"{"amount":500,"currency":"eur","source":"tok_visa","customer":"cus_1"}"#;

impl Client {
    pub(super) async fn connect(
        address: Address,
        path: &'static str,
        keys: Keys,
        (series, number): (u32, u32),
    ) -> anyhow::Result<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        let (connection, driven) = handshake(TokioIo::new(socket)).await?;
        // a connection that breaks fails the request on it
        tokio::spawn(driven);
        Ok(Self { connection, path, keys, number, series, sent: 0 })
    }

    /// One request after the other, each of which must succeed.
    pub(super) async fn send(&mut self, count: u32) -> anyhow::Result<()> {
        for _ in 0..count {
            let request = self.request()?;
            self.connection.ready().await?;
            let answer = self.connection.send_request(request).await?;
            ensure!(answer.status() == StatusCode::CREATED, "not a success: {}", answer.status());
            answer.into_body().collect().await?;
            self.sent += 1;
        }
        Ok(())
    }

    fn request(&self) -> anyhow::Result<Request<Body>> {
        let request = Request::post(self.path)
            .header(header::HOST, "localhost")
            .header(header::AUTHORIZATION, "Bearer shop_1")
            .header(header::CONTENT_TYPE, "application/json");
        let number = match self.keys {
            Keys::New => Some(self.sent),
            Keys::Same => Some(0),
            Keys::None => None,
        };
        let request = match number {
            Some(number) => {
                let (series, client) = (self.series, self.number);
                let key = format!("{series:08x}-{client:04x}-4000-8000-{number:012x}");
                request.header("idempotency-key", key)
            }
            None => request,
        };
        Ok(request.body(Body::from(BODY))?)
    }
}
