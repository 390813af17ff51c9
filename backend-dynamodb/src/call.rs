use std::{
    error::Error,
    fmt,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use aws_sdk_dynamodb::{
    config::{
        ConfigBag, Intercept, RuntimeComponents,
        http::HttpResponse,
        interceptors::{
            BeforeDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
            FinalizerInterceptorContextRef,
        },
    },
    error::{BoxError, ProvideErrorMetadata, SdkError},
    operation::{put_item::PutItemError, update_item::UpdateItemError},
};
use idempotency_core::{ErrorKind, Operation, StoreError, Timestamp};

use crate::{error::classify, timekeeper::Timekeeper, wire::Item};

/// One operation under way: all its requests, and what they may have done.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) operation: Operation,
    keeper: Arc<Timekeeper>,
    seen: Arc<Seen>,
}

/// What the interceptor has seen.
#[derive(Debug, Default)]
struct Seen {
    /// A write is on its way.
    is_in_flight: AtomicBool,
    /// A write was answered by success, by a failure of the server, or not at all.
    may_have_happened: AtomicBool,
    /// When the last request was sent, on the clock that decides.
    sent_at_ms: AtomicU64,
    /// How far the last reply's date was off, when it was further off than the bound.
    off_by_ms: AtomicU64,
    /// The last reply had a date that could be compared.
    has_date: AtomicBool,
}

/// A write whose condition did not hold, with the item that is there.
#[derive(Debug)]
pub(crate) struct Refused(pub(crate) Option<Item>);

/// Whether an error says that a condition did not hold.
pub(crate) trait Conditional: ProvideErrorMetadata + Sized {
    fn is_refusal(&self) -> bool;

    /// The item that is there.
    fn into_item(self) -> Option<Item>;
}

impl Conditional for PutItemError {
    fn is_refusal(&self) -> bool {
        self.is_conditional_check_failed_exception()
    }

    fn into_item(self) -> Option<Item> {
        match self {
            Self::ConditionalCheckFailedException(failed) => failed.item,
            _ => None,
        }
    }
}

impl Conditional for UpdateItemError {
    fn is_refusal(&self) -> bool {
        self.is_conditional_check_failed_exception()
    }

    fn into_item(self) -> Option<Item> {
        match self {
            Self::ConditionalCheckFailedException(failed) => failed.item,
            _ => None,
        }
    }
}

impl Call {
    pub(crate) fn new(operation: Operation, keeper: &Arc<Timekeeper>) -> Self {
        Self { operation, keeper: Arc::clone(keeper), seen: Arc::default() }
    }

    /// To be given to each write of this operation.
    pub(crate) fn writes(&self) -> Watcher {
        self.watcher(true)
    }

    /// To be given to each read of this operation.
    pub(crate) fn reads(&self) -> Watcher {
        self.watcher(false)
    }

    fn watcher(&self, writes: bool) -> Watcher {
        Watcher { keeper: Arc::clone(&self.keeper), seen: Arc::clone(&self.seen), writes }
    }

    /// Sends a write. The outer error: there is no answer, or none that can be trusted.
    pub(crate) async fn write<T, E: Conditional>(
        &self,
        request: impl Future<Output = Result<T, SdkError<E, HttpResponse>>> + Send,
    ) -> Result<Result<T, Refused>, StoreError> {
        let answer = match request.await {
            Ok(reply) => Ok(reply),
            Err(SdkError::ServiceError(failed)) if failed.err().is_refusal() => {
                Err(Refused(failed.into_err().into_item()))
            }
            Err(error) => return Err(self.failed(classify(self.operation, &error))),
        };
        self.in_time()?;
        Ok(answer)
    }

    /// Sends a read.
    pub(crate) async fn read<T, E: ProvideErrorMetadata>(
        &self,
        request: impl Future<Output = Result<T, SdkError<E, HttpResponse>>> + Send,
    ) -> Result<T, StoreError> {
        let answer =
            request.await.map_err(|error| self.failed(classify(self.operation, &error)))?;
        self.in_time()?;
        Ok(answer)
    }

    /// An error of this operation, with what may have happened so far.
    pub(crate) fn failed(&self, error: StoreError) -> StoreError {
        if self.seen.may_have_happened.load(Ordering::SeqCst) {
            error
        } else {
            error.without_effect()
        }
    }

    /// The answer within `timeout` (C51).
    pub(crate) async fn within<T>(
        &self,
        timeout: Duration,
        work: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        tokio::time::timeout(timeout, work).await.unwrap_or_else(|_| {
            let detail = format!("no reply within {timeout:?}");
            let error = StoreError::new(self.operation, ErrorKind::Timeout, detail);
            let in_flight = self.seen.is_in_flight.load(Ordering::SeqCst);
            Err(if in_flight { error } else { self.failed(error) })
        })
    }

    /// How far the last reply's date was off, zero within the bound; none when it had no date.
    pub(crate) fn last_difference(&self) -> Option<Duration> {
        let has_date = self.seen.has_date.load(Ordering::SeqCst);
        has_date.then(|| Duration::from_millis(self.seen.off_by_ms.load(Ordering::SeqCst)))
    }

    /// Refuses an answer whose date shows that the clock must not decide (C33).
    fn in_time(&self) -> Result<(), StoreError> {
        let off_by = self.seen.off_by_ms.load(Ordering::SeqCst);
        if off_by == 0 {
            if self.seen.has_date.load(Ordering::SeqCst) {
                self.keeper.confirm();
            }
            return Ok(());
        }
        self.keeper.doubt();
        let detail = format!(
            "this machine's clock and the service's differ by {:?} or more, and {:?} is the bound: \
             synchronize the clock",
            Duration::from_millis(off_by),
            self.keeper.skew_bound
        );
        Err(self.failed(StoreError::new(self.operation, ErrorKind::Invalid, detail)))
    }
}

/// Looks at each try of a request: when it was sent, what may have come of it, and the date of its
/// reply.
pub(crate) struct Watcher {
    keeper: Arc<Timekeeper>,
    seen: Arc<Seen>,
    writes: bool,
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher").field("writes", &self.writes).finish_non_exhaustive()
    }
}

impl Intercept for Watcher {
    fn name(&self) -> &'static str {
        "idempotency"
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.seen.is_in_flight.store(self.writes, Ordering::SeqCst);
        self.seen.sent_at_ms.store(self.keeper.now().as_unix_millis(), Ordering::SeqCst);
        Ok(())
    }

    fn read_after_transmit(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let received = self.keeper.now();
        let sent = Timestamp::from_unix_millis(self.seen.sent_at_ms.load(Ordering::SeqCst));
        let date = context.response().headers().get("date");
        let off_by = date.and_then(|date| self.keeper.off_by(date, sent, received));
        self.seen.has_date.store(off_by.is_some(), Ordering::SeqCst);
        let off_by = off_by.unwrap_or_default().as_millis();
        self.seen.off_by_ms.store(u64::try_from(off_by).unwrap_or(u64::MAX), Ordering::SeqCst);
        Ok(())
    }

    fn read_after_attempt(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let was_sent = self.seen.is_in_flight.swap(false, Ordering::SeqCst);
        let is_refused = context
            .response()
            .is_some_and(|response| (400..500).contains(&response.status().as_u16()));
        let failure = context.output_or_error().and_then(Result::err);
        let is_unconnected = failure
            .and_then(|failure| failure.as_connector_error())
            .is_some_and(|failure| never_connected(failure));
        if was_sent && !is_refused && !is_unconnected {
            self.seen.may_have_happened.store(true, Ordering::SeqCst);
        }
        Ok(())
    }
}

/// Whether nothing was sent, because there was no connection to send it on.
fn never_connected(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<hyper_util::client::legacy::Error>() {
            return error.is_connect();
        }
        cause = error.source();
    }
    false
}
