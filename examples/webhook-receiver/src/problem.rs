//! Refusals of this service, as problem details (RFC 9457).

use axum::response::{IntoResponse, Response};
use http::{StatusCode, Uri};
use problem_details::ProblemDetails;

/// A problem whose `type` is `/problems/NAME` on this service.
pub(crate) fn response(
    status: StatusCode,
    name: &'static str,
    detail: impl Into<String>,
) -> Response {
    let problem = ProblemDetails::from_status_code(status).with_detail(detail);
    match Uri::try_from(format!("/problems/{name}")) {
        Ok(uri) => problem.with_type(uri).into_response(),
        Err(_) => problem.into_response(),
    }
}
