use std::{sync::Arc, time::Duration};

use aws_sdk_dynamodb::Client;
use idempotency_core::{
    Clock, Namespace, Operation, Schema, Sharing, StoreError, StoreProfile, Survives,
};

use crate::{
    Attribute, DynamoDbStore, NameError,
    connect::{self, Place},
    expression::Statements,
    layout::Layout,
    size,
    store::Inner,
    timekeeper::Timekeeper,
};

/// Where a [`DynamoDbStore`] keeps its records, and how far clocks may be apart.
///
/// ```
/// # fn example(client: aws_sdk_dynamodb::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use idempotency_core::Namespace;
/// use idempotency_dynamodb::{Attribute, DynamoDbStore};
///
/// // beside other items, in a table whose names are given
/// let store = DynamoDbStore::builder("payments")?
///     .partition_key("key")?
///     .sort_key("data", "idempotency")?
///     .attribute(Attribute::DeleteAfter, "ttl")?
///     .namespace(Namespace::new("checkout")?)
///     .skew_bound(Duration::from_millis(500))
///     .build(client);
/// # Ok(())
/// # }
/// # use idempotency_dynamodb::aws_sdk_dynamodb;
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder makes nothing until `build` or `connect`"]
pub struct DynamoDbStoreBuilder {
    layout: Layout,
    namespace: Namespace,
    timeout: Duration,
    skew_bound: Duration,
    clock: Option<Arc<dyn Clock>>,
    max_response_bytes: usize,
    max_checkpoint_bytes: usize,
    place: Place,
    create: bool,
}

/// Of one operation with its repetitions: what the executor allows for one try.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(2);

/// Machines that are synchronized at all are closer together by an order of magnitude.
const DEFAULT_SKEW_BOUND: Duration = Duration::from_secs(1);

const DEFAULT_CHECKPOINT_BYTES: usize = 1 << 16;

impl DynamoDbStoreBuilder {
    pub(crate) fn new(table: &str) -> Result<Self, NameError> {
        Ok(Self {
            layout: Layout::new(table)?,
            namespace: Namespace::default(),
            timeout: DEFAULT_TIMEOUT,
            skew_bound: DEFAULT_SKEW_BOUND,
            clock: None,
            max_response_bytes: usize::MAX,
            max_checkpoint_bytes: DEFAULT_CHECKPOINT_BYTES,
            place: Place::default(),
            create: false,
        })
    }

    /// The name of the partition key, a text: `pk` unless told otherwise.
    ///
    /// # Errors
    /// Empty, longer than 255 bytes, or the name of another attribute.
    pub fn partition_key(mut self, name: &str) -> Result<Self, NameError> {
        self.layout.set_partition_key(name)?;
        Ok(self)
    }

    /// The name of the sort key, a text, and the value that it has in all records. For tables with a
    /// composite key; without it the table has none.
    ///
    /// The partition key still tells the records apart, so that they spread over the partitions; the
    /// value of the sort key tells them from other items of the table.
    ///
    /// # Errors
    /// The name is empty, longer than 255 bytes, or that of another attribute; the value is empty or
    /// longer than 1 024 bytes.
    pub fn sort_key(mut self, name: &str, value: &str) -> Result<Self, NameError> {
        self.layout.set_sort_key(name, value)?;
        Ok(self)
    }

    /// Another name for an attribute. All processes that share the table need the same names.
    ///
    /// # Errors
    /// Empty, longer than 255 bytes, or the name of another attribute.
    pub fn attribute(mut self, attribute: Attribute, name: &str) -> Result<Self, NameError> {
        self.layout.set_name(attribute, name)?;
        Ok(self)
    }

    /// The name of the index that lists records without an outcome; without it there is none.
    ///
    /// It holds the keys of those records only, and costs a write more for each claim and for each
    /// completion. Without it, listing reads the whole table.
    ///
    /// # Errors
    /// Shorter than 3 or longer than 255 characters, or others than `a-z A-Z 0-9 _ . -`.
    pub fn index(mut self, name: &str) -> Result<Self, NameError> {
        self.layout.set_index(name)?;
        Ok(self)
    }

    /// Keeps the records of several applications in one table apart.
    pub fn namespace(self, namespace: Namespace) -> Self {
        Self { namespace, ..self }
    }

    /// How long one operation may take, with its repetitions: 2 s unless told otherwise.
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// The largest difference between the clocks of two callers: 1 s unless told otherwise, in whole
    /// milliseconds. All processes that share the table need the same bound.
    ///
    /// Take-over and expiry come this much late. A machine whose clock is further off from the
    /// service's is refused. When two clocks are further apart and neither is noticed, a live attempt
    /// can be taken over: it then runs beside the next one, and its completion is `Lost`.
    pub fn skew_bound(self, skew_bound: Duration) -> Self {
        Self { skew_bound, ..self }
    }

    /// The clock that decides, instead of the system's. For tests.
    pub fn clock(self, clock: impl Clock + 'static) -> Self {
        Self { clock: Some(Arc::new(clock)), ..self }
    }

    /// The longest response in bytes. Unless told otherwise, and at most, what an item of 400 KB can
    /// hold beside the longest key: about 398 KB.
    pub fn max_response_bytes(self, bytes: usize) -> Self {
        Self { max_response_bytes: bytes, ..self }
    }

    /// The longest checkpoint in bytes: 64 KiB unless told otherwise, at most about 398 KB.
    pub fn max_checkpoint_bytes(self, bytes: usize) -> Self {
        Self { max_checkpoint_bytes: bytes, ..self }
    }

    /// The region of [`connect`](Self::connect). Unless told otherwise that of the AWS tools
    /// (`AWS_REGION`, the profile); with an endpoint by `http:` it may be missing.
    pub fn region(mut self, region: impl Into<String>) -> Self {
        self.place.region = Some(region.into());
        self
    }

    /// Where [`connect`](Self::connect) finds the service: a local emulator (`http:`), or an endpoint
    /// of a private network.
    pub fn endpoint(mut self, endpoint: impl Into<String>) -> Self {
        self.place.endpoint = Some(endpoint.into());
        self
    }

    /// Whether [`connect`](Self::connect) creates the table when it is missing.
    pub fn create(self, create: bool) -> Self {
        Self { create, ..self }
    }

    /// A store over the application's own client. Nothing is sent before the first operation, which
    /// then reads once more, to compare the clocks.
    ///
    /// The client's own time-outs and repetitions apply within the store's time-out: give it an attempt
    /// time-out well below that, so that a request without a reply is sent again.
    #[must_use]
    pub fn build(self, client: Client) -> DynamoDbStore {
        let mut profile = StoreProfile::new("dynamodb");
        let most = size::most_response_bytes(&self.layout, &self.namespace);
        profile.max_response_bytes = self.max_response_bytes.min(most);
        let most = size::most_checkpoint_bytes(&self.layout, &self.namespace);
        profile.max_checkpoint_bytes = self.max_checkpoint_bytes.min(most);
        let skew_bound = self.skew_bound.as_millis().try_into().unwrap_or(u64::MAX);
        profile.skew_bound = Duration::from_millis(skew_bound);
        profile.remembers_not_started = true;
        profile.expires_by_itself = true;
        profile.sharing = Sharing::Server;
        profile.survives = Survives::ServerCrash;
        let inner = Inner {
            client,
            statements: Statements::new(&self.layout),
            layout: self.layout,
            namespace: self.namespace,
            keeper: Arc::new(Timekeeper::new(self.clock, profile.skew_bound)),
            timeout: self.timeout,
            profile,
        };
        DynamoDbStore { inner: Arc::new(inner) }
    }

    /// A store with a client of its own; checks that the table is there and compares the clocks.
    ///
    /// With an endpoint by `http:` requests are signed with `AWS_ACCESS_KEY_ID` and
    /// `AWS_SECRET_ACCESS_KEY`, or with a placeholder where those are not set: emulators take any.
    /// Without such an endpoint it uses the region and the credentials of the AWS tools, and TLS: that
    /// needs the feature `aws-config`.
    ///
    /// # Errors
    /// The feature is missing, there are no credentials, the service cannot be reached, the table is
    /// missing or has another key, or the clock is off.
    pub async fn connect(self) -> Result<DynamoDbStore, StoreError> {
        let client = connect::client(&self.place, self.timeout).await?;
        let create = self.create;
        let store = self.build(client);
        if create {
            store.create().await?;
        }
        let inner = &*store.inner;
        let call = inner.call(Operation::Connect);
        let probe = store.probe()?;
        call.within(inner.timeout, inner.look(&call, &probe)).await?;
        Ok(store)
    }

    /// As [`connect`](Self::connect), without looking whether anything is there. The first operation
    /// compares the clocks.
    ///
    /// # Errors
    /// The feature is missing, or there is no region.
    pub async fn connect_unchecked(self) -> Result<DynamoDbStore, StoreError> {
        let client = connect::client(&self.place, self.timeout).await?;
        Ok(self.build(client))
    }
}
