use base64::{Engine, prelude::BASE64_STANDARD};
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// The value of `webhook-signature`: `v1,` and the HMAC of `ID.TIMESTAMP.BODY` in base64.
pub(super) fn of(key: &Hmac<Sha256>, id: &str, unix_seconds: &str, body: &[u8]) -> String {
    let parts = [id.as_bytes(), unix_seconds.as_bytes(), body];
    let mac = parts.iter().enumerate().fold(key.clone(), |mac, (number, part)| {
        let mac = if number == 0 { mac } else { mac.chain_update(b".") };
        mac.chain_update(part)
    });
    format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhooks::Secret;

    /// The example of the specification, worked out with another program.
    #[test]
    fn the_example_of_the_specification_is_signed_as_it_says() {
        let secret: Secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().unwrap();
        let id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
        let signed = of(&secret.key().unwrap(), id, "1614265330", br#"{"test": 2432232314}"#);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_secret_that_is_none_is_refused_and_no_secret_is_shown() {
        for bad in ["", "whsec_", "whsec_dG9vIHNob3J0", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"] {
            let secret: Secret = bad.parse().unwrap();
            let refused = secret.key().unwrap_err().to_string();
            assert!(refused.contains("openssl"), "{refused}");
            assert_eq!(format!("{secret:?}"), "Secret(…)");
        }
    }
}
