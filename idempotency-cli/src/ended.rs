//! How the program ends, and what it says then.

use std::{io, process::ExitCode};

use idempotency::{ConnectError, ErrorKind, StoreError};

use crate::console;

/// How a verb that could do its work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// As asked: 0.
    Done,
    /// The answer is no, as the output says: 1.
    No,
}

impl From<Ended> for ExitCode {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Done => Self::SUCCESS,
            Ended::No => Self::FAILURE,
        }
    }
}

/// Why a verb did not do its work, beside wrong calls and what stores say themselves.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    /// This store has no such verb: 4.
    #[error("{0}")]
    CannotDo(String),
    /// The store failed while it was being worked with: 3.
    #[error("{0}")]
    StoreFailed(String),
    /// Nobody agreed to the change: 5.
    #[error("{0}")]
    NotConfirmed(&'static str),
}

/// What every help page ends with.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  the answer is no: no such record, the record has changed since it was seen, a hazard was found,
     a case failed, a payment ran twice
  2  called wrongly: arguments, the store URL, a file
  3  the store cannot be reached, or failed
  4  this store cannot do that
  5  not confirmed: nothing was changed";

const CALLED_WRONGLY: u8 = 2;
const STORE_FAILED: u8 = 3;
const CANNOT_DO: u8 = 4;
const NOT_CONFIRMED: u8 = 5;

/// Says what went wrong on the standard error.
pub(crate) fn fail(error: &anyhow::Error) -> ExitCode {
    // whoever reads our output has read enough: `idempotency list … | head`
    if error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe) {
        return ExitCode::SUCCESS;
    }
    console::note(format_args!("error: {}", text_of(error)));
    ExitCode::from(code_of(error))
}

pub(crate) fn code_of(error: &anyhow::Error) -> u8 {
    for cause in error.chain() {
        if let Some(refused) = cause.downcast_ref::<Refused>() {
            return match refused {
                Refused::CannotDo(_) => CANNOT_DO,
                Refused::StoreFailed(_) => STORE_FAILED,
                Refused::NotConfirmed(_) => NOT_CONFIRMED,
            };
        }
        let store = match cause.downcast_ref::<ConnectError>() {
            Some(ConnectError::Store(error)) => Some(error),
            _ => cause.downcast_ref::<StoreError>(),
        };
        if let Some(error) = store {
            return match error.kind() {
                ErrorKind::Invalid | ErrorKind::TooLarge => CALLED_WRONGLY,
                _ => STORE_FAILED,
            };
        }
    }
    CALLED_WRONGLY
}

/// The error and its causes, but of a store's error no cause: a driver may show more than it should.
fn text_of(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    let mut cause: &(dyn std::error::Error + 'static) = error.as_ref();
    while !cause.is::<StoreError>() && !cause.is::<ConnectError>() {
        let Some(next) = cause.source() else {
            break;
        };
        text = format!("{text}: {next}");
        cause = next;
    }
    text
}

#[cfg(test)]
mod tests {
    use anyhow::Context;
    use idempotency::Operation;

    use super::*;

    fn store_error(kind: ErrorKind) -> StoreError {
        StoreError::new(Operation::List, kind, "detail").with_source("hunter2".to_owned())
    }

    #[test]
    fn each_kind_of_failure_has_its_code() {
        let cases: [(anyhow::Error, u8); 6] = [
            (store_error(ErrorKind::Unavailable).into(), 3),
            (ConnectError::Store(store_error(ErrorKind::Denied)).into(), 3),
            (store_error(ErrorKind::Invalid).into(), 2),
            (ConnectError::UnknownScheme { scheme: "x".into() }.into(), 2),
            (Refused::CannotDo("no".into()).into(), 4),
            (anyhow::Error::from(Refused::NotConfirmed("no")).context("why"), 5),
        ];
        for (error, code) in cases {
            assert_eq!(code_of(&error), code, "{error:?}");
        }
    }

    /// Kind of fault: a secret in an error. What a driver says is behind our own error.
    #[test]
    fn causes_are_told_but_not_those_of_a_store() {
        let missing = io::Error::new(io::ErrorKind::NotFound, "no such file");
        let error = Err::<(), _>(missing).context("reading x").unwrap_err();
        assert_eq!(text_of(&error), "reading x: no such file");
        let error = anyhow::Error::from(ConnectError::Store(store_error(ErrorKind::Denied)));
        assert!(!text_of(&error).contains("hunter2"), "{}", text_of(&error));
        let error = anyhow::Error::from(store_error(ErrorKind::Denied)).context("looking");
        assert!(text_of(&error).starts_with("looking: list failed"), "{}", text_of(&error));
        assert!(!text_of(&error).contains("hunter2"), "{}", text_of(&error));
    }
}
