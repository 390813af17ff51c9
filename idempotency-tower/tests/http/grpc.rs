//! gRPC with tonic, over HTTP/2.

use std::time::Duration;

use axum::{Router, body::Body};
use bytes::{Buf, BufMut};
use http::{Request, Uri};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use idempotency_core::{Attempt, ErrorKind, Idempotency};
use idempotency_tower::IdempotencyLayer;
use tokio::net::TcpStream;
use tonic::{
    Code, Response, Status,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    metadata::MetadataValue,
};
use tower::service_fn;

use crate::{
    demo::{Gate, Runs, account},
    faulty_store::{FaultyStore, Mood},
    support::{Server, eventually, within},
};

/// Messages as they are: what a generated codec does is not the matter here.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Plain;

impl Codec for Plain {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Plain {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, message: Vec<u8>, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put_slice(&message);
        Ok(())
    }
}

impl Decoder for Plain {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining()).to_vec()))
    }
}

/// A unary call: answers with what it was sent and its attempt, or with the code that it was sent.
fn app(runs: &Runs, gate: &Gate, layer: IdempotencyLayer) -> Router {
    let (runs, gate) = (runs.clone(), gate.clone());
    let pay = move |request: tonic::Request<Vec<u8>>| {
        let (runs, gate) = (runs.clone(), gate.clone());
        async move {
            runs.count();
            let attempt = request.extensions().get::<Attempt>().map(|a| a.number().get());
            let said = String::from_utf8(request.into_inner()).unwrap();
            match said.strip_prefix("code ") {
                Some("slow") => gate.pass().await,
                Some(code) => {
                    return Err(Status::new(Code::from(code.parse::<i32>().unwrap()), "x"));
                }
                None => {}
            }
            Ok(Response::new(format!("{said}, attempt {attempt:?}").into_bytes()))
        }
    };
    let service = service_fn(move |request: Request<Body>| {
        let pay = service_fn(pay.clone());
        async move { Ok(tonic::server::Grpc::new(Plain).unary(pay, request).await) }
    });
    Router::new().fallback_service(service).layer(layer)
}

/// The answer of a call, and whether it was replayed.
async fn call(server: &Server, key: &str, message: &str) -> Result<(String, bool), Status> {
    let socket = TokioIo::new(TcpStream::connect(server.addr).await.unwrap());
    let (sender, driver) = http2::handshake(TokioExecutor::new(), socket).await.unwrap();
    tokio::spawn(driver);
    let transport = service_fn(move |request: Request<tonic::body::Body>| {
        let mut sender = sender.clone();
        async move { sender.send_request(request).await }
    });
    let origin = Uri::try_from(format!("http://{}", server.addr)).unwrap();
    let mut client = tonic::client::Grpc::with_origin(transport, origin);
    let mut request = tonic::Request::new(message.as_bytes().to_vec());
    let metadata = request.metadata_mut();
    metadata.insert("authorization", MetadataValue::from_static("Bearer acme"));
    metadata.insert("idempotency-key", key.parse().unwrap());
    client.ready().await.unwrap();
    let path = "/payments.Payments/Pay".parse().unwrap();
    let response = within(client.unary(request, path, Plain)).await?;
    let replayed = response.metadata().contains_key("idempotent-replayed");
    Ok((String::from_utf8(response.into_inner()).unwrap(), replayed))
}

fn layer(store: &FaultyStore) -> IdempotencyLayer {
    let quick = Idempotency::builder(store.clone())
        .store_timeout(Duration::from_secs(1))
        .store_deadline(Duration::from_secs(1));
    IdempotencyLayer::new(quick.build().unwrap(), account).required()
}

#[tokio::test]
async fn a_unary_call_runs_once() {
    let (runs, gate, store) = (Runs::default(), Gate::closed(), FaultyStore::new(Mood::Well));
    let server = Server::start(app(&runs, &gate, layer(&store))).await;
    for is_replay in [false, true, true] {
        let answer = call(&server, "k", "pay 5").await.unwrap();
        assert_eq!(answer, ("pay 5, attempt Some(1)".into(), is_replay));
    }
    assert_eq!((runs.get(), store.calls()), (1, 4));
}

/// Kind of fault: a call that failed for now is replayed as failed for a day, since its HTTP status is 200
/// (H-19). Its gRPC status decides.
#[tokio::test]
async fn the_status_in_the_trailers_says_whether_an_answer_is_final() {
    let (runs, gate, store) = (Runs::default(), Gate::closed(), FaultyStore::new(Mood::Well));
    let server = Server::start(app(&runs, &gate, layer(&store))).await;
    let finals = [Code::InvalidArgument, Code::NotFound, Code::FailedPrecondition];
    let passing = [Code::Unavailable, Code::Aborted, Code::ResourceExhausted, Code::Internal];
    for (codes, ran) in [(&finals[..], 1), (&passing[..], 2)] {
        for code in codes {
            runs.reset();
            let message = format!("code {}", *code as i32);
            for _ in 0..2 {
                let status = call(&server, &message, &message).await.unwrap_err();
                assert_eq!((status.code(), status.message()), (*code, "x"));
            }
            assert_eq!(runs.get(), ran, "{code:?}");
        }
    }
}

/// Refusals are what a gRPC client understands.
#[tokio::test]
async fn refusals_have_the_codes_of_grpc() {
    let (runs, gate, store) = (Runs::default(), Gate::closed(), FaultyStore::new(Mood::Well));
    let server = Server::start(app(&runs, &gate, layer(&store))).await;
    let refused = async |key: &str, message: &str| {
        let status = call(&server, key, message).await.unwrap_err();
        let pushback = status.metadata().get("grpc-retry-pushback-ms").cloned();
        (status.code(), status.message().to_owned(), pushback.is_some())
    };
    let (code, message, _) = refused("", "pay 5").await;
    assert_eq!(code, Code::InvalidArgument);
    assert_eq!(message, "`idempotency-key` is empty or blank.");
    call(&server, "k", "pay 5").await.unwrap();
    assert_eq!(refused("k", "pay 6").await.0, Code::FailedPrecondition);
    let duplicate = async {
        eventually("the first runs", async || runs.get() == 2).await;
        let told = refused("slow", "code slow").await;
        gate.open();
        told
    };
    let (first, duplicate) = tokio::join!(call(&server, "slow", "code slow"), duplicate);
    assert!(first.is_ok());
    assert_eq!((duplicate.0, duplicate.2), (Code::Aborted, true));
    store.becomes(Mood::Fails(ErrorKind::Unavailable));
    let (code, _, pushback) = refused("k", "pay 5").await;
    assert_eq!((code, pushback), (Code::Unavailable, true));
    assert_eq!(runs.get(), 2);
}
