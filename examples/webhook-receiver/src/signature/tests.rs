use http::HeaderValue;

use super::*;
use crate::Secret;

const STANDARD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const STRIPE: &str = "whsec_test_secret";
const BODY: &[u8] = br#"{"test": 2432232314}"#;

fn gate(scheme: Scheme, secrets: &[&str]) -> Gate {
    let keys = secrets.iter().map(|text| {
        let secret: Secret = text.parse().unwrap();
        match scheme {
            Scheme::Standard => secret.standard().unwrap(),
            Scheme::Stripe => secret.stripe().unwrap(),
        }
    });
    let body_timeout = Duration::from_secs(10);
    Gate { scheme, keys: keys.collect(), body_timeout, clock: SystemClock::new() }
}

fn check(gate: &Gate, headers: &HeaderMap, body: &Bytes) -> Result<(), Refused> {
    gate.verify(&gate.signed(headers)?, body)
}

fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
    lines
        .iter()
        .map(|(name, v)| (name.parse().unwrap(), v.parse::<HeaderValue>().unwrap()))
        .collect()
}

/// Signatures that other programs have made: the example of Standard Webhooks, and one made with Python.
#[tokio::test]
async fn signatures_are_read_and_worked_out_as_the_senders_do_it() {
    let sent = headers(&[
        ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
        ("webhook-timestamp", "1614265330"),
        ("webhook-signature", "v1a,AAAA v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
    ]);
    let signed = standard::read(&sent).unwrap();
    let key = gate(Scheme::Standard, &[STANDARD]).keys.remove(0);
    let mac = key.chain_update(&signed.prefix).chain_update(BODY);
    assert!(mac.verify_slice(&signed.signatures[0]).is_ok());

    let hex = "799c4ba7bb339f3c8601adfd112f0e477c930a268be1243d341abb8286501c2f";
    let sent = headers(&[("stripe-signature", &format!("t=1492774577,v0=6f,v1={hex}"))]);
    let signed = stripe::read(&sent).unwrap();
    let key = gate(Scheme::Stripe, &[STRIPE]).keys.remove(0);
    let mac = key.chain_update(&signed.prefix).chain_update(br#"{"id":"evt_1"}"#);
    assert!(mac.verify_slice(&signed.signatures[0]).is_ok());
}

#[tokio::test]
async fn what_is_old_forged_or_not_signed_does_not_pass() {
    let gate = gate(Scheme::Standard, &["whsec_b2xkIHNlY3JldCBvbGQgc2VjcmV0IG9sZA==", STANDARD]);
    let now = gate.clock.now().as_unix_millis() / 1_000;
    let body = Bytes::from_static(BODY);
    let signed = |at: u64, body: &[u8]| {
        let mac = gate.keys[1].clone().chain_update(format!("msg_1.{at}.")).chain_update(body);
        let signature =
            base64::Engine::encode(&base64::prelude::BASE64_STANDARD, mac.finalize().into_bytes());
        headers(&[
            ("webhook-id", "msg_1"),
            ("webhook-timestamp", &at.to_string()),
            ("webhook-signature", &format!("v1,bm90aGluZw== v1,{signature}")),
        ])
    };
    assert_eq!(check(&gate, &signed(now, BODY), &body), Ok(()));
    assert_eq!(check(&gate, &signed(now, b"other"), &body), Err(Refused::Forged));
    for far in [now - 400, now + 400] {
        assert_eq!(check(&gate, &signed(far, BODY), &body), Err(Refused::Stale));
    }
    let good = signed(now, BODY);
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        let mut without = good.clone();
        without.remove(name);
        assert_eq!(check(&gate, &without, &body), Err(Refused::Missing), "{name}");
    }
    let mut other_id = good.clone();
    other_id.insert("webhook-id", HeaderValue::from_static("msg_2"));
    assert_eq!(check(&gate, &other_id, &body), Err(Refused::Forged));
    for (name, value) in [("webhook-timestamp", "soon"), ("webhook-signature", "v1,?")] {
        let mut garbled = good.clone();
        garbled.insert(name, value.parse().unwrap());
        assert_eq!(check(&gate, &garbled, &body), Err(Refused::Missing), "{name}");
    }
}
