//! The page `docs/profiles.md`, written from the profiles.

use std::fmt::Write;

use super::*;

const HEAD: &str = "# Profiles\n\n\
    A profile is how one API defines idempotency over HTTP: `IdempotencyLayer::profile(Profile::stripe())`.\n\
    Each is a value of plain fields: take one and change what is different with you.\n\n\
    What stands in _italics_ is not documented by the provider, or not in public: there our default\n\
    holds. This page is written from the profiles by a test\n\
    (`UPDATE_DOCS=1 cargo test -p idempotency-tower --lib profile`), which fails when it is out of date.\n\
    What each profile answers to the same twelve exchanges is in `idempotency-tower/tests/http/profiles.golden`.\n\n";

const FINAL: &str = "Final by default: 200 to 499 other than 401, 403, 408, 425 and 429. What is not final runs again at\n\
    the next try. A retention of _24 h_ and what is final come from the executor where the profile says\n\
    nothing. Answers that are stored also have `idempotency-expires`, which is ours.\n\n";

/// A cell: in italics where it is ours.
fn cell(profile: &Profile, fact: Fact, text: &str) -> String {
    if profile.documents(fact) { text.into() } else { format!("_{text}_") }
}

fn key_rule(rule: KeyRule) -> String {
    match rule.text {
        KeyText::Printable => format!("at most {} bytes", rule.max_bytes),
        KeyText::Uuid => "a UUID".into(),
    }
}

fn presence(presence: Presence) -> &'static str {
    match presence {
        Presence::Optional => "optional",
        Presence::Required => "required",
        Presence::Off => "off",
    }
}

fn methods(profile: &Profile) -> String {
    let names: Vec<_> = profile.methods.iter().map(Method::as_str).collect();
    names.join(", ")
}

fn compared(body: ComparedBody) -> &'static str {
    match body {
        ComparedBody::Bytes => "its bytes",
        ComparedBody::Json => "its JSON",
        ComparedBody::Nothing => "no",
    }
}

fn retention(profile: &Profile) -> String {
    let hours = profile.retention.unwrap_or(Retention::DEFAULT).get().as_secs() / 3600;
    if hours > 24 { format!("{} days", hours / 24) } else { format!("{hours} h") }
}

fn stored(profile: &Profile) -> String {
    let policy = match profile.result_policy {
        None | Some(ResultPolicy::Transient) => "default",
        Some(ResultPolicy::All) => "all",
        Some(ResultPolicy::SuccessOnly) => "2xx",
    };
    let never: Vec<_> = profile.never_final.iter().map(StatusCode::as_str).collect();
    if never.is_empty() { policy.into() } else { format!("{policy} but {}", never.join(", ")) }
}

fn answer(status: StatusCode, code: Option<&str>) -> String {
    match code {
        None => status.as_str().into(),
        Some(code) => format!("{} `{code}`", status.as_str()),
    }
}

fn markers(markers: &Markers) -> String {
    let mut names = Vec::new();
    let line = |(name, value): &(HeaderName, HeaderValue)| {
        format!("`{name}: {}`", value.to_str().unwrap())
    };
    names.extend(markers.replayed.as_ref().map(line));
    names.extend(markers.original.as_ref().map(|(_, name)| format!("`{name}`")));
    names.extend(markers.key.as_ref().map(|name| format!("`{name}` (the key)")));
    names.extend(markers.transient.as_ref().map(|header| format!("{} on refusals", line(header))));
    names.join(", ")
}

fn page() -> String {
    let mut text = HEAD.to_owned();
    text.push_str(
        "## Requests\n\n\
         | profile | key in | which keys | key is | methods | body compared | kept for |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for profile in &Profile::all() {
        let cell = |fact, text: &str| cell(profile, fact, text);
        writeln!(
            text,
            "| `{}` | {} | {} | {} | {} | {} | {} |",
            profile.name,
            cell(Fact::KeySource, &profile.key_source.place()),
            cell(Fact::KeyRule, &key_rule(profile.key_rule)),
            cell(Fact::Presence, presence(profile.presence)),
            cell(Fact::Methods, &methods(profile)),
            cell(Fact::ComparedBody, compared(profile.compared_body)),
            cell(Fact::Retention, &retention(profile)),
        )
        .unwrap();
    }
    text.push_str(
        "\n## Answers\n\n\
         | profile | without a key | key reused | first still runs | store down | final | markers |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for profile in &Profile::all() {
        let cell = |fact, text: &str| cell(profile, fact, text);
        let Profile { statuses, codes, .. } = profile;
        let down = answer(StatusCode::SERVICE_UNAVAILABLE, codes.store_unavailable.as_deref());
        writeln!(
            text,
            "| `{}` | {} | {} | {} | {} | {} | {} |",
            profile.name,
            cell(Fact::KeyMissing, &answer(statuses.key_missing, codes.key_missing.as_deref())),
            cell(Fact::Mismatch, &answer(statuses.mismatch, codes.mismatch.as_deref())),
            cell(Fact::InProgress, &answer(statuses.in_progress, codes.in_progress.as_deref())),
            cell(Fact::StoreUnavailable, &down),
            cell(Fact::Stored, &stored(profile)),
            cell(Fact::Markers, &markers(&profile.markers)),
        )
        .unwrap();
    }
    text.push('\n');
    text.push_str(FINAL);
    text.push_str("## Sources and differences\n");
    for profile in &Profile::all() {
        write!(text, "\n`{}`: <{}>\n", profile.name, profile.source()).unwrap();
        for (number, note) in profile.notes().iter().enumerate() {
            let gap = if number == 0 { "\n" } else { "" };
            writeln!(text, "{gap}- {note}").unwrap();
        }
    }
    text
}

#[test]
fn the_page_of_profiles_says_what_the_profiles_are() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/profiles.md");
    let text = page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(written, text, "docs/profiles.md is out of date: run with UPDATE_DOCS=1");
}

/// A retention that could not be made would be the executor's, and the page would not show it.
#[test]
fn every_documented_retention_is_there() {
    for profile in Profile::all() {
        assert!(!profile.documents(Fact::Retention) || profile.retention.is_some());
        assert!(profile.key_rule.max_bytes <= 255, "{}", profile.name);
        assert!(profile.source().starts_with("https://"), "{}", profile.name);
    }
}
