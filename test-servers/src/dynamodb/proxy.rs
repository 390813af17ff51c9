use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use axum::{
    body::Body,
    extract::{Request, State},
    http::{
        HeaderValue, Response, StatusCode,
        header::{CONTENT_LENGTH, CONTENT_TYPE, DATE, HOST},
    },
};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use idempotency_core::{Clock, SystemClock};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// An HTTP proxy on loopback before a `DynamoDB` endpoint. It counts requests, asks for what they
/// consume, and misbehaves when told to. It ends when it is dropped.
#[derive(Debug)]
pub struct DynamoDbProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

/// What a [`DynamoDbProxy`] does.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Fault {
    /// It passes everything on.
    #[default]
    None,
    /// It passes requests on and keeps the next successful reply to this operation to itself; then it
    /// passes everything on again.
    Swallow(&'static str),
    /// It answers itself, as the service does when it refuses: a status and a code.
    Refuse(u16, &'static str),
    /// The same with a message: the service tells some refusals apart by nothing else.
    RefuseSaying(u16, &'static str, &'static str),
    /// It passes everything on, but answers the next so many requests itself with this.
    RefuseNext(u32, u16, &'static str),
    /// It takes requests and never answers.
    Hang,
    /// It passes everything on and says another time: so many seconds later, or earlier.
    Date(i64),
    /// It passes everything on, but leaves the item out of the replies to conditions that do not hold, as
    /// services do that do not know it.
    WithoutItem,
}

/// A request that came by.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// `PutItem`, `UpdateItem`, …
    pub operation: String,
    /// What the reply says that it consumed, in units; none when it did not say.
    pub units: Option<f64>,
}

#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    client: Client<HttpConnector, Body>,
    clock: SystemClock,
    fault: Mutex<Fault>,
    seen: Mutex<Vec<Seen>>,
}

impl DynamoDbProxy {
    /// A proxy before the endpoint at `server`.
    ///
    /// # Errors
    /// No port to listen on.
    pub async fn start(server: SocketAddr) -> io::Result<Self> {
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            server,
            client: Client::builder(TokioExecutor::new()).build_http(),
            clock: SystemClock::new(),
            fault: Mutex::default(),
            seen: Mutex::default(),
        });
        let router = axum::Router::new().fallback(pass).with_state(Arc::clone(&shared));
        let serving = tokio::spawn(async move {
            // ends with the task; its clients see a closed connection
            let _ended = axum::serve(listener, router).await;
        });
        Ok(Self { address, shared, serving })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on it does this.
    pub fn set(&self, fault: Fault) {
        *self.shared.fault() = fault;
    }

    /// Whether it has no fault, or its fault has happened.
    pub fn is_well(&self) -> bool {
        *self.shared.fault() == Fault::None
    }

    /// The requests since the last call.
    pub fn take_seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.shared.seen())
    }
}

impl Drop for DynamoDbProxy {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Shared {
    fn fault(&self) -> MutexGuard<'_, Fault> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen(&self) -> MutexGuard<'_, Vec<Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What to answer instead of the service, if anything.
    fn refusal(&self) -> Option<(u16, &'static str, &'static str)> {
        let mut fault = self.fault();
        match &mut *fault {
            Fault::Refuse(status, code) => Some((*status, code, "")),
            Fault::RefuseSaying(status, code, message) => Some((*status, code, message)),
            Fault::RefuseNext(left, status, code) => {
                let refusal = (*status, *code, "");
                *left -= 1;
                if *left == 0 {
                    *fault = Fault::None;
                }
                Some(refusal)
            }
            _ => None,
        }
    }
}

async fn pass(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    let operation = operation(&request);
    if *shared.fault() == Fault::Hang {
        shared.seen().push(Seen { operation, units: None });
        return std::future::pending().await;
    }
    if let Some((status, code, message)) = shared.refusal() {
        shared.seen().push(Seen { operation, units: None });
        return refuse(status, code, message);
    }
    let Some((mut reply, units)) = forward(&shared, request, &operation).await else {
        return refuse(502, "BadGateway", "");
    };
    shared.seen().push(Seen { operation: operation.clone(), units });
    let fault = shared.fault().clone();
    match fault {
        Fault::Swallow(wanted) if wanted == operation && reply.status().is_success() => {
            shared.set_none();
            std::future::pending().await
        }
        Fault::Date(seconds) => {
            let since_epoch = shared.clock.now().as_unix_millis() / 1_000;
            let shifted = since_epoch.saturating_add_signed(seconds);
            let date = SystemTime::UNIX_EPOCH + Duration::from_secs(shifted);
            if let Ok(date) = HeaderValue::from_str(&httpdate::fmt_http_date(date)) {
                reply.headers_mut().insert(DATE, date);
            }
            reply
        }
        _ => reply,
    }
}

impl Shared {
    fn set_none(&self) {
        *self.fault() = Fault::None;
    }
}

fn operation(request: &Request) -> String {
    let target = request.headers().get("x-amz-target").and_then(|target| target.to_str().ok());
    target.and_then(|target| target.rsplit('.').next()).unwrap_or_default().to_owned()
}

fn refuse(status: u16, code: &str, message: &str) -> Response<Body> {
    let body = json!({
        "__type": format!("com.amazonaws.dynamodb.v20120810#{code}"),
        "message": message,
    });
    let body = body.to_string();
    let mut reply = Response::new(Body::from(body));
    *reply.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    reply
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/x-amz-json-1.0"));
    reply
}

/// Operations that tell what they consume when asked.
const METERED: [&str; 7] =
    ["PutItem", "UpdateItem", "DeleteItem", "GetItem", "Query", "Scan", "TransactWriteItems"];

async fn forward(
    shared: &Shared,
    request: Request,
    operation: &str,
) -> Option<(Response<Body>, Option<f64>)> {
    let (mut head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 16 << 20).await.ok()?;
    let body = metered(&body, operation).map_or(Body::from(body), Body::from);
    head.uri = format!("http://{}/", shared.server).parse().ok()?;
    head.headers.remove(CONTENT_LENGTH);
    head.headers.remove(HOST);
    let reply = shared.client.request(Request::from_parts(head, body)).await.ok()?;
    let (mut head, body) = reply.into_parts();
    let mut body = axum::body::to_bytes(Body::new(body), 16 << 20).await.ok()?;
    let mut reply = serde_json::from_slice::<Value>(&body).ok();
    let units = reply.as_ref().and_then(units);
    if let (StatusCode::BAD_REQUEST, Some(Value::Object(members))) = (head.status, &mut reply)
        && *shared.fault() == Fault::WithoutItem
        && members.remove("Item").is_some()
    {
        body = serde_json::to_vec(members).ok()?.into();
        // both were those of the whole reply
        head.headers.remove(CONTENT_LENGTH);
        head.headers.remove("x-amz-crc32");
    }
    Some((Response::from_parts(head, Body::from(body)), units))
}

/// The same request, which also asks for what it consumes. The emulator does not look at signatures.
fn metered(body: &[u8], operation: &str) -> Option<Vec<u8>> {
    let mut request: Value =
        serde_json::from_slice(body).ok().filter(|_| METERED.contains(&operation))?;
    request.as_object_mut()?.insert("ReturnConsumedCapacity".to_owned(), "TOTAL".into());
    serde_json::to_vec(&request).ok()
}

fn units(reply: &Value) -> Option<f64> {
    let consumed = reply.get("ConsumedCapacity")?;
    match consumed.as_array() {
        Some(tables) => tables.iter().map(|table| table.get("CapacityUnits")?.as_f64()).sum(),
        None => consumed.get("CapacityUnits")?.as_f64(),
    }
}
