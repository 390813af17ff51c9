//! A shop's checkout page, and the route it pays through.
//!
//! The page has no secret: the shop's server is the account. A browser sends the request across origins
//! only after a preflight, which is not answered here, because of its content type and its key.

use axum::{
    Router,
    extract::Request,
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use http::{HeaderName, HeaderValue, header};

use crate::{account::Account, sandbox::Sandbox};

/// Nothing from elsewhere, nothing inline, no frames, no form that leaves the page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'";

const HEADERS: [(HeaderName, &str); 4] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-cache"),
];

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

/// The page and what it is made of.
pub(crate) fn page() -> Router<Sandbox> {
    let file = |kind: &'static str, text: &'static str| {
        get(move || async move { ([(header::CONTENT_TYPE, kind)], text) })
    };
    Router::new()
        .route("/", file(HTML, include_str!("page.html")))
        .route("/checkout/page.css", file(CSS, include_str!("page.css")))
        .route("/checkout/page.js", file(JAVASCRIPT, include_str!("page.js")))
        .route("/checkout/payment.js", file(JAVASCRIPT, include_str!("payment.js")))
        .route("/checkout/ledger.js", file(JAVASCRIPT, include_str!("ledger.js")))
        .route_layer(middleware::map_response(async |response: Response| {
            let headers = HEADERS.map(|(name, value)| (name, HeaderValue::from_static(value)));
            (headers, response).into_response()
        }))
}

/// The shop's own account, for whoever uses its page: in the place of authentication.
pub(crate) async fn as_the_shop(mut request: Request, next: Next) -> Response {
    if let Some(account) = Account::named("leaf_and_kettle") {
        request.extensions_mut().insert(account);
    }
    next.run(request).await
}
