//! gRPC-Web, the gRPC of browsers, with tonic-web inside the layer and outside of it.

use std::convert::Infallible;

use axum::Router;
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, header};
use http_body::Frame;
use http_body_util::StreamBody;
use idempotency_tower::HttpBody;
use tonic::{Code, Status, body::Body};
use tonic_web::GrpcWebLayer;
use tower::{Service, ServiceBuilder, service_fn};

use crate::{
    demo::{Runs, layer},
    grpc::Plain,
    support::{Call, Reply, Server, post},
};

const BINARY: &str = "application/grpc-web+proto";
const TEXT: &str = "application/grpc-web-text+proto";

/// Answers with the code that it was sent, or with what it was sent.
fn pay(
    runs: Runs,
) -> impl Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send + 'static>
+ Clone
+ Send
+ Sync
+ 'static {
    service_fn(move |request: Request<Body>| {
        let (runs, late) = (runs.clone(), runs.clone());
        let pay = service_fn(move |request: tonic::Request<Vec<u8>>| {
            runs.count();
            let said = request.into_inner();
            let code = str::from_utf8(&said).unwrap().strip_prefix("code ");
            let answer = match code.map(|code| code.parse::<i32>().unwrap()) {
                Some(code) => Err(Status::new(Code::from(code), "x")),
                None => Ok(tonic::Response::new(said)),
            };
            async { answer }
        });
        async move {
            match request.headers().get("x-late") {
                Some(code) => {
                    late.count();
                    Ok(failing_late(code))
                }
                None => Ok(tonic::server::Grpc::new(Plain).unary(pay, request).await),
            }
        }
    })
}

/// A message, and behind it the code of a failure: tonic's own failures stand in the head.
fn failing_late(code: &HeaderValue) -> Response<Body> {
    let trailers = HeaderMap::from_iter([(HeaderName::from_static("grpc-status"), code.clone())]);
    let frames = [Frame::data(Bytes::from_static(b"\0\0\0\0\x02ab")), Frame::trailers(trailers)];
    let body = StreamBody::new(stream::iter(frames.map(Ok::<_, Infallible>)));
    let kind = HeaderValue::from_static("application/grpc");
    let mut response = Response::new(Body::new(body));
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// The translation inside: the layer sees gRPC-Web.
fn translated_inside(runs: &Runs) -> Router {
    let service =
        ServiceBuilder::new().layer(layer()).layer(GrpcWebLayer::new()).service(pay(runs.clone()));
    Router::new().fallback_service(service)
}

/// The translation outside: the layer sees gRPC.
fn translated_outside(runs: &Runs) -> Router {
    let service = ServiceBuilder::new()
        .layer(GrpcWebLayer::new())
        .map_response(|response: Response<HttpBody<Body>>| response.map(Body::new))
        .layer(layer())
        .map_request(|request: Request<HttpBody<Body>>| request.map(Body::new))
        .service(pay(runs.clone()));
    Router::new().fallback_service(service)
}

fn request(kind: &str, key: &str, message: &str) -> Call {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let mut body = [&[0][..], &length, message.as_bytes()].concat();
    if kind == TEXT {
        body = BASE64_STANDARD.encode(body).into();
    }
    let call = post("/payments.Payments/Pay").key(key).body(body);
    call.header("content-type", kind).header("accept", kind)
}

async fn call(server: &Server, kind: &str, key: &str, message: &str) -> Reply {
    server.send(request(kind, key, message)).await
}

/// The code: in the head, or in the last piece of the body.
fn code(kind: &str, reply: &Reply) -> Code {
    assert_eq!(reply.status, 200, "{reply:?}");
    if let [code] = reply.lines("grpc-status").as_slice() {
        return Code::from_bytes(code);
    }
    let body = match kind {
        TEXT => decoded(&reply.body),
        _ => reply.body.clone(),
    };
    let at = body.windows(12).position(|some| some == b"grpc-status:").expect("a status");
    let rest = str::from_utf8(&body[at + 12..]).unwrap();
    Code::from_bytes(rest.lines().next().unwrap().trim().as_bytes())
}

fn decoded(text: &[u8]) -> Bytes {
    text.chunks(4).flat_map(|group| BASE64_STANDARD.decode(group).unwrap()).collect()
}

/// Kind of fault: a call that failed for now is replayed as failed for a day, since its HTTP status is 200
/// (H-19). Its gRPC status decides, wherever it stands.
#[tokio::test]
async fn the_status_says_whether_an_answer_is_final() {
    let runs = Runs::default();
    for app in [translated_inside, translated_outside] {
        let server = Server::start(app(&runs)).await;
        for kind in [BINARY, TEXT] {
            for (wanted, ran) in [
                (Code::InvalidArgument, 1),
                (Code::NotFound, 1),
                (Code::Unavailable, 2),
                (Code::Internal, 2),
            ] {
                runs.reset();
                let message = format!("code {}", wanted as i32);
                for _ in 0..2 {
                    let reply = call(&server, kind, &format!("{kind} {message}"), &message).await;
                    assert_eq!(code(kind, &reply), wanted, "{kind}");
                }
                assert_eq!(runs.get(), ran, "{kind} {wanted:?}");
                runs.reset();
                let late = request(kind, &format!("{kind} late {message}"), &message);
                let late = late.header("x-late", (wanted as i32).to_string());
                for _ in 0..2 {
                    let reply = server.send(late.clone()).await;
                    assert!(reply.lines("grpc-status").is_empty(), "it is in the body");
                    assert_eq!(code(kind, &reply), wanted, "{kind}");
                }
                assert_eq!(runs.get(), ran, "{kind} {wanted:?}, late");
            }
        }
    }
}

#[tokio::test]
async fn a_call_runs_once_and_its_bytes_are_replayed() {
    let runs = Runs::default();
    for app in [translated_inside, translated_outside] {
        let server = Server::start(app(&runs)).await;
        for kind in [BINARY, TEXT] {
            runs.reset();
            let first = call(&server, kind, kind, "pay 5").await;
            let second = call(&server, kind, kind, "pay 5").await;
            assert_eq!((code(kind, &first), first.is_replay()), (Code::Ok, false));
            assert!(second.is_replay() && second.body == first.body, "{second:?}");
            assert_eq!(second.lines("content-type"), first.lines("content-type"));
            assert_eq!(runs.get(), 1);
        }
    }
}

/// Refusals are what a client of gRPC-Web understands.
#[tokio::test]
async fn refusals_have_the_codes_of_grpc() {
    let runs = Runs::default();
    for app in [translated_inside, translated_outside] {
        let server = Server::start(app(&runs)).await;
        for kind in [BINARY, TEXT] {
            call(&server, kind, kind, "pay 5").await;
            let reused = call(&server, kind, kind, "pay 6").await;
            assert_eq!(code(kind, &reused), Code::FailedPrecondition);
            let told = String::from_utf8(reused.lines("content-type")[0].to_vec()).unwrap();
            let essence = kind.strip_suffix("+proto").unwrap();
            assert!(told == essence || told == kind, "{told}");
            assert_eq!(code(kind, &call(&server, kind, "", "pay 5").await), Code::InvalidArgument);
        }
    }
}
