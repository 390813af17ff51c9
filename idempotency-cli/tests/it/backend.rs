//! The stores that every verb is tried on, each on a real server.

use std::sync::OnceLock;

use idempotency_conformance::unique_namespace;
use test_servers::{dynamodb::DynamoDbEmulator, postgres::PostgresServer, redis::RedisServer};

/// A store with records of its own.
pub(crate) struct Backend {
    /// As its profile says.
    pub(crate) name: &'static str,
    pub(crate) url: String,
    /// The worst that its doctor finds at a server that is made for tests.
    pub(crate) finding: (&'static str, &'static str),
}

impl Backend {
    pub(crate) const TABLE: &str = "intents";
    pub(crate) const OTHER_TABLE: &str = "not_yet_there";

    /// The same server, where nothing is set up yet.
    pub(crate) fn not_set_up(&self) -> String {
        self.url.replace(Self::TABLE, Self::OTHER_TABLE).replace("&create=on", "")
    }
}

/// The machine may be busy with other things.
pub(crate) const PATIENT: &str = "timeout_ms=20000";

pub(crate) fn redis() -> Backend {
    static SERVER: OnceLock<RedisServer> = OnceLock::new();
    let url = SERVER.get_or_init(|| RedisServer::start().unwrap()).url();
    Backend {
        name: "redis",
        url: format!("{url}/?{PATIENT}&namespace={}", unique_namespace().name()),
        finding: ("HAZARD", "persistence is off"),
    }
}

pub(crate) fn postgres() -> Backend {
    static SERVER: OnceLock<PostgresServer> = OnceLock::new();
    let url = SERVER.get_or_init(|| PostgresServer::start().unwrap()).url();
    let (table, namespace) = (Backend::TABLE, unique_namespace());
    Backend {
        name: "postgres",
        url: format!("{url}?table={table}&create=on&{PATIENT}&namespace={}", namespace.name()),
        finding: ("HAZARD", "fsync is off"),
    }
}

pub(crate) fn dynamodb() -> Backend {
    static EMULATOR: OnceLock<DynamoDbEmulator> = OnceLock::new();
    // a table of its own: a list reads all of it
    let namespace = unique_namespace();
    let table = format!("{}-{}", Backend::TABLE, namespace.name());
    let url = EMULATOR.get_or_init(|| DynamoDbEmulator::start().unwrap()).url(&table);
    Backend {
        name: "dynamodb",
        url: format!("{url}&create=on&{PATIENT}&namespace={}", namespace.name()),
        finding: ("warning", "the table is not protected from deletion"),
    }
}

/// Makes each of the functions a test on each backend.
macro_rules! on_every_backend {
    ($($case:ident),* $(,)?) => {
        on_backend!(redis: $($case),*);
        on_backend!(postgres: $($case),*);
        on_backend!(dynamodb: $($case),*);
    };
}

macro_rules! on_backend {
    ($backend:ident: $($case:ident),*) => {
        mod $backend {
            $(
                #[test]
                fn $case() {
                    super::$case(&crate::backend::$backend());
                }
            )*
        }
    };
}

pub(crate) use {on_backend, on_every_backend};
