use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::runtime::Handle;
use tracing::{Instrument, Span};

/// Work that whoever waits for it polls, and that goes on in a task of its own when that one leaves.
///
/// A task from the beginning would do the same, and costs each request a hand-over to it and back.
pub(crate) struct Detached<F>
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    /// None: it has ended.
    work: Option<Pin<Box<F>>>,
    runtime: Handle,
    span: Span,
}

impl<F> Detached<F>
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    pub(crate) fn new(work: F) -> Self {
        Self { work: Some(Box::pin(work)), runtime: Handle::current(), span: Span::current() }
    }
}

impl<F> Future for Detached<F>
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
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

impl<F> Drop for Detached<F>
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
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

    /// Kind of fault: work that ends with its client (H-43).
    #[tokio::test(start_paused = true)]
    async fn work_goes_on_when_nobody_waits_for_it() {
        let (sender, receiver) = oneshot::channel();
        let work = Detached::new(async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            sender.send(7)
        });
        assert!(timeout(Duration::from_millis(1), work).await.is_err());
        assert_eq!(receiver.await, Ok(7));
    }

    #[tokio::test]
    async fn work_that_panics_reaches_the_caller_and_is_not_polled_again() {
        let mut work = Detached::new(async { panic!("told to") });
        let polled = AssertUnwindSafe(&mut work).catch_unwind().await;
        assert_eq!(polled.unwrap_err().downcast_ref(), Some(&"told to"));
        assert!(work.work.is_none());
        assert!((&mut work).now_or_never().is_none());
    }
}
