use std::time::{Duration, Instant};

use idempotency::Retention;

use super::Session;
use crate::{
    backend::{Backend, on_backend, on_every_backend},
    records::{claimed, claimed_for, with_store},
    support::idempotency,
};

on_every_backend!(sweeping_removes_what_is_past_its_retention_or_says_who_does);

fn sweeping_removes_what_is_past_its_retention_or_says_who_does(backend: &Backend) {
    let sweeps = with_store(backend, |store| async move {
        let moment = Duration::from_millis(1);
        for key in ["a", "b", "c"] {
            claimed_for(&store, key, moment, Retention::new(moment).unwrap()).await;
        }
        claimed(&store, "kept", Duration::from_hours(1)).await;
        store.sweep().is_some()
    });
    let mut session = Session::new(backend);
    if sweeps {
        // in batches of one, again until all three are past their retention by the store's clock
        #[expect(clippy::disallowed_methods, reason = "a deadline of the test itself")]
        let begin = Instant::now();
        let mut removed = 0;
        while removed < 3 {
            assert!(begin.elapsed() < Duration::from_secs(30), "{removed} of 3 removed");
            let ran = idempotency(&["sweep", &backend.url, "--batch", "1", "--format", "json"]);
            let swept = ran.json();
            assert_eq!((ran.code, &swept["removed"]), (Some(0), &swept["abandoned"]), "{ran:?}");
            removed += swept["removed"].as_u64().unwrap();
        }
    }
    session.call("sweep URL");
    session.call("sweep URL --format json");
    session.call("sweep URL --batch 0");
    session.golden(&format!("sweep.{}", backend.name));
    let kept = idempotency(&["lookup", &backend.url, "kept", "--scope", "shop"]);
    assert_eq!(kept.code, Some(0), "{kept:?}");
}
