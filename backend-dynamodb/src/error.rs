use std::error::Error;

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_dynamodb::{
    config::http::HttpResponse,
    error::{ProvideErrorMetadata, SdkError},
};
use aws_smithy_runtime_api::client::result::{ConstructionFailure, DispatchFailure};
use idempotency_core::{ErrorKind, Operation, StoreError};

/// What kind of failure it is (C50). What may have happened is not said here: the interceptor has seen
/// all tries, this is the last one.
pub(crate) fn classify<E: ProvideErrorMetadata>(
    operation: Operation,
    error: &SdkError<E, HttpResponse>,
) -> StoreError {
    let refusal = match error {
        SdkError::ServiceError(refusal) => refusal,
        SdkError::TimeoutError(_) => {
            return StoreError::new(operation, ErrorKind::Timeout, "no reply in time");
        }
        SdkError::DispatchFailure(failure) if failure.is_timeout() => {
            return StoreError::new(
                operation,
                ErrorKind::Timeout,
                "no connection or reply in time",
            );
        }
        SdkError::DispatchFailure(failure) if failure.is_user() => {
            let detail = "the request could not be sent: is the endpoint a URL, and can the client's \
                connector do its scheme?";
            return StoreError::new(operation, ErrorKind::Invalid, detail);
        }
        SdkError::DispatchFailure(failure) => {
            let (kind, detail) = match credentials(failure) {
                None => (ErrorKind::Unavailable, "the connection to the service failed"),
                Some(
                    CredentialsError::CredentialsNotLoaded(_)
                    | CredentialsError::InvalidConfiguration(_),
                ) => (ErrorKind::Denied, NO_CREDENTIALS),
                Some(_) => (
                    ErrorKind::Unavailable,
                    "the credentials could not be had: what gives them out failed, or did not answer",
                ),
            };
            return StoreError::new(operation, kind, detail);
        }
        SdkError::ConstructionFailure(failure) => return not_sent(operation, failure),
        SdkError::ResponseError(failure) => {
            let status = failure.raw().status().as_u16();
            let kind = if status >= 500 { ErrorKind::Unavailable } else { ErrorKind::Unexpected };
            return StoreError::new(operation, kind, format!("a reply ({status}) without sense"));
        }
        _ => return StoreError::new(operation, ErrorKind::Unexpected, "the driver failed"),
    };
    let code = refusal.err().code().unwrap_or_default();
    let status = refusal.raw().status().as_u16();
    let (kind, detail) = refused(code, refusal.err().message().unwrap_or_default(), status);
    StoreError::new(operation, kind, detail).with_source(Refusal { code: code.to_owned(), status })
}

/// The credentials are asked for when a request is sent, and the driver calls it a failure to connect when
/// there are none.
fn credentials(failure: &DispatchFailure) -> Option<&CredentialsError> {
    let mut cause = failure.as_connector_error().and_then(Error::source);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref() {
            return Some(error);
        }
        cause = error.source();
    }
    None
}

const NO_CREDENTIALS: &str = "there are no credentials to sign requests with: the environment \
     (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY), a profile, or the role of the machine gives them";

/// What the service refused, by its code alone: its message may quote the key.
#[derive(Debug, thiserror::Error)]
#[error("{code} ({status})")]
struct Refusal {
    code: String,
    status: u16,
}

/// A request that never came to be.
fn not_sent(operation: Operation, failure: &ConstructionFailure) -> StoreError {
    // that there is no identity has no type of its own by the time it comes here
    let words = format!("{failure:?}");
    if ["redentials", "dentity"].iter().any(|word| words.contains(word)) {
        return StoreError::new(operation, ErrorKind::Denied, NO_CREDENTIALS);
    }
    let detail = "the driver could not make the request: is the client's configuration whole?";
    StoreError::new(operation, ErrorKind::Invalid, detail)
}

/// The codes: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors.html>
/// and <https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/CommonErrors.html>.
fn refused(code: &str, message: &str, status: u16) -> (ErrorKind, &'static str) {
    match code {
        "ProvisionedThroughputExceededException"
        | "ThrottlingException"
        | "Throttling"
        | "ThrottledException"
        | "RequestLimitExceeded"
        | "SlowDown" => (
            ErrorKind::Throttled,
            "the table, the index or the account has no capacity left for this",
        ),
        "TransactionConflictException"
        | "TransactionInProgressException"
        | "ReplicatedWriteConflictException" => (
            ErrorKind::Conflict,
            "a transaction, or another region, writes the same item at the same time",
        ),
        "TransactionCanceledException" => {
            (ErrorKind::Conflict, "the service cancelled the transaction")
        }
        "ResourceNotFoundException" | "TableNotFoundException" => (
            ErrorKind::Invalid,
            "there is no such table, or no such index: set it up with `create=on` in the store URL, \
             `idempotency schema`, or Schema::create",
        ),
        "ResourceInUseException" | "LimitExceededException" => {
            (ErrorKind::Unavailable, "the table is being changed, or too many are at once")
        }
        "ItemCollectionSizeLimitExceededException" => (
            ErrorKind::Full,
            "the items of this partition key exceed 10 GB, as a local secondary index limits them",
        ),
        "ValidationException" if is_item_size(message) => {
            (ErrorKind::TooLarge, "the item is larger than 400 KB")
        }
        "ValidationException" if message.contains("does not match the schema") => (
            ErrorKind::Invalid,
            "the table's key is another one: name its partition key and its sort key, both texts",
        ),
        "ValidationException" | "SerializationException" => {
            (ErrorKind::Invalid, "the service refuses the request: is the table set up as here?")
        }
        "RequestEntityTooLargeException" | "RequestEntityTooLarge" => {
            (ErrorKind::TooLarge, "the request is too large")
        }
        "ExpiredTokenException" | "ExpiredToken" | "RequestExpired" => {
            (ErrorKind::Denied, "the credentials have expired")
        }
        "UnrecognizedClientException"
        | "InvalidSignatureException"
        | "SignatureDoesNotMatch"
        | "IncompleteSignatureException"
        | "IncompleteSignature"
        | "InvalidClientTokenId"
        | "MissingAuthenticationTokenException"
        | "MissingAuthenticationToken" => (
            ErrorKind::Denied,
            "the service does not know the credentials or refuses the signature (a clock that is \
             minutes off makes a wrong one)",
        ),
        "AccessDeniedException" | "AccessDenied" | "OptInRequired" => {
            (ErrorKind::Denied, "the credentials may not do this with the table")
        }
        code if code.starts_with("KMS") => {
            (ErrorKind::Denied, "the key that encrypts the table cannot be used")
        }
        "InternalServerError" | "InternalFailure" | "InternalServerErrorException" => {
            (ErrorKind::Unavailable, "the service failed")
        }
        "ServiceUnavailable" | "ServiceUnavailableException" => {
            (ErrorKind::Unavailable, "the service is not available")
        }
        "RequestTimeout" | "RequestTimeoutException" => {
            (ErrorKind::Timeout, "the service did not get the whole request in time")
        }
        _ if status == 413 => (ErrorKind::TooLarge, "the request is too large"),
        _ if status == 429 => (ErrorKind::Throttled, "the service asks to slow down"),
        _ if matches!(status, 401 | 403) => (ErrorKind::Denied, "the service denies access"),
        _ if status >= 500 => (ErrorKind::Unavailable, "the service, or a proxy before it, failed"),
        _ => (ErrorKind::Unexpected, "the service refuses the request"),
    }
}

/// "Item size has exceeded …" of a put, "Item size to update has exceeded …" of an update. The service
/// says nearly the same of expressions.
pub(crate) fn is_item_size(message: &str) -> bool {
    message.contains("Item size") && message.contains("exceeded the maximum allowed size")
}

pub(crate) fn conflict(operation: Operation) -> StoreError {
    let detail = "others changed the record in each of the tries";
    StoreError::new(operation, ErrorKind::Conflict, detail)
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
