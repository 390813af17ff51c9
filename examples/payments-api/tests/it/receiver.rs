//! The other end of the webhooks.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    extract::{Path, State},
    routing::post,
};
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde_json::Value;

use crate::service::{Service, charge};

pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// The status of a try that is never answered.
pub(crate) const SILENCE: u16 = 999;

/// An endpoint that answers as it is told, with 204 in the end, and keeps what it got.
#[derive(Clone)]
pub(crate) struct Receiver {
    addr: SocketAddr,
    slowness: Duration,
    desk: Arc<Mutex<Desk>>,
}

#[derive(Default)]
struct Desk {
    /// What is answered next is the last one.
    script: Vec<u16>,
    got: Vec<Webhook>,
    at_once: HashMap<String, u32>,
    /// How many requests with the same id were there at once.
    most_at_once: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Webhook {
    /// Which service sent it.
    pub(crate) sender: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Webhook {
    pub(crate) fn id(&self) -> &str {
        self.headers["webhook-id"].to_str().unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

impl Receiver {
    pub(crate) async fn answering(statuses: impl IntoIterator<Item = u16>) -> Self {
        Self::slow(Duration::ZERO, statuses).await
    }

    /// Each answer takes a while.
    pub(crate) async fn slow(slowness: Duration, statuses: impl IntoIterator<Item = u16>) -> Self {
        let mut script: Vec<_> = statuses.into_iter().collect();
        script.reverse();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let desk = Arc::new(Mutex::new(Desk { script, ..Desk::default() }));
        let receiver = Self { addr, slowness, desk };
        let app = Router::new().route("/hooks/{sender}", post(Self::take));
        let app = app.with_state(receiver.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        receiver
    }

    async fn take(
        State(receiver): State<Self>,
        Path(sender): Path<String>,
        headers: HeaderMap,
        body: Bytes,
    ) -> StatusCode {
        let webhook = Webhook { sender, headers, body };
        let id = webhook.id().to_owned();
        let status = {
            let mut desk = receiver.desk.lock().unwrap();
            let at_once = desk.at_once.entry(id.clone()).or_default();
            *at_once += 1;
            desk.most_at_once = desk.most_at_once.max(desk.at_once[&id]);
            desk.got.push(webhook);
            desk.script.pop().unwrap_or(204)
        };
        tokio::time::sleep(receiver.slowness).await;
        if status == SILENCE {
            std::future::pending::<()>().await;
        }
        *receiver.desk.lock().unwrap().at_once.get_mut(&id).unwrap() -= 1;
        StatusCode::from_u16(status).unwrap()
    }

    pub(crate) fn got(&self) -> Vec<Webhook> {
        self.desk.lock().unwrap().got.clone()
    }

    pub(crate) fn most_at_once(&self) -> u32 {
        self.desk.lock().unwrap().most_at_once
    }

    pub(crate) fn ids(&self) -> Vec<String> {
        self.got().iter().map(|webhook| webhook.id().to_owned()).collect()
    }

    /// The charges that it was told of, one for each delivery, in order.
    pub(crate) fn charges(&self) -> Vec<String> {
        let ids = self.got().into_iter().map(|webhook| webhook.json()["data"]["id"].clone());
        let mut ids: Vec<_> = ids.map(|id| id.as_str().unwrap().to_owned()).collect();
        ids.sort();
        ids
    }

    pub(crate) async fn service(&self, options: &[&str]) -> Service {
        self.service_named("one", options).await
    }

    pub(crate) async fn service_named(&self, name: &str, options: &[&str]) -> Service {
        let url = format!("http://{}/hooks/{name}", self.addr);
        let ours = ["--webhook-url", &url, "--webhook-secret", SECRET, "--webhook-backoff", "20ms"];
        Service::start(&[&ours, options].concat()).await
    }
}

/// What a service says of its events.
pub(crate) async fn states(service: &Service) -> Vec<Value> {
    let page = service.send(charge("").get("/webhooks")).await.json();
    page["events"].as_array().unwrap().clone()
}
