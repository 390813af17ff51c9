//! Keys, scopes and namespaces that never meet: C34.

use std::{
    collections::{HashMap, HashSet},
    sync::OnceLock,
};

use futures_util::{StreamExt, TryStreamExt, future::try_join_all, stream};
use idempotency_core::{ClaimOutcome, FinishOutcome, IdempotencyKey, Namespace, Scope};

use super::prelude::*;
use crate::subject::named;

/// Each of `keys` is acquired, although the others are held.
async fn are_apart(t: &Subject, keys: Vec<IdempotencyKey>) -> Verdict {
    let claims = keys.into_iter().map(|key| async move {
        let outcome = t.caller(&key).asking(&format!("{key:?}")).claim().await?;
        let acquired = matches!(outcome, ClaimOutcome::Acquired(_));
        let rule = "Acquired: nobody else has this key";
        check("a claim", rule, Holds(acquired), (Shown(&key), outcome))
    });
    stream::iter(claims).buffer_unordered(32).try_collect().await
}

/// A key of the suite's own, in plain sight.
struct Shown<'a>(&'a IdempotencyKey);

impl std::fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} of {:?}", self.0.key(), self.0.scope_name())
    }
}

pub(crate) async fn keys_of_every_length_are_apart(t: &Subject) -> Verdict {
    let keys = (1..=255).map(|length| named("conformance", &"k".repeat(length)));
    are_apart(t, keys.collect::<Verdict<_>>()?).await
}

pub(crate) async fn the_longest_keys_differ_in_their_last_byte(t: &Subject) -> Verdict {
    let (scope, key) = ("s".repeat(254), "k".repeat(254));
    let pairs = [("a", "a"), ("a", "b"), ("b", "a"), ("b", "b")];
    let keys = pairs.map(|(s, k)| named(&(scope.clone() + s), &(key.clone() + k)));
    are_apart(t, keys.into_iter().collect::<Verdict<_>>()?).await
}

/// Kind of fault: bytes outside ASCII (H-30), case and blanks that a collation ignores.
pub(crate) async fn keys_that_look_alike_are_apart(t: &Subject) -> Verdict {
    let alike = [
        "a",
        "A",
        "a ",
        " a",
        "ä",
        "a\u{308}",
        "Ä",
        "ａ",
        "а",
        "ß",
        "ss",
        "ẞ",
        "ı",
        "i",
        "İ",
        "I",
        "1",
        "01",
        "1.0",
        "1e0",
        "🔑",
        "🔑\u{fe0f}",
        "\u{feff}a",
        "a\u{200b}",
        "é",
        "e\u{301}",
        "\"a\"",
        "'a'",
        "a'--",
        "null",
        "NULL",
        "*",
        "?",
        "[a]",
        "a\\",
        "a\\\\",
        "%61",
        "a%",
    ];
    let keys = alike.map(|key| named("conformance", key));
    are_apart(t, keys.into_iter().collect::<Verdict<_>>()?).await
}

pub(crate) async fn scopes_that_look_alike_are_apart(t: &Subject) -> Verdict {
    let alike = ["a", "A", "a ", "ä", "a\u{308}", "*", "%61", "null", "global", "{a}", "a/"];
    let mut keys =
        alike.map(|scope| named(scope, "key")).into_iter().collect::<Verdict<Vec<_>>>()?;
    keys.extend(IdempotencyKey::new(Scope::global(), "key"));
    are_apart(t, keys).await
}

/// Kind of fault: scope and key glued with a separator (H-32).
pub(crate) async fn pairs_that_a_naive_join_confuses_are_apart(t: &Subject) -> Verdict {
    let mut pairs = HashSet::new();
    for separator in [":", "/", "%", "{}", "|", "#", "::", "_", "-", ".", " ", "\u{1f511}", ""] {
        for parts in [["a", "b", "c"], ["a", "", "c"], ["a", "a", "a"]] {
            let [x, y, z] = parts;
            let (front, back) = ([x, separator, y].concat(), [y, separator, z].concat());
            pairs.insert((front.clone(), z.to_owned()));
            pairs.insert((x.to_owned(), back.clone()));
            pairs.insert((front + separator, back));
        }
    }
    let pairs = pairs.into_iter().filter(|(scope, key)| !scope.is_empty() && !key.is_empty());
    let keys = pairs.map(|(scope, key)| named(&scope, &key));
    are_apart(t, keys.collect::<Verdict<_>>()?).await
}

/// A short text out of what naive joins separate with.
fn tricky(random: &mut fastrand::Rng) -> String {
    let alphabet = [":", "/", "%", "{", "}", "a", "b", "|", "#", "2f", "é"];
    let length = random.usize(1..=3);
    (0..length).filter_map(|_| random.choice(alphabet)).collect()
}

pub(crate) async fn random_keys_are_apart(t: &Subject) -> Verdict {
    let other = t.sibling().await?;
    for t in [t, &other] {
        let pairs: HashSet<_> =
            (0..t.count(300)).map(|_| t.draw(|random| (tricky(random), tricky(random)))).collect();
        let keys = pairs.iter().map(|(scope, key)| named(scope, key));
        are_apart(t, keys.collect::<Verdict<_>>()?).await?;
    }
    Ok(())
}

/// Kind of fault: a key space shared by all callers (H-33).
pub(crate) async fn namespaces_never_meet(t: &Subject) -> Verdict {
    let other = t.sibling().await?;
    let key = t.key()?;
    let here = t.holder(&key).await?;
    same("lookup in the other namespace", &other.record(&key).await?, &None)?;
    let there = other.caller(&key).asking("something else").acquire().await?;
    same("complete", &here.complete("here").await?, &FinishOutcome::Done)?;
    same("complete", &there.complete("there").await?, &FinishOutcome::Done)?;
    let answers = try_join_all([here.replayed(), there.replayed()]).await?;
    let answers: Vec<_> = answers.iter().map(|replay| &replay.response[..]).collect();
    same("the responses", &answers, &vec![&b"here"[..], b"there"])
}

/// A hundred thousand random triples, once a process: where two are kept at the same place, they
/// must be the same triple, and no place selects a hash tag of Redis Cluster.
pub(crate) async fn a_hundred_thousand_random_triples_have_places_of_their_own(
    _: &Subject,
) -> Verdict {
    static RESULT: OnceLock<Verdict> = OnceLock::new();
    RESULT.get_or_init(places_are_injective).clone()
}

fn places_are_injective() -> Verdict {
    let mut random = fastrand::Rng::with_seed(34);
    let names = ["a", "a.b", "b", "a-b", "a_b"];
    let mut places = HashMap::new();
    for _ in 0..100_000 {
        let name = random.choice(names).unwrap_or("a");
        let (scope, key) = (tricky(&mut random), tricky(&mut random));
        let namespace = Namespace::new(name).unwrap_or_default();
        let place = namespace.storage_key(&named(&scope, &key)?).as_str().to_owned();
        let tag = Holds(!place.contains('{'));
        check("a storage key", "no hash tag", tag, &place)?;
        let triple = (name, scope, key);
        if let Some(other) = places.insert(place, triple.clone()) {
            same("the triples at one place", &triple, &other)?;
        }
    }
    Ok(())
}
