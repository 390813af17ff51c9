use std::time::Duration;

use tokio::signal;

/// How long senders have to finish what they send, after the process was asked to end.
const GRACE: Duration = Duration::from_secs(30);

/// Ends when the process is asked to end: Ctrl-C, or SIGTERM.
pub(crate) async fn asked_for() {
    asked().await;
    println!("webhook-receiver takes no new deliveries and finishes those under way");
}

/// Ends when it is asked again, or when the time for that is over.
pub(crate) async fn insisted_on() {
    asked().await;
    tokio::select! {
        () = asked() => {}
        () = tokio::time::sleep(GRACE) => {}
    }
}

async fn asked() {
    tokio::select! {
        () = interrupt() => {}
        () = terminate() => {}
    }
}

async fn interrupt() {
    if signal::ctrl_c().await.is_err() {
        // it cannot be heard: the process then ends by SIGTERM or not gracefully
        std::future::pending::<()>().await;
    }
}

#[cfg(unix)]
async fn terminate() {
    match signal::unix::signal(signal::unix::SignalKind::terminate()) {
        Ok(mut signals) => {
            signals.recv().await;
        }
        Err(_) => std::future::pending().await,
    }
}

#[cfg(not(unix))]
async fn terminate() {
    std::future::pending().await
}
