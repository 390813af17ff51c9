use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use aws_sdk_dynamodb::{Client, types::ReturnValue};
use idempotency_core::{
    AttemptNumber, ClaimOutcome, ClaimRequest, CompleteRequest, Connected, ErrorKind,
    FinishOutcome, IdempotencyKey, IdempotencyStore, Namespace, Operation, Record, Release,
    ReleaseOutcome, ReleaseRequest, RenewOutcome, RenewRequest, Scope, StorageKey, StoreError,
    StoreProfile,
    machine::{self, Now, Write},
};

use crate::{
    DynamoDbStoreBuilder, NameError,
    call::{Call, Refused},
    expression::Statements,
    layout::Layout,
    timekeeper::Timekeeper,
    values::Values,
    wire::{self, Writer},
};

/// A store in a table of Amazon `DynamoDB`. Clones share everything.
///
/// Every operation is one conditional write, which comes back with the item when its condition does not
/// hold. A take-over, and a claim of a key whose record is past its retention, need a second one, whose
/// condition is that nothing has changed since.
///
/// # Cancel safety
/// A dropped operation may have been applied, or be applied later: how late is not bounded (C46).
#[derive(Clone)]
pub struct DynamoDbStore {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) client: Client,
    pub(crate) layout: Layout,
    pub(crate) namespace: Namespace,
    pub(crate) keeper: Arc<Timekeeper>,
    pub(crate) statements: Statements,
    pub(crate) timeout: Duration,
    pub(crate) profile: StoreProfile,
}

impl DynamoDbStore {
    /// A store over the application's own client, in `table`.
    ///
    /// # Errors
    /// No table can have this name.
    pub fn new(client: Client, table: &str) -> Result<Self, NameError> {
        Ok(Self::builder(table)?.build(client))
    }

    /// Other names, another namespace, another bound of the clocks.
    ///
    /// # Errors
    /// No table can have this name.
    pub fn builder(table: &str) -> Result<DynamoDbStoreBuilder, NameError> {
        DynamoDbStoreBuilder::new(table)
    }

    /// The client.
    pub fn client(&self) -> &Client {
        &self.inner.client
    }

    /// This store with everything else it can do.
    #[must_use]
    pub fn connected(&self) -> Connected {
        Connected::new(Arc::new(self.clone()))
            .with_admin(Arc::new(self.clone()))
            .with_schema(Arc::new(self.clone()))
            .with_doctor(Arc::new(self.clone()))
    }

    /// A place that is read to see whether the table answers; what is there does not matter.
    pub(crate) fn probe(&self) -> Result<StorageKey, StoreError> {
        let key = IdempotencyKey::new(Scope::global(), "probe").map_err(|source| {
            StoreError::new(Operation::Connect, ErrorKind::Unexpected, "no key to ask for")
                .without_effect()
                .with_source(source)
        })?;
        Ok(self.place(&key))
    }

    pub(crate) fn place(&self, key: &IdempotencyKey) -> StorageKey {
        self.inner.namespace.storage_key(key)
    }
}

impl Inner {
    pub(crate) fn call(&self, operation: Operation) -> Call {
        Call::new(operation, &self.keeper)
    }

    pub(crate) fn now(&self) -> Now {
        Now { at: self.keeper.now(), skew_bound: self.keeper.skew_bound }
    }

    pub(crate) fn writer(&self) -> Writer<'_> {
        Writer {
            layout: &self.layout,
            namespace: self.namespace.name(),
            skew_bound: self.keeper.skew_bound,
        }
    }

    /// Looks before the first write whether the clock may decide: what a wrong clock writes, others
    /// would have to live with (C33).
    pub(crate) async fn know_the_time(
        &self,
        call: &Call,
        place: &StorageKey,
    ) -> Result<(), StoreError> {
        if !self.keeper.is_right() {
            self.look(call, place).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl IdempotencyStore for DynamoDbStore {
    async fn claim(&self, request: ClaimRequest<'_>) -> Result<ClaimOutcome, StoreError> {
        let (inner, place) = (&*self.inner, self.place(request.key));
        let call = inner.call(Operation::Claim);
        let work = async {
            inner.know_the_time(&call, &place).await?;
            let now = inner.now();
            // most keys are new: begin with what is right for those
            let fresh = machine::claim(None, &request, now)?;
            let Write::Put(record) = fresh.write else {
                return Ok(fresh.answer);
            };
            match inner.put_new(&call, &place, &record).await? {
                Ok(()) => Ok(fresh.answer),
                Err(Refused(item)) => {
                    let decide =
                        |record: Option<&Record>, now| machine::claim(record, &request, now);
                    // boxed, so that the usual path is not as large as this one
                    Box::pin(inner.decide(&call, &place, item, now, decide)).await
                }
            }
        };
        call.within(inner.timeout, work).await
    }

    async fn complete(&self, request: CompleteRequest<'_>) -> Result<FinishOutcome, StoreError> {
        self.profile().check_response(&request.response)?;
        let (inner, place) = (&*self.inner, self.place(request.key));
        let call = inner.call(Operation::Complete);
        let work = async {
            inner.know_the_time(&call, &place).await?;
            let now = inner.now();
            let values = Values::of_completion(&request, now)
                .with(":failed", wire::text(wire::FAILED))
                .with(":unknown", wire::text(wire::UNKNOWN));
            let (statement, returns) = (&inner.statements.complete, ReturnValue::AllOld);
            match inner.update(&call, &place, statement, values, returns).await? {
                // an emulator tells the key of an item that was not there
                Ok(Some(old)) if inner.is_record(&old) => Ok(FinishOutcome::Done),
                Ok(_) => Ok(FinishOutcome::Restored),
                Err(Refused(item)) => {
                    let decide =
                        |record: Option<&Record>, now| Ok(machine::complete(record, &request, now));
                    Box::pin(inner.decide(&call, &place, item, now, decide)).await
                }
            }
        };
        call.within(inner.timeout, work).await
    }

    async fn renew(&self, request: RenewRequest<'_>) -> Result<RenewOutcome, StoreError> {
        self.profile().check_checkpoint(request.checkpoint.as_ref())?;
        let (inner, place) = (&*self.inner, self.place(request.key));
        let call = inner.call(Operation::Renew);
        let work = async {
            inner.know_the_time(&call, &place).await?;
            let now = inner.now();
            let lease_until = now.at.after(request.lease.get());
            let values = Values::own(request.token, request.attempt, now)
                .with(":sequence", wire::number(request.sequence.get()))
                .with(":lease_until", wire::moment(lease_until))
                .with(":delete_base", wire::delete_after(lease_until, now.skew_bound));
            let (statement, values) = match &request.checkpoint {
                None => (&inner.statements.renew, values),
                Some(checkpoint) => (
                    &inner.statements.renew_with_checkpoint,
                    values.with(":checkpoint", wire::binary(checkpoint.clone())),
                ),
            };
            match inner.update(&call, &place, statement, values, ReturnValue::None).await? {
                Ok(_) => Ok(RenewOutcome::Held { lease_remaining: request.lease.get() }),
                Err(Refused(item)) => {
                    let decide =
                        |record: Option<&Record>, now| Ok(machine::renew(record, &request, now));
                    Box::pin(inner.decide(&call, &place, item, now, decide)).await
                }
            }
        };
        call.within(inner.timeout, work).await
    }

    async fn release(&self, request: ReleaseRequest<'_>) -> Result<ReleaseOutcome, StoreError> {
        let (inner, place) = (&*self.inner, self.place(request.key));
        let call = inner.call(Operation::Release);
        let work = async {
            inner.know_the_time(&call, &place).await?;
            let now = inner.now();
            let values =
                Values::own(request.token, request.attempt, now).with(":now", wire::moment(now.at));
            let is_first = request.attempt == AttemptNumber::FIRST;
            let (statement, values) = if request.release == Release::NotStarted && is_first {
                (&inner.statements.forget, values.with(":unused", wire::text(wire::UNUSED)))
            } else {
                let word =
                    if request.release == Release::Unknown { wire::UNKNOWN } else { wire::FAILED };
                let values = values
                    .with(":released", wire::text(word))
                    .with(":delete_base", wire::delete_after(now.at, now.skew_bound));
                (&inner.statements.release, values)
            };
            match inner.update(&call, &place, statement, values, ReturnValue::None).await? {
                Ok(_) => Ok(ReleaseOutcome::Released),
                Err(Refused(item)) => {
                    let decide =
                        |record: Option<&Record>, now| Ok(machine::release(record, &request, now));
                    Box::pin(inner.decide(&call, &place, item, now, decide)).await
                }
            }
        };
        call.within(inner.timeout, work).await
    }

    async fn lookup(&self, key: &IdempotencyKey) -> Result<Option<Record>, StoreError> {
        let (inner, place) = (&*self.inner, self.place(key));
        let call = inner.call(Operation::Lookup);
        let work = async {
            let now = inner.now();
            let mut item = inner.look(&call, &place).await?;
            let record = inner.read(&call, &place, item.as_mut())?;
            Ok(record.filter(|record| machine::lookup(Some(record), now).is_some()))
        };
        call.within(inner.timeout, work).await
    }

    fn profile(&self) -> &StoreProfile {
        &self.inner.profile
    }
}

/// Shows where the records are and nothing of them.
impl fmt::Debug for DynamoDbStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynamoDbStore")
            .field("layout", &self.inner.layout)
            .field("namespace", &self.inner.namespace)
            .field("timeout", &self.inner.timeout)
            .field("skew_bound", &self.inner.keeper.skew_bound)
            .finish_non_exhaustive()
    }
}
