use super::*;

fn facts(info: &[(&str, &str)], save: Option<&str>) -> Facts {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Facts { info: info.iter().map(own).collect(), save: save.map(str::to_owned), clock_off: 3 }
}

#[test]
fn versions_evictions_persistence_replicas_and_clocks_are_judged() {
    use Severity::{Fine, Hazard, Warning};
    let of = |name, value| facts(&[(name, value)], Some(""));
    for (found, expected) in [
        (version(&of("redis_version", "7.0.15")), Fine),
        (version(&of("redis_version", "6.2.5")), Fine),
        (version(&of("redis_version", "6.0.9")), Hazard),
        (version(&of("redis_version", "")), Hazard),
        (eviction(&of("maxmemory_policy", "noeviction")), Fine),
        (
            eviction(&facts(&[("maxmemory_policy", "volatile-lru"), ("maxmemory", "9")], None)),
            Hazard,
        ),
        (
            eviction(&facts(&[("maxmemory_policy", "volatile-lru"), ("maxmemory", "0")], None)),
            Warning,
        ),
        (persistence(&of("aof_enabled", "1")), Fine),
        (persistence(&facts(&[("aof_enabled", "0")], Some(""))), Hazard),
        (persistence(&facts(&[("aof_enabled", "0")], Some("3600 1"))), Warning),
        (persistence(&facts(&[("aof_enabled", "0")], None)), Warning),
        (replicas(&of("connected_slaves", "0")), Warning),
        (replicas(&of("connected_slaves", "2")), Fine),
        (clock(&Facts::default()), Fine),
        (clock(&Facts { clock_off: 1_001, ..Facts::default() }), Warning),
    ] {
        assert_eq!(found.severity, expected, "{found:?}");
        assert!(!found.subject.is_empty() && !found.advice.is_empty());
    }
}
