//! Faults of completions and responses: C10 to C14, C40.

use bytes::Bytes;
use idempotency_conformance::Clause::{C10, C11, C12, C13, C14, C40};
use idempotency_core::{
    AttemptNumber, ClaimOutcome, CompleteRequest, ErrorKind, FinishOutcome, Operation, State,
    StoreError, machine,
};

use super::{Mutant, helpers::*};

pub(crate) fn mutants() -> Vec<Mutant> {
    let mut mutants = own();
    mutants.extend(strangers());
    mutants.extend(restored());
    mutants.extend(responses());
    mutants
}

fn own() -> Vec<Mutant> {
    vec![
        Mutant::of("retention counts from the creation", C10, |rules| {
            rules.complete = |record, request, now| {
                let created = record.map(|record| record.first_claimed_at);
                Ok(writing(machine::complete(record, request, now), |record| {
                    let created = created.unwrap_or(now.at);
                    record.expires_at = created.after(request.retention.get());
                }))
            };
        }),
        Mutant::of("a completion keeps the retention of the claim", C10, |rules| {
            rules.complete = |record, request, now| {
                let retention = record.map_or(request.retention, |record| record.retention);
                let request = CompleteRequest { retention, ..request.clone() };
                Ok(machine::complete(record, &request, now))
            };
        }),
        Mutant::of("a completion is answered and not written", C10, |rules| {
            rules.complete =
                |record, request, now| Ok(keep(machine::complete(record, request, now).answer));
        }),
        Mutant::of("a second completion replaces the first", C11, |rules| {
            rules.complete = |record, request, now| {
                let record = edited(record, |record| {
                    if completed(record) {
                        let lease_until = now.at;
                        record.state =
                            State::InProgress { lease_until, sequence: 0, checkpoint: None };
                    }
                });
                Ok(machine::complete(record.as_ref(), request, now))
            };
        }),
        Mutant::of("a second completion begins the retention anew", C11, |rules| {
            rules.complete = |record, request, now| {
                let decision = machine::complete(record, request, now);
                match record {
                    Some(record) if completed(record) && decision.answer == FinishOutcome::Done => {
                        let expires_at = now.at.after(request.retention.get());
                        let record = edited(Some(record), |record| record.expires_at = expires_at);
                        Ok(put(record.unwrap(), decision.answer))
                    }
                    _ => Ok(decision),
                }
            };
        }),
        Mutant::of("a second completion is lost", C11, |rules| {
            rules.complete = |record, request, now| {
                let decision = machine::complete(record, request, now);
                Ok(answering(decision, |outcome| {
                    if record.is_some_and(completed) {
                        *outcome = FinishOutcome::Lost;
                    }
                }))
            };
        }),
        Mutant::of("a completion after the lease is dropped", C13, |rules| {
            rules.complete = |record, request, now| match record.map(|record| &record.state) {
                Some(State::InProgress { lease_until, .. }) if *lease_until < now.at => {
                    Ok(keep(FinishOutcome::Lost))
                }
                _ => Ok(machine::complete(record, request, now)),
            };
        }),
        Mutant::of("a completion after the own release is dropped", C13, |rules| {
            rules.complete = |record, request, now| match record {
                Some(record) if released(record) => Ok(keep(FinishOutcome::Lost)),
                _ => Ok(machine::complete(record, request, now)),
            };
        }),
    ]
}

fn strangers() -> Vec<Mutant> {
    vec![
        Mutant::of("a stale completion is accepted", C12, |rules| {
            rules.complete = |record, request, now| {
                let record = edited(record, |record| {
                    record.token = request.token;
                    record.attempt = request.attempt;
                });
                Ok(machine::complete(record.as_ref(), request, now))
            };
        }),
        Mutant::of("a completion ignores the attempt", C12, |rules| {
            rules.complete = |record, request, now| {
                let attempt = record.map_or(request.attempt, |record| record.attempt);
                let request = CompleteRequest { attempt, ..request.clone() };
                Ok(machine::complete(record, &request, now))
            };
        }),
        Mutant::of("a completion ignores the fingerprint", C12, |rules| {
            rules.complete = |record, request, now| {
                let fingerprint = record.map_or(request.fingerprint, |record| record.fingerprint);
                let request = CompleteRequest { fingerprint, ..request.clone() };
                Ok(machine::complete(record, &request, now))
            };
        }),
        Mutant::of("a refused completion shortens the record", C12, |rules| {
            rules.complete = |record, request, now| {
                let decision = machine::complete(record, request, now);
                match (record, decision.answer) {
                    (Some(record), FinishOutcome::Lost) => {
                        let record = edited(Some(record), |record| record.expires_at = now.at);
                        Ok(put(record.unwrap(), FinishOutcome::Lost))
                    }
                    _ => Ok(decision),
                }
            };
        }),
    ]
}

fn restored() -> Vec<Mutant> {
    vec![
        Mutant::of("a restored record is not reported", C14, |rules| {
            rules.complete = |record, request, now| {
                let decision = machine::complete(record, request, now);
                Ok(answering(decision, |outcome| {
                    if *outcome == FinishOutcome::Restored {
                        *outcome = FinishOutcome::Done;
                    }
                }))
            };
        }),
        Mutant::of("a completion without a record is lost", C14, |rules| {
            rules.complete = |record, request, now| match machine::lookup(record, now) {
                Some(_) => Ok(machine::complete(record, request, now)),
                None => Ok(keep(FinishOutcome::Lost)),
            };
        }),
        Mutant::of("a restored record begins with attempt 1", C14, |rules| {
            rules.complete = |record, request, now| {
                let decision = machine::complete(record, request, now);
                let restored = decision.answer == FinishOutcome::Restored;
                Ok(writing(decision, |record| {
                    if restored {
                        record.attempt = AttemptNumber::FIRST;
                    }
                }))
            };
        }),
        Mutant::of("a restored record is kept for no one", C14, |rules| {
            rules.complete = |record, request, now| match machine::lookup(record, now) {
                Some(_) => Ok(machine::complete(record, request, now)),
                None => Ok(keep(FinishOutcome::Restored)),
            };
        }),
    ]
}

/// Changes each response that is stored.
macro_rules! storing {
    ($change:expr) => {
        |record, request, now| {
            let change: fn(Bytes) -> Bytes = $change;
            let response = change(request.response.clone());
            let request = CompleteRequest { response, ..request.clone() };
            Ok(machine::complete(record, &request, now))
        }
    };
}

fn responses() -> Vec<Mutant> {
    vec![
        Mutant::of("an empty response is read as none", C40, |rules| {
            rules.claim = |record, request, now| {
                let record = record.filter(|record| {
                    !matches!(&record.state, State::Completed { response, .. } if response.is_empty())
                });
                machine::claim(record, request, now)
            };
        }),
        Mutant::of("bytes go through lossy text", C40, |rules| {
            rules.complete = storing!(|bytes| String::from_utf8_lossy(&bytes).into_owned().into());
        }),
        Mutant::of("a response ends at its first zero byte", C40, |rules| {
            rules.complete = storing!(|bytes| {
                let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
                bytes.slice(..end)
            });
        }),
        Mutant::of("a response is cut at 64 KiB", C40, |rules| {
            rules.complete = storing!(|bytes| bytes.slice(..bytes.len().min(65_535)));
        }),
        Mutant::of("blanks around a response are trimmed", C40, |rules| {
            rules.complete = storing!(|bytes| Bytes::copy_from_slice(bytes.trim_ascii()));
        }),
        Mutant::of("the limit of a response is not checked", C40, |rules| {
            rules.check_response = |_, _| Ok(());
        }),
        Mutant::of("too large a response has an unknown effect", C40, |rules| {
            rules.check_response = |profile, response| {
                if response.len() <= profile.max_response_bytes {
                    return Ok(());
                }
                Err(StoreError::new(Operation::Complete, ErrorKind::TooLarge, "too large"))
            };
        }),
        Mutant::of("a response of the largest size is refused", C40, |rules| {
            rules.check_response = |profile, response| {
                if response.len() < profile.max_response_bytes {
                    return Ok(());
                }
                let error = StoreError::new(Operation::Complete, ErrorKind::TooLarge, "too large");
                Err(error.without_effect())
            };
        }),
        Mutant::of("a replay shows another response", C40, |rules| {
            rules.claim = |record, request, now| {
                let decision = machine::claim(record, request, now)?;
                Ok(answering(decision, |outcome| {
                    if let ClaimOutcome::Replay(replay) = outcome {
                        replay.response = replay.response.to_ascii_lowercase().into();
                    }
                }))
            };
        }),
    ]
}
