use std::{fmt::Write, path::Path};

use http_body_util::{BodyExt, Full};
use idempotency_core::{AttemptNumber, Operation, StoreError};

use super::*;

type TestBody = Full<Bytes>;

fn all() -> [Refusal; 24] {
    let running = Running {
        attempt: AttemptNumber::FIRST,
        running_for: Duration::from_millis(2_100),
        lease_remaining: Duration::from_secs(30),
    };
    let too_long = KeyFault::TooLong { bytes: 300, max: 255 };
    [
        Refusal::NoPrincipal,
        Refusal::KeyMissing,
        Refusal::KeyInvalid(KeyFault::Repeated),
        Refusal::KeyInvalid(KeyFault::Empty),
        Refusal::KeyInvalid(too_long),
        Refusal::KeyInvalid(KeyFault::NotPrintable { at: 3 }),
        Refusal::KeyInvalid(KeyFault::NotAString),
        Refusal::KeyInvalid(KeyFault::Parameters),
        Refusal::KeyInvalid(KeyFault::Ambiguous { character: ',' }),
        Refusal::KeyInvalid(KeyFault::NotUuid),
        Refusal::KeyInvalid(KeyFault::NotText),
        Refusal::KeyInvalid(KeyFault::BodyNotJson),
        Refusal::BodyTooLarge { max: 1024 },
        Refusal::BodyTooSlow { limit: Duration::from_secs(30) },
        Refusal::BodyUnreadable,
        Refusal::InProgress(running),
        Refusal::Mismatch,
        Refusal::OutcomeUnknown,
        Refusal::NotKept(NotKeptReason::Stream),
        Refusal::StoreUnavailable,
        Refusal::Overloaded,
        Refusal::ShuttingDown,
        Refusal::RecordUnreadable,
        Refusal::RolledBack,
    ]
}

/// The answers of the `ietf` profile, as clients have come to know them.
#[tokio::test]
async fn refusals_are_answered_as_the_golden_file_says() {
    let mut answers = String::new();
    for refusal in all() {
        let response = refusal.answer_to::<TestBody>(Asking::Http, &Profile::ietf());
        let (head, body) = response.into_parts();
        let retry_after = head.headers.get(header::RETRY_AFTER);
        let retry_after = retry_after.map_or("-", |value| value.to_str().unwrap());
        let content_type = head.headers[header::CONTENT_TYPE].to_str().unwrap();
        let body = body.collect().await.unwrap().to_bytes();
        let body = str::from_utf8(&body).unwrap();
        writeln!(answers, "{} {content_type} retry-after={retry_after}\n{body}\n", head.status)
            .unwrap();
    }
    assert_eq!(answers, include_str!("golden.txt"), "\n{answers}");
}

/// The `type` of a problem leads to a page that explains it.
#[test]
fn every_problem_type_is_explained_in_the_docs() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/problems");
    for refusal in all() {
        let row = refusal.row(&Profile::ietf());
        let page = docs.join(row.name).with_extension("md");
        let text = std::fs::read_to_string(&page).unwrap_or_else(|e| panic!("{page:?}: {e}"));
        assert!(text.contains(row.title), "{page:?}");
    }
}

/// Kind of fault: every failure of the store looks alike to the client (H-15, H-22, H-59).
#[test]
fn only_an_unreadable_record_is_the_servers_error() {
    let error = |kind| Error::Store(StoreError::new(Operation::Claim, kind, "test"));
    let unavailable = [
        ErrorKind::Unavailable,
        ErrorKind::Timeout,
        ErrorKind::Throttled,
        ErrorKind::Conflict,
        ErrorKind::Full,
        ErrorKind::Denied,
    ];
    for kind in unavailable {
        assert_eq!(Refusal::of_error(&error(kind)), Refusal::StoreUnavailable);
    }
    assert_eq!(Refusal::of_error(&error(ErrorKind::Corrupt)), Refusal::RecordUnreadable);
}
