use tokio::signal;

/// Ends when the process is asked to end: Ctrl-C, or SIGTERM.
pub(crate) async fn asked_for() {
    tokio::select! {
        () = interrupt() => {}
        () = terminate() => {}
    }
    println!("payments-api takes no new requests and finishes those under way");
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
