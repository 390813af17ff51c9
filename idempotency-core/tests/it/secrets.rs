use std::{
    fmt::Write,
    sync::{Arc, Mutex},
};

use idempotency_core::{
    Begun, IdempotencyKey, Namespace, Operation, Outcome, Recorded, Scope, TracingObserver,
};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

use crate::support::*;

/// Kind of fault: keys in logs. Nothing that can be logged shows a key, a scope, a response, a
/// checkpoint or a secret.
#[tokio::test(start_paused = true)]
async fn nothing_shows_keys_scopes_or_answers() {
    let lines = Arc::new(Mutex::new(String::new()));
    // while there is only one subscriber, whichever thread meets an event first decides for all whether
    // it is wanted, and the other tests' threads have none
    let _second = tracing::Dispatch::new(Lines(Arc::default()));
    let _guard = tracing::subscriber::set_default(Lines(Arc::clone(&lines)));
    let secret = IdempotencyKey::new("hush-scope", "hush-key").unwrap();
    let store = store().namespace(Namespace::default().with_secret("hush-secret"));
    let plans = vec![Plan::LoseReply, Plan::LoseReply];
    let faulty = Faulty::for_operation(store.clone(), Operation::Complete, plans);
    let idempotency = builder(faulty).observer(TracingObserver).build().unwrap();
    let Begun::Acquired(guard) = idempotency.begin(&secret, request("hush")).await.unwrap() else {
        panic!("not acquired")
    };
    guard.attempt().save_checkpoint("hush-checkpoint").await.unwrap();
    let token =
        idempotency_core::IdempotencyStore::lookup(&store, &secret).await.unwrap().unwrap().token;
    let token = format!("{:032x}", u128::from_be_bytes(*token.as_bytes()));
    let attempt = guard.attempt().clone();
    let joined = attempt.completion(&idempotency_core::Answer::bytes("hush-joined")).await;
    let mut shown = vec![format!("{guard:?} {attempt:?} {idempotency:?} {secret:?}")];
    assert!(joined.is_some() && !format!("{shown:?} {joined:?}").contains(&token));
    let recorded = guard.complete(idempotency_core::Answer::bytes("hush-answer")).await;
    assert!(matches!(recorded, Recorded::Stored));
    let begun = idempotency.begin(&secret, request("hush")).await.unwrap();
    let record = idempotency_core::IdempotencyStore::lookup(&store, &secret).await.unwrap();
    let scope = Scope::new("hush-scope").unwrap();
    shown.push(format!("{begun:?} {record:?} {store:?} {scope:?}"));
    let outcome: Result<Out, _> =
        idempotency.run(&secret, request("hush"), async |_| Ok(1_u32)).await;
    shown.push(format!("{outcome:?} {}", outcome.as_ref().unwrap_err()));
    let other = IdempotencyKey::new("hush-scope", "hush-other").unwrap();
    let _any: Out = idempotency.run(&other, request("hush"), async |_| Ok(1)).await.unwrap();
    let outcome: Out =
        idempotency.run(&secret, request("other"), async |_| Ok(1_u32)).await.unwrap();
    assert!(matches!(outcome, Outcome::Mismatch(_)));
    shown.push(format!("{outcome:?}"));
    let lines = lines.lock().unwrap();
    assert!(lines.contains(&secret.digest().to_string()), "the digest is logged: {lines}");
    assert!(lines.contains("StoreFailed"), "{lines}");
    let span = format!("idempotency.begin key={} ", secret.digest());
    assert!(lines.contains(&span), "{lines}");
    let span = format!("idempotency.attempt key={} attempt=1 ", other.digest());
    assert!(lines.contains(&span), "the work is in a span of its own: {lines}");
    assert!(!format!("{shown:?} {lines}").contains("hush"), "{shown:?} {lines}");
}

/// A subscriber that keeps all it is told.
struct Lines(Arc<Mutex<String>>);

impl Subscriber for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
        let mut lines = self.0.lock().unwrap();
        lines.push_str(span.metadata().name());
        lines.push(' ');
        span.record(&mut Line(&mut lines));
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Line(&mut self.0.lock().unwrap()));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct Line<'a>(&'a mut String);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _infallible = write!(self.0, "{field}={value:?} ");
    }
}
