//! Refusals of this service, as problem details (RFC 9457).

use http::{StatusCode, Uri};
use problem_details::ProblemDetails;

/// Absolute, as those of the idempotency layer are: a relative one would mean another problem behind
/// another address of the service. A real service has a page behind each.
const TYPES: &str = "https://payments.example/problems/";

/// A problem of the type NAME.
pub(crate) fn new(
    status: StatusCode,
    name: &'static str,
    detail: impl Into<String>,
) -> ProblemDetails {
    let problem = ProblemDetails::from_status_code(status).with_detail(detail);
    match Uri::try_from(format!("{TYPES}{name}")) {
        Ok(uri) => problem.with_type(uri),
        Err(_) => problem,
    }
}
