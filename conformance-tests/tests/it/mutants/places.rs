//! Faults of places: C34, C35.

use idempotency_conformance::Clause::{C34, C35};
use idempotency_core::{IdempotencyKey, Namespace, StorageKey};

use super::Mutant;

fn scope(key: &IdempotencyKey) -> &str {
    key.scope_name().unwrap_or("")
}

/// A store whose records do not name their key cannot notice that it reads another's.
fn nameless(_: &Namespace, _: &IdempotencyKey) -> StorageKey {
    let key = IdempotencyKey::new("any", "any").unwrap();
    Namespace::default().storage_key(&key)
}

macro_rules! kept_at {
    ($name:literal, $place:expr) => {
        Mutant::of($name, C34, |rules| {
            rules.place = $place;
            rules.name = nameless;
        })
    };
}

pub(crate) fn mutants() -> Vec<Mutant> {
    vec![
        kept_at!("scope and key are joined with a separator", |namespace, key| {
            format!("{}:{}:{}", namespace.name(), scope(key), key.key())
        }),
        kept_at!("scope and key are joined with nothing", |namespace, key| {
            format!("{}/{}{}", namespace.name(), scope(key), key.key())
        }),
        kept_at!("the scope is left out", |namespace, key| {
            format!("{}/{}", namespace.name(), key.key())
        }),
        kept_at!("keys are cut at 128 bytes", |namespace, key| {
            let place = namespace.storage_key(key).as_str().to_owned();
            let (front, name) = place.rsplit_once('/').unwrap();
            format!("{front}/{}", name.get(..128).unwrap_or(name))
        }),
        kept_at!("keys are compared without case", |namespace, key| {
            namespace.storage_key(key).as_str().to_lowercase()
        }),
        kept_at!("blanks at the end are ignored", |namespace, key| {
            let key = IdempotencyKey::new(scope(key), key.key().trim_end());
            key.map_or_else(
                |_| "?".to_owned(),
                |key| namespace.storage_key(&key).as_str().to_owned(),
            )
        }),
        kept_at!("what is not ASCII is dropped", |namespace, key| {
            let ascii: String = key.key().chars().filter(char::is_ascii).collect();
            format!("{}/{}/{}-{}", namespace.name(), scope(key), ascii.len(), ascii)
        }),
        kept_at!("the namespace is left out", |_, key| {
            Namespace::default().storage_key(key).as_str().to_owned()
        }),
        Mutant::of("the record of another key is an answer", C35, |rules| rules.name = nameless),
    ]
}
