use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use tokio::runtime::Handle;
use tracing::{Instrument, Span};

/// Work that is polled by whoever waits for it, and that goes on in a task of its own when that one
/// leaves after the point of no return.
///
/// A task from the beginning would do the same, and costs each request a hand-over to it and back.
pub(crate) struct Detached<T: Send + 'static> {
    /// None: it has ended.
    work: Option<Work<T>>,
    no_return: NoReturn,
    runtime: Handle,
    span: Span,
}

type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The point of no return: before it the work is dropped with its caller, after it the work is done.
#[derive(Clone, Debug, Default)]
pub(crate) struct NoReturn(Arc<AtomicBool>);

impl NoReturn {
    pub(crate) fn pass(&self) {
        // the work and its caller are never polled at the same time
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<T: Send + 'static> Detached<T> {
    pub(crate) fn new<F>(work: impl FnOnce(NoReturn) -> F) -> Self
    where
        F: Future<Output = T> + Send + 'static,
    {
        let no_return = NoReturn::default();
        Self {
            work: Some(Box::pin(work(no_return.clone()))),
            no_return,
            runtime: Handle::current(),
            span: Span::current(),
        }
    }
}

impl<T: Send + 'static> Future for Detached<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        // out of its place while it is polled: work that panics has ended
        let Some(mut work) = self.work.take() else {
            return Poll::Pending;
        };
        let polled = work.as_mut().poll(cx);
        if polled.is_pending() {
            self.work = Some(work);
        }
        polled
    }
}

impl<T: Send + 'static> Drop for Detached<T> {
    fn drop(&mut self) {
        if self.no_return.0.load(Ordering::Relaxed)
            && let Some(work) = self.work.take()
        {
            let span = std::mem::replace(&mut self.span, Span::none());
            self.runtime.spawn(work.instrument(span));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{panic::AssertUnwindSafe, time::Duration};

    use futures_util::FutureExt;
    use tokio::{sync::oneshot, time::timeout};

    use super::*;

    /// Kind of fault: work that ends with its client (H-43), and half a request that claims a key
    /// (H-42).
    #[tokio::test(start_paused = true)]
    async fn work_goes_on_without_its_caller_after_the_point_of_no_return() {
        for passes in [true, false] {
            let (sender, receiver) = oneshot::channel();
            let work = Detached::new(|no_return| async move {
                if passes {
                    no_return.pass();
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
                sender.send(7)
            });
            assert!(timeout(Duration::from_millis(1), work).await.is_err());
            assert_eq!(receiver.await.is_ok(), passes);
        }
    }

    #[tokio::test]
    async fn work_that_panics_reaches_the_caller_and_is_not_polled_again() {
        let mut work = Detached::new(|no_return| async move {
            no_return.pass();
            panic!("told to")
        });
        let polled: Result<(), _> = AssertUnwindSafe(&mut work).catch_unwind().await;
        assert_eq!(polled.unwrap_err().downcast_ref(), Some(&"told to"));
        assert!(work.work.is_none());
        assert!((&mut work).now_or_never().is_none());
    }
}
