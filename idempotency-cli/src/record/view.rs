use std::time::Duration;

use comfy_table::{Table, presets::NOTHING};
use idempotency::{
    IdempotencyKey, KeyDigest, ListState, Record, State, Timestamp,
    machine::{self, Now},
};
use serde::Serialize;

use super::answer::AnswerView;
use crate::args::SeenAttempt;

/// A record without its content.
#[derive(Serialize)]
pub(crate) struct RecordView {
    /// None where the store keeps keyed digests only.
    digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    state: &'static str,
    attempt: String,
    first_claimed_at: String,
    claimed_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_until: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    released_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completed_at: Option<String>,
    expires_at: String,
    fingerprint: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint_bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<AnswerView>,
    #[serde(skip)]
    moments: Moments,
}

/// The moments, for people: how long ago, how long still.
struct Moments {
    now: Timestamp,
    first: Timestamp,
    this: Timestamp,
    state: Timestamp,
    expires: Timestamp,
}

/// A key, and whether it is to be shown in clear.
#[derive(Clone, Copy)]
pub(crate) enum Shown<'a> {
    Digest(Option<KeyDigest>),
    Clear(&'a IdempotencyKey),
}

impl RecordView {
    /// `state` is what the store says, or none for what the record says at `now`.
    pub(crate) fn new(
        shown: Shown<'_>,
        record: &Record,
        state: Option<ListState>,
        now: Now,
    ) -> Self {
        let (digest, key) = match shown {
            Shown::Digest(digest) => (digest, None),
            Shown::Clear(key) => (Some(key.digest()), Some(key)),
        };
        let state = state.or_else(|| state_of(record, now));
        let mut view = Self {
            digest: digest.map(|digest| digest.to_string()),
            scope: key.map(|key| key.scope_name().unwrap_or_default().to_owned()),
            key: key.map(|key| key.key().to_owned()),
            state: state.map_or("unused", word),
            attempt: SeenAttempt::from(record).to_string(),
            first_claimed_at: moment(record.first_claimed_at),
            claimed_at: moment(record.claimed_at),
            lease_until: None,
            released_at: None,
            completed_at: None,
            expires_at: moment(record.expires_at),
            fingerprint: fingerprint(record),
            checkpoint_bytes: None,
            response: None,
            moments: Moments {
                now: now.at,
                first: record.first_claimed_at,
                this: record.claimed_at,
                state: record.claimed_at,
                expires: record.expires_at,
            },
        };
        view.set_state(&record.state);
        view
    }

    fn set_state(&mut self, state: &State) {
        match state {
            State::InProgress { lease_until, checkpoint, .. } => {
                self.moments.state = *lease_until;
                self.lease_until = Some(moment(*lease_until));
                self.checkpoint_bytes = checkpoint.as_ref().map(bytes::Bytes::len);
            }
            State::Released { at, checkpoint, .. } => {
                self.moments.state = *at;
                self.released_at = Some(moment(*at));
                self.checkpoint_bytes = checkpoint.as_ref().map(bytes::Bytes::len);
            }
            State::Completed { at, response } => {
                self.moments.state = *at;
                self.completed_at = Some(moment(*at));
                self.response = Some(AnswerView::of(response));
            }
            State::Unused => {}
        }
    }

    /// One fact a line.
    pub(crate) fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_preset(NOTHING);
        let at = |text: &str, moment| format!("{text}, {}", relative(moment, self.moments.now));
        let moments = &self.moments;
        let mut add = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                table.add_row([name.to_owned(), value]);
            }
        };
        add("key", self.digest.as_ref().map(|digest| format!("{digest} (digest)")));
        add("state", Some(self.state.to_owned()));
        add("attempt", Some(self.attempt.clone()));
        add("first attempt", Some(at(&self.first_claimed_at, moments.first)));
        add("this attempt", Some(at(&self.claimed_at, moments.this)));
        let state = |text: &Option<String>| text.as_ref().map(|text| at(text, moments.state));
        add("lease until", state(&self.lease_until));
        add("released", state(&self.released_at));
        add("completed", state(&self.completed_at));
        add("kept until", Some(at(&self.expires_at, moments.expires)));
        add("fingerprint", Some(self.fingerprint.clone()));
        add("checkpoint", self.checkpoint_bytes.map(|bytes| format!("{bytes} bytes")));
        add("response", self.response.as_ref().map(ToString::to_string));
        table
    }

    /// One record a line, in the order of [`HEADER`](Self::HEADER), with scope and key where they
    /// are shown.
    pub(crate) fn row(&self) -> Vec<String> {
        let content = match (&self.response, self.checkpoint_bytes) {
            (Some(response), _) => response.to_string(),
            (None, Some(bytes)) => format!("checkpoint of {bytes} bytes"),
            (None, None) => String::new(),
        };
        let mut row = vec![self.digest.clone().unwrap_or_else(|| "(keyed)".to_owned())];
        row.extend(self.scope.clone().into_iter().chain(self.key.clone()));
        row.extend([
            self.state.to_owned(),
            self.attempt.clone(),
            ago(self.moments.now.since(self.moments.first)),
            ago(self.moments.expires.since(self.moments.now)),
            content,
        ]);
        row
    }

    /// Of a table of rows; `with_keys` as their keys are shown.
    pub(crate) fn header(with_keys: bool) -> Vec<&'static str> {
        let mut header = vec!["key digest"];
        if with_keys {
            header.extend(["scope", "key"]);
        }
        header.extend(["state", "attempt", "age", "kept for", "content"]);
        header
    }
}

/// What the record is at `now`, also when our clock takes it for expired: the store does not.
pub(crate) fn state_of(record: &Record, now: Now) -> Option<ListState> {
    let expires_at = Timestamp::from_unix_millis(u64::MAX);
    machine::list_state(&Record { expires_at, ..record.clone() }, now)
}

const fn word(state: ListState) -> &'static str {
    match state {
        ListState::InProgress => "in-progress",
        ListState::Abandoned => "abandoned",
        ListState::Failed => "failed",
        ListState::Completed => "completed",
    }
}

/// The version and 32 bits of the digest.
fn fingerprint(record: &Record) -> String {
    let [version, a, b, c, d, ..] = record.fingerprint.to_stored_bytes();
    format!("version {version}, {a:02x}{b:02x}{c:02x}{d:02x}…")
}

/// `2026-03-01T12:00:00Z`
fn moment(at: Timestamp) -> String {
    // what humantime can write ends with the year 9999
    const LAST: Duration = Duration::from_secs(253_402_300_799);
    let since_epoch = Duration::from_millis(at.as_unix_millis()).min(LAST);
    humantime::format_rfc3339_seconds(std::time::SystemTime::UNIX_EPOCH + since_epoch).to_string()
}

/// A length of time to a second, or shorter ones to a millisecond.
pub(crate) fn ago(time: Duration) -> String {
    let whole = if time < Duration::from_secs(1) {
        Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    } else {
        Duration::from_secs(time.as_secs())
    };
    humantime::format_duration(whole).to_string()
}

fn relative(at: Timestamp, now: Timestamp) -> String {
    if at > now {
        format!("in {}", ago(at.since(now)))
    } else {
        format!("{} ago", ago(now.since(at)))
    }
}
