//! The whole suite and random programs, on the emulator or on the table that `DYNAMODB_URL` names.

use std::{net::SocketAddr, sync::OnceLock, time::Duration};

use idempotency_conformance::{
    Aged, Fixture, Harness, HarnessError, Hook, Programs, RawRecord, Written, unique_namespace,
};
use idempotency_core::{Connected, IdempotencyKey, Namespace, Sharing, StoreProfile, Survives};
use idempotency_dynamodb::{
    DynamoDbStore, DynamoDbStoreBuilder, aws_sdk_dynamodb::types::AttributeValue,
};
use test_servers::dynamodb::DynamoDbEmulator;
use url::Url;

use crate::support::{SKEW_BOUND, TABLE, count, emulator, is_full, item, make_older, put, runtime};

/// A table and where it is.
struct Target {
    table: String,
    region: Option<String>,
    endpoint: Option<String>,
    skew_bound: Duration,
}

/// The emulator; with `DYNAMODB_URL=dynamodb://TABLE?region=..&endpoint=..&skew_bound_ms=..` that table, which
/// is created where it is missing. Clocks of two machines are further apart than one machine's from itself: a
/// second, unless told otherwise.
fn target() -> &'static Target {
    static TARGET: OnceLock<Target> = OnceLock::new();
    TARGET.get_or_init(|| {
        let Ok(url) = std::env::var(URL) else {
            return Target {
                table: TABLE.to_owned(),
                region: None,
                endpoint: Some(emulator().endpoint()),
                skew_bound: SKEW_BOUND,
            };
        };
        let target = Target::read(&url);
        let store = target.builder(&Namespace::default()).create(true);
        let create = move || runtime().block_on(store.connect());
        std::thread::spawn(create).join().unwrap().unwrap();
        target
    })
}

const URL: &str = "DYNAMODB_URL";

impl Target {
    /// Refuses what it does not know: a suite that runs somewhere else proves nothing.
    fn read(url: &str) -> Self {
        let url = Url::parse(url).expect("DYNAMODB_URL is a URL");
        assert_eq!(url.scheme(), "dynamodb", "the scheme of DYNAMODB_URL");
        let mut target = Self {
            table: url.host_str().expect("DYNAMODB_URL names a table").to_owned(),
            region: None,
            endpoint: None,
            skew_bound: Duration::from_secs(1),
        };
        for (name, value) in url.query_pairs() {
            match &*name {
                "region" => target.region = Some(value.into_owned()),
                "endpoint" => target.endpoint = Some(value.into_owned()),
                "skew_bound_ms" => {
                    let millis = value.parse().expect("skew_bound_ms is a number");
                    target.skew_bound = Duration::from_millis(millis);
                }
                // the suite does so anyhow
                "create" => {}
                other => panic!(
                    "DYNAMODB_URL has `{other}`; this suite knows `region`, `endpoint`, `skew_bound_ms`"
                ),
            }
        }
        target
    }

    fn builder(&self, namespace: &Namespace) -> DynamoDbStoreBuilder {
        let mut builder = DynamoDbStore::builder(&self.table)
            .unwrap()
            .namespace(namespace.clone())
            .skew_bound(self.skew_bound)
            // many tests share the emulator
            .timeout(Duration::from_secs(10));
        if let Some(region) = &self.region {
            builder = builder.region(region);
        }
        if let Some(endpoint) = &self.endpoint {
            builder = builder.endpoint(endpoint);
        }
        builder
    }

    /// Where a proxy can stand before it: not where the certificate names the host.
    fn server(&self) -> Option<SocketAddr> {
        let endpoint = Url::parse(self.endpoint.as_deref()?).ok()?;
        endpoint.socket_addrs(|| None).ok()?.pop().filter(|_| endpoint.scheme() == "http")
    }

    async fn connect(&self, namespace: &Namespace) -> Result<DynamoDbStore, HarnessError> {
        Ok(self.builder(namespace).connect().await?)
    }
}

/// The store on its table.
struct DynamoDb;

impl Harness for DynamoDb {
    type Store = Connected;

    async fn fresh(&self) -> Result<Fixture<Connected>, HarnessError> {
        let namespace = unique_namespace();
        let store = target().connect(&namespace).await?;
        Ok(Fixture::new(store.connected(), namespace))
    }

    fn profile(&self) -> StoreProfile {
        let mut profile = StoreProfile::new("dynamodb");
        // 400 KB less the longest key, the names and the other attributes
        profile.max_response_bytes = 407_782;
        profile.skew_bound = target().skew_bound;
        profile.remembers_not_started = true;
        profile.expires_by_itself = true;
        profile.sharing = Sharing::Server;
        profile.survives = Survives::ServerCrash;
        profile
    }

    fn leaves_out(&self) -> &'static [Hook] {
        if target().server().is_some() { &[] } else { &[Hook::Server] }
    }

    async fn age(
        &self,
        namespace: &Namespace,
        key: &IdempotencyKey,
        duration: Duration,
    ) -> Result<Aged, HarnessError> {
        let store = target().connect(namespace).await?;
        if let Some(mut item) =
            item(&store, &target().table, namespace.storage_key(key).as_str()).await
        {
            make_older(&mut item, duration.as_millis().try_into()?);
            put(&store, &target().table, item).await;
        }
        Ok(Aged::Done)
    }

    async fn connect_again(
        &self,
        namespace: &Namespace,
    ) -> Result<Option<Connected>, HarnessError> {
        Ok(Some(target().connect(namespace).await?.connected()))
    }

    /// The place of an item is its key, so the item of another key cannot be there.
    async fn write_raw(
        &self,
        namespace: &Namespace,
        key: &IdempotencyKey,
        raw: RawRecord<'_>,
    ) -> Result<Option<Written>, HarnessError> {
        let store = target().connect(namespace).await?;
        let place = namespace.storage_key(key);
        let mut item = item(&store, &target().table, place.as_str()).await.unwrap_or_default();
        match raw {
            RawRecord::RecordOf(_) => return Ok(Some(Written::Impossible)),
            RawRecord::Foreign => {
                item.clear();
                item.insert("pk".to_owned(), AttributeValue::S(place.as_str().to_owned()));
                item.insert("visits".to_owned(), AttributeValue::N("7".to_owned()));
            }
            RawRecord::Truncated => {
                item.remove("claimed_at_ms").ok_or("no record")?;
            }
            RawRecord::NewerFormat => {
                let two = AttributeValue::N("2".to_owned());
                item.insert("format".to_owned(), two).ok_or("no record")?;
            }
        }
        put(&store, &target().table, item).await;
        Ok(Some(Written::Done))
    }

    fn server(&self) -> Option<SocketAddr> {
        target().server()
    }

    async fn connect_through(
        &self,
        address: SocketAddr,
        namespace: &Namespace,
    ) -> Result<Option<Connected>, HarnessError> {
        let builder = target().builder(namespace).endpoint(format!("http://{address}"));
        let store = builder.timeout(Duration::from_secs(2)).connect().await?;
        Ok(Some(store.connected()))
    }
}

mod suite {
    idempotency_conformance::conformance_tests!(crate::conformance::DynamoDb);
}

#[test]
fn random_programs_end_as_the_state_machine_says() {
    Programs::new(DynamoDb).count(count(60, 5_000)).run().unwrap();
}

/// The suite as somebody runs it against a service of their own: another process, which knows of it by the
/// environment alone. In the usual run the cases of one subject.
#[test]
fn the_suite_runs_on_the_table_that_the_environment_names() {
    if std::env::var_os(URL).is_some() {
        // this is that process
        return;
    }
    let emulator = DynamoDbEmulator::start().unwrap();
    let url = format!("{}&region=eu-west-1&skew_bound_ms=500", emulator.url("of-the-environment"));
    let cases = if is_full() { "conformance::" } else { "conformance::suite::complete::" };
    let run = std::process::Command::new(std::env::current_exe().unwrap())
        .arg(cases)
        .env(URL, url)
        // so many random programs as in the full run take minutes, and run in this process
        .env_remove("IDEMPOTENCY_TEST")
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{printed}");
    let passed = printed.lines().find_map(|line| line.strip_prefix("test result: ok. "));
    let passed = passed.and_then(|rest| rest.split(' ').next()).unwrap().parse::<u32>().unwrap();
    assert!(passed >= 5, "{printed}");
    // where it ran is where it was told to
    let store = DynamoDbStore::builder("of-the-environment").unwrap().endpoint(emulator.endpoint());
    let items = runtime().block_on(async {
        let store = store.connect().await.unwrap();
        store.client().scan().table_name("of-the-environment").send().await.unwrap().count()
    });
    assert!(items > 0);
}
