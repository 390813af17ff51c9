use std::io::Write;

use anyhow::{Context, ensure};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::Address;

/// Which keys a client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    New,
    /// One a client: all answers but the first are replays.
    Same,
    None,
}

/// A connection that does as little as it can: the service is what is measured.
#[derive(Debug)]
pub(super) struct Client {
    socket: TcpStream,
    path: &'static str,
    keys: Keys,
    number: u32,
    sent: u32,
    request: Vec<u8>,
    answer: Vec<u8>,
}

const BODY: &str = r#"{"amount":500,"currency":"eur","source":"tok_visa","customer":"cus_1"}"#;

impl Client {
    pub(super) async fn connect(
        address: Address,
        path: &'static str,
        keys: Keys,
        number: u32,
    ) -> anyhow::Result<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        let (request, answer) = (Vec::with_capacity(1_024), Vec::with_capacity(4_096));
        Ok(Self { socket, path, keys, number, sent: 0, request, answer })
    }

    /// One request after the other.
    pub(super) async fn send(&mut self, count: u32) -> anyhow::Result<()> {
        for _ in 0..count {
            self.write()?;
            self.socket.write_all(&self.request).await?;
            self.read().await?;
            self.sent += 1;
        }
        Ok(())
    }

    fn write(&mut self) -> std::io::Result<()> {
        self.request.clear();
        write!(
            self.request,
            "POST {} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer shop_1\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n",
            self.path,
            BODY.len()
        )?;
        let number = match self.keys {
            Keys::New => Some(self.sent),
            Keys::Same => Some(0),
            Keys::None => None,
        };
        if let Some(number) = number {
            let client = self.number;
            write!(self.request, "idempotency-key: {client:08x}-0000-4000-8000-{number:012x}\r\n")?;
        }
        write!(self.request, "\r\n{BODY}")
    }

    /// One whole answer, which must be a success.
    async fn read(&mut self) -> anyhow::Result<()> {
        self.answer.clear();
        loop {
            let read = self.socket.read_buf(&mut self.answer).await?;
            ensure!(read > 0, "the service closed the connection");
            let text = String::from_utf8_lossy(&self.answer);
            let Some((head, body)) = text.split_once("\r\n\r\n") else {
                continue;
            };
            ensure!(head.starts_with("HTTP/1.1 201"), "not a success: {text}");
            let (_, length) = head.split_once("content-length: ").context("no content-length")?;
            let length = length.lines().next().unwrap_or_default().parse::<usize>()?;
            if body.len() >= length {
                return Ok(());
            }
        }
    }
}
