//! Who is asking.

use axum::{
    extract::Request,
    middleware::Next,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts};
use idempotency::Scope;

use crate::problem;

/// An account, whichever of its tokens was used.
#[derive(Clone, Debug)]
pub(crate) struct Account(Scope);

impl Account {
    pub(crate) fn name(&self) -> &str {
        self.0.name().unwrap_or_default()
    }

    /// An account that needs no token: the service's own.
    pub(crate) fn named(name: &'static str) -> Option<Self> {
        Scope::new(name).ok().map(Self)
    }

    /// Of `Bearer sk_test_ACCOUNT`, or of a rotated token, `Bearer sk_test_ACCOUNT_N`.
    fn of(headers: &HeaderMap) -> Option<Self> {
        let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
        let token = value.strip_prefix("Bearer ")?.strip_prefix("sk_test_")?;
        let account = match token.rsplit_once('_') {
            Some((account, rotation)) if is_number(rotation) => account,
            _ => token,
        };
        Scope::new(account).ok().map(Self)
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Refuses whoever has no account. Stands outside the idempotency layer, so that replays pass it too.
pub(crate) async fn authenticate(mut request: Request, next: Next) -> Response {
    let Some(account) = Account::of(request.headers()) else {
        let detail = "Send a test token: `Authorization: Bearer sk_test_ACCOUNT`.";
        let refused = problem::new(StatusCode::UNAUTHORIZED, "unauthenticated", detail);
        let mut response = refused.into_response();
        let challenge = HeaderValue::from_static("Bearer realm=\"payments\"");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        return response;
    };
    request.extensions_mut().insert(account);
    next.run(request).await
}

/// Whose keys a request uses: the account's, not the token's.
pub(crate) fn scope_of(request: &Parts) -> Option<Scope> {
    request.extensions.get::<Account>().map(|account| account.0.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kind of fault: a rotated credential is a new owner (H-34), or all callers share one (H-33).
    #[test]
    fn a_token_names_its_account() {
        let account = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, HeaderValue::from_static(value));
            Account::of(&headers).map(|account| account.name().to_owned())
        };
        for (value, name) in [
            ("Bearer sk_test_acme", Some("acme")),
            ("Bearer sk_test_acme_2", Some("acme")),
            ("Bearer sk_test_acme_shop_12", Some("acme_shop")),
            ("Bearer sk_test_acme_shop", Some("acme_shop")),
            ("Bearer sk_test_acme_", Some("acme_")),
            ("Bearer sk_test_", None),
            ("Bearer sk_test__2", None),
            ("Bearer sk_live_acme", None),
            ("Basic sk_test_acme", None),
            ("", None),
        ] {
            assert_eq!(account(value).as_deref(), name, "{value}");
        }
    }
}
