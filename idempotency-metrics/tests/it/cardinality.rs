//! Kind of fault: one series for each key, which fills whoever collects, and shows keys to everybody who
//! may look at a dashboard.

use idempotency_core::{
    BeginOutcome, Fingerprint, Idempotency, IdempotencyKey, Measurement, Never, Observer, Scope,
    Source,
};
use idempotency_memory::MemoryStore;

use crate::support::Recorded;

#[tokio::test]
async fn ten_thousand_keys_make_no_more_series_than_one() {
    let recorded = Recorded::new();
    let idempotency = Idempotency::builder(MemoryStore::new().connected())
        .observer(recorded.observer.clone())
        .build()
        .unwrap();
    let (mut after_one, mut executed, mut shown) = (None, 0.0, String::new());
    for number in 0..10_000 {
        let scope = Scope::new(format!("hush-scope-{number}")).unwrap();
        let key = IdempotencyKey::random(&scope).unwrap();
        let request = Fingerprint::of_bytes(key.key());
        let work = async |_| Ok::<_, Never>("hush-answer".to_owned());
        let _any = idempotency.run(&key, request, work).await.unwrap();
        if number % 5_000 == 0 {
            let series = recorded.series();
            after_one.get_or_insert(series.len());
            executed += series[FIRST];
            shown.push_str(&series.into_keys().collect::<Vec<_>>().join("\n"));
            assert!(!shown.contains(&key.digest().to_string()));
        }
    }
    let series = recorded.series();
    assert_eq!(Some(series.len()), after_one);
    assert!(series.len() < 200, "{}", series.len());
    assert!(!shown.contains("hush"), "{shown}");
    assert!(!format!("{:?} {idempotency:?}", recorded.observer).contains("hush"));
    assert!((executed + series[FIRST] - 10_000.0).abs() < 0.5);
}

const FIRST: &str = "idempotency_requests_total{backend=memory,profile=none,outcome=first}";

/// Labels of executors are few by their type, but a program can still make them up.
#[test]
fn labels_that_are_made_up_share_one_series_in_the_end() {
    let recorded = Recorded::new();
    let tell = |label: &'static str| {
        let begun =
            Measurement::Begun { outcome: BeginOutcome::First, elapsed: std::time::Duration::ZERO };
        recorded.observer.measure(Source { store: "memory", label }, begun);
    };
    let count = || {
        let series = recorded.series();
        let first = |name: &&String| {
            name.starts_with("idempotency_requests_total") && name.contains("outcome=first")
        };
        (series.keys().filter(first).count(), series)
    };
    for number in 0..1_000 {
        tell(Box::leak(format!("label-{number}").into_boxed_str()));
    }
    let (sources, series) = count();
    assert_eq!(sources, 65);
    let others = series["idempotency_requests_total{backend=other,profile=other,outcome=first}"];
    assert!((others - 936.0).abs() < 0.5, "{others}");
    // the first ones keep their own
    tell("label-3");
    let (sources, series) = count();
    let third = series["idempotency_requests_total{backend=memory,profile=label-3,outcome=first}"];
    assert!((third - 1.0).abs() < 0.5 && sources == 65, "{third}");
}
