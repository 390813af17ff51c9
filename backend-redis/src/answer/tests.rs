use idempotency_core::{
    ClaimToken, Effect, Fingerprint, IdempotencyKey, Lease, Retention, Takeover,
};

use super::*;

fn bulk(bytes: impl AsRef<[u8]>) -> Value {
    Value::BulkString(bytes.as_ref().to_vec())
}

fn about(letter: &[u8], name: Name) -> Value {
    bulk([letter, &name.0].concat())
}

const NAME: Name = Name([b'n'; 16]);
const OTHER: Name = Name([b'!'; 16]);

#[test]
fn letters_are_answers() {
    assert_eq!(complete(NAME, about(b"", NAME)).unwrap(), FinishOutcome::Done);
    assert_eq!(complete(OTHER, about(b"", OTHER)).unwrap(), FinishOutcome::Done);
    assert_eq!(complete(NAME, about(b"R", NAME)).unwrap(), FinishOutcome::Restored);
    assert_eq!(complete(NAME, about(b"L", NAME)).unwrap(), FinishOutcome::Lost);
    assert_eq!(release(NAME, about(b"R", NAME)).unwrap(), ReleaseOutcome::Released);
    assert_eq!(release(NAME, about(b"L", NAME)).unwrap(), ReleaseOutcome::Lost);
    assert_eq!(settle(NAME, about(b"A", NAME)).unwrap(), SettleOutcome::StillRunning);
    assert_eq!(remove(NAME, about(b"S", NAME)).unwrap(), RemoveOutcome::Removed);
    let held = bulk([b"H".as_slice(), &NAME.0, &700_u64.to_be_bytes()].concat());
    let lease_remaining = Duration::from_millis(700);
    assert_eq!(renew(NAME, held).unwrap(), RenewOutcome::Held { lease_remaining });
    assert!(watch(Value::Int(1)).unwrap() && !watch(Value::Int(0)).unwrap());
}

/// C35. Kind of fault: replies shifted to the wrong request (H-48).
#[test]
fn a_reply_about_another_key_is_an_error_of_unknown_effect() {
    let errors = [
        complete(NAME, about(b"", OTHER)).map(drop).unwrap_err(),
        complete(NAME, about(b"L", OTHER)).map(drop).unwrap_err(),
        renew(NAME, about(b"L", OTHER)).map(drop).unwrap_err(),
        release(NAME, about(b"R", OTHER)).map(drop).unwrap_err(),
        settle(NAME, about(b"S", OTHER)).map(drop).unwrap_err(),
        remove(NAME, about(b"S", OTHER)).map(drop).unwrap_err(),
        complete(NAME, Value::Int(3)).map(drop).unwrap_err(),
        renew(NAME, Value::Nil).map(drop).unwrap_err(),
        release(NAME, about(b"?", NAME)).map(drop).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.effect(), Effect::Unknown, "{error}");
    }
}

#[test]
fn what_a_script_cannot_read_is_corrupt_with_no_effect() {
    let lengths = [b"!L".as_slice(), &100_u32.to_be_bytes(), &120_u32.to_be_bytes()].concat();
    for (reply, words) in [
        (bulk("!F"), "not an idempotency record"),
        (bulk("!V\x07"), "format 7"),
        (bulk("!K"), "another key"),
        (bulk("!E"), "expiry"),
        (bulk(lengths), "100 bytes that should have 120"),
    ] {
        let error = renew(NAME, reply.clone()).unwrap_err();
        assert_eq!((error.kind(), error.effect()), (ErrorKind::Corrupt, Effect::None));
        assert!(error.to_string().contains(words), "{error}");
        assert!(lookup(Operation::Lookup, NAME, reply).unwrap_err().to_string().contains(words));
    }
}

/// C03. The time that is left can be that of somebody who took over between the two commands: an owner must not
/// be told that its lease has so much left.
#[test]
fn of_the_hot_path_only_what_no_other_time_makes_dangerous_is_an_answer() {
    let key = IdempotencyKey::new("shop", "k").unwrap();
    let claim = |token| ClaimRequest {
        key: &key,
        fingerprint: Fingerprint::of_bytes("the request"),
        token: ClaimToken::from_stored_bytes([token; 16]),
        lease: Lease::DEFAULT,
        retention: Retention::DEFAULT,
        takeover: Takeover::Allow,
    };
    let life = i64::try_from(wire::millis(wire::life_of_claim(&claim(1)))).unwrap();
    let hot = |request: &ClaimRequest<'_>, left| {
        let found = bulk(wire::first_attempt(NAME, &claim(1)));
        hot_claim(request, NAME, [found, Value::Int(left)]).unwrap()
    };
    assert!(matches!(hot(&claim(1), life), Hot::AskTheScript));
    assert!(matches!(hot(&claim(2), life), Hot::Answer(ClaimOutcome::InProgress(_))));
    assert!(matches!(hot(&claim(2), 1), Hot::AskTheScript));
    let other = ClaimRequest { fingerprint: Fingerprint::of_bytes("another"), ..claim(1) };
    assert!(matches!(hot(&other, life), Hot::Answer(ClaimOutcome::Mismatch(_))));
    let fresh = hot_claim(&claim(1), NAME, [Value::Nil, Value::Int(life)]).unwrap();
    assert!(matches!(fresh, Hot::Answer(ClaimOutcome::Acquired(_))));
}
