use std::time::Duration;

use idempotency_core::{
    AttemptNumber, BeginOutcome, ErrorKind, Event, EventKind, Measurement, Observer, Operation,
    Release, TurnedAway,
};

use crate::support::{Recorded, SOURCE, key};

fn moved_by(event: EventKind, attempt: u32) -> Vec<String> {
    let (recorded, key) = (Recorded::new(), key("k"));
    let mut event = Event::new(event, SOURCE, &key);
    event.attempt = AttemptNumber::new(attempt);
    event.first_attempt_ago = Some(Duration::from_secs(7));
    recorded.observer.observe(&event);
    recorded.moved()
}

fn measured_by(measurement: Measurement) -> Vec<String> {
    let recorded = Recorded::new();
    recorded.observer.measure(SOURCE, measurement);
    recorded.moved()
}

/// Each event moves what the table says, and nothing else.
#[test]
fn every_event_moves_its_metrics_and_no_other() {
    let cases: &[(EventKind, &[&str])] = &[
        // measured as requests, with all others that are told nothing of the kind
        (EventKind::Acquired, &[]),
        (EventKind::TakenOver, &[]),
        (EventKind::InProgress, &[]),
        (EventKind::Mismatch, &[]),
        (EventKind::RanUnprotected, &[]),
        (
            EventKind::Replayed,
            &[
                "retry_age_seconds_count{outcome=replayed} +1",
                "retry_age_seconds_sum{outcome=replayed} +7",
            ],
        ),
        (EventKind::Abandoned, &["abandoned_total +1"]),
        (EventKind::Recovered, &["recovered_total +1"]),
        (EventKind::Completed, &["attempts_total{outcome=completed} +1"]),
        (EventKind::NotKept, &["attempts_total{outcome=not_kept} +1"]),
        (EventKind::Restored, &["attempts_total{outcome=restored} +1"]),
        (EventKind::Lost, &["lease_losses_total +1"]),
        (EventKind::Unrecorded, &["attempts_total{outcome=unrecorded} +1"]),
        (EventKind::Released(Release::Failed), &["attempts_total{outcome=failed} +1"]),
        (EventKind::Released(Release::NotStarted), &["attempts_total{outcome=not_started} +1"]),
        (EventKind::Released(Release::Unknown), &["attempts_total{outcome=unknown} +1"]),
        (EventKind::ReleaseFailed(Release::Failed), &["attempts_total{outcome=release_failed} +1"]),
        (EventKind::Dropped, &["attempts_total{outcome=dropped} +1"]),
        (EventKind::HoldLimitReached, &["hold_limits_total +1"]),
        (
            EventKind::StoreFailed(Operation::Renew, ErrorKind::Throttled),
            &["store_errors_total{operation=renew,kind=throttled} +1"],
        ),
        (
            EventKind::StoreFailed(Operation::Sweep, ErrorKind::Full),
            &["store_errors_total{operation=other,kind=full} +1"],
        ),
    ];
    for (event, moves) in cases {
        assert_eq!(moved_by(*event, 1), *moves, "{event:?}");
    }
}

/// The time from the first attempt to a retry that executed is that of later attempts that succeeded.
#[test]
fn a_later_attempt_that_succeeds_is_a_successful_retry() {
    for (event, outcome, is_success) in [
        (EventKind::Completed, "completed", true),
        (EventKind::NotKept, "not_kept", true),
        (EventKind::Restored, "restored", true),
        (EventKind::Unrecorded, "unrecorded", false),
        (EventKind::Released(Release::Failed), "failed", false),
    ] {
        let mut moves = vec![format!("attempts_total{{outcome={outcome}}} +1")];
        if is_success {
            moves.push("retry_age_seconds_count{outcome=executed} +1".into());
            moves.push("retry_age_seconds_sum{outcome=executed} +7".into());
        }
        assert_eq!(moved_by(event, 2), moves, "{event:?}");
    }
}

#[test]
fn every_measurement_moves_its_metrics_and_no_other() {
    let elapsed = Duration::from_millis(1_500);
    for (outcome, name) in [
        (BeginOutcome::First, "first"),
        (BeginOutcome::TakenOver, "taken_over"),
        (BeginOutcome::Replayed, "replayed"),
        (BeginOutcome::InProgress, "in_progress"),
        (BeginOutcome::Mismatch, "mismatch"),
        (BeginOutcome::Unknown, "unknown"),
        (BeginOutcome::Unprotected, "unprotected"),
        (BeginOutcome::Refused, "refused"),
    ] {
        let moved = measured_by(Measurement::Begun { outcome, elapsed });
        assert_eq!(moved, [format!("requests_total{{outcome={name}}} +1")]);
    }
    for (operation, name) in [
        (Operation::Claim, "claim"),
        (Operation::Complete, "complete"),
        (Operation::Renew, "renew"),
        (Operation::Release, "release"),
        (Operation::Lookup, "other"),
    ] {
        for error in [None, Some(ErrorKind::Timeout)] {
            let moved = measured_by(Measurement::StoreCall { operation, error, elapsed });
            let count = format!("store_call_duration_seconds_count{{operation={name}}} +1");
            let sum = format!("store_call_duration_seconds_sum{{operation={name}}} +1.5");
            assert_eq!(moved, [count, sum]);
        }
    }
    assert_eq!(measured_by(Measurement::HoldBegan), ["attempts_in_flight +1"]);
    let ended = ["attempt_duration_seconds_count +1", "attempt_duration_seconds_sum +1.5"];
    assert_eq!(
        measured_by(Measurement::HoldEnded { elapsed }),
        [ended[0], ended[1], "attempts_in_flight -1"]
    );
    assert_eq!(measured_by(Measurement::WaitBegan), ["waiters +1"]);
    assert_eq!(
        measured_by(Measurement::WaitEnded { elapsed }),
        ["wait_duration_seconds_count +1", "wait_duration_seconds_sum +1.5", "waiters -1"]
    );
}

/// Why a request was turned away has a value of its own, that of the problem type it is answered with.
#[test]
fn every_reason_to_turn_away_is_told_apart() {
    for (reason, name) in [
        (TurnedAway::NoPrincipal, "no_principal"),
        (TurnedAway::KeyMissing, "key_missing"),
        (TurnedAway::KeyInvalid, "key_invalid"),
        (TurnedAway::BodyTooLarge, "body_too_large"),
        (TurnedAway::BodyTooSlow, "body_too_slow"),
        (TurnedAway::BodyUnreadable, "body_unreadable"),
        (TurnedAway::Overloaded, "overloaded"),
        (TurnedAway::ShuttingDown, "shutting_down"),
    ] {
        let moved = measured_by(Measurement::TurnedAway { reason });
        assert_eq!(moved, [format!("turned_away_total{{reason={name}}} +1")]);
    }
}

/// Every kind of failure has a value of its own.
#[test]
fn every_kind_of_failure_is_told_apart() {
    for (kind, name) in [
        (ErrorKind::Unavailable, "unavailable"),
        (ErrorKind::Timeout, "timeout"),
        (ErrorKind::Throttled, "throttled"),
        (ErrorKind::Conflict, "conflict"),
        (ErrorKind::Full, "full"),
        (ErrorKind::TooLarge, "too_large"),
        (ErrorKind::Corrupt, "corrupt"),
        (ErrorKind::TokenSpent, "token_spent"),
        (ErrorKind::Invalid, "invalid"),
        (ErrorKind::Denied, "denied"),
        (ErrorKind::Unexpected, "unexpected"),
    ] {
        let moved = moved_by(EventKind::StoreFailed(Operation::Claim, kind), 1);
        assert_eq!(moved, [format!("store_errors_total{{operation=claim,kind={name}}} +1")]);
    }
}
