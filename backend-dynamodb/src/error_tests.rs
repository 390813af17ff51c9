use aws_sdk_dynamodb::{
    error::{ConnectorError, ErrorMetadata},
    operation::put_item::PutItemError,
};

use super::*;

fn reply(status: u16) -> HttpResponse {
    HttpResponse::new(status.try_into().unwrap(), "".into())
}

fn of_service(code: &str, message: &str, status: u16) -> StoreError {
    let metadata = ErrorMetadata::builder().code(code).message(message).build();
    let error = SdkError::service_error(PutItemError::generic(metadata), reply(status));
    classify(Operation::Claim, &error)
}

#[test]
fn every_code_has_its_kind() {
    use ErrorKind::{
        Conflict, Denied, Full, Invalid, Throttled, Timeout, TooLarge, Unavailable, Unexpected,
    };
    let cases = [
        ("ProvisionedThroughputExceededException", 400, Throttled),
        ("ThrottlingException", 400, Throttled),
        ("RequestLimitExceeded", 400, Throttled),
        ("TransactionConflictException", 400, Conflict),
        ("TransactionInProgressException", 400, Conflict),
        ("ReplicatedWriteConflictException", 400, Conflict),
        ("ResourceNotFoundException", 400, Invalid),
        ("ResourceInUseException", 400, Unavailable),
        ("ItemCollectionSizeLimitExceededException", 400, Full),
        ("ValidationException", 400, Invalid),
        ("SerializationException", 400, Invalid),
        ("ExpiredTokenException", 400, Denied),
        ("UnrecognizedClientException", 400, Denied),
        ("InvalidSignatureException", 400, Denied),
        ("MissingAuthenticationTokenException", 400, Denied),
        ("AccessDeniedException", 400, Denied),
        ("KMSAccessDeniedException", 400, Denied),
        ("InternalServerError", 500, Unavailable),
        ("ServiceUnavailable", 503, Unavailable),
        ("RequestTimeout", 408, Timeout),
        ("", 413, TooLarge),
        ("", 429, Throttled),
        ("", 403, Denied),
        ("", 502, Unavailable),
        ("SomethingNew", 400, Unexpected),
    ];
    for (code, status, kind) in cases {
        assert_eq!(of_service(code, "", status).kind(), kind, "{code} {status}");
    }
    for (what, kind) in
        [("Item size", TooLarge), ("Item size to update", TooLarge), ("Expression size", Invalid)]
    {
        let message = format!("{what} has exceeded the maximum allowed size");
        assert_eq!(of_service("ValidationException", &message, 400).kind(), kind, "{what}");
    }
    let key = "The provided key element does not match the schema";
    let error = of_service("ValidationException", key, 400);
    assert_eq!(error.kind(), Invalid);
    assert!(error.to_string().contains("partition key"), "{error}");
}

/// Kind of fault: a secret in a log line. The service's message may quote a key.
#[test]
fn the_message_of_the_service_is_not_passed_on() {
    let error = of_service("ValidationException", "the key merchant_42/order-7 is wrong", 400);
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(source, "ValidationException (400)");
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains("order-7"), "{shown}");
}

#[test]
fn failures_on_the_way_have_their_kinds() {
    let classify = |error: SdkError<PutItemError, HttpResponse>| {
        super::classify(Operation::Claim, &error).kind()
    };
    let timeout = || ConnectorError::timeout("late".into());
    assert_eq!(classify(SdkError::timeout_error("late")), ErrorKind::Timeout);
    assert_eq!(classify(SdkError::dispatch_failure(timeout())), ErrorKind::Timeout);
    for error in [ConnectorError::io("reset".into()), ConnectorError::other("closed".into(), None)]
    {
        assert_eq!(classify(SdkError::dispatch_failure(error)), ErrorKind::Unavailable);
    }
    // the driver asks for them when it sends
    for (error, kind) in [
        (CredentialsError::not_loaded("none"), ErrorKind::Denied),
        (CredentialsError::invalid_configuration("half a profile"), ErrorKind::Denied),
        (CredentialsError::provider_timed_out(std::time::Duration::ZERO), ErrorKind::Unavailable),
    ] {
        let error = ConnectorError::other(error.into(), None);
        assert_eq!(classify(SdkError::dispatch_failure(error)), kind);
    }
    let user = ConnectorError::user("no such scheme".into());
    assert_eq!(classify(SdkError::dispatch_failure(user)), ErrorKind::Invalid);
    let no_sense = |status| classify(SdkError::response_error("not JSON", reply(status)));
    assert_eq!((no_sense(200), no_sense(502)), (ErrorKind::Unexpected, ErrorKind::Unavailable));
    let without = "no providers in chain provided credentials";
    assert_eq!(classify(SdkError::construction_failure(without)), ErrorKind::Denied);
    assert_eq!(classify(SdkError::construction_failure("no table name")), ErrorKind::Invalid);
}
