//! Faults of claims: C01 to C06, C09.

use std::time::Duration;

use idempotency_conformance::Clause::{C01, C02, C03, C04, C05, C06, C09};
use idempotency_core::{ClaimOutcome, ClaimToken, Fingerprint, State, Timestamp, machine};

use super::{Mutant, helpers::*};
use crate::lab::Steps;

const LATER: Timestamp = Timestamp::from_unix_millis(u64::MAX / 2);

#[expect(clippy::too_many_lines, reason = "a list")]
pub(crate) fn mutants() -> Vec<Mutant> {
    vec![
        Mutant::of("the attempt survives the retention", C01, |rules| {
            rules.claim = |record, request, now| {
                let decision = machine::claim(record, request, now)?;
                let old = record.filter(|record| machine::is_expired(record, now));
                let Some(attempt) = old.map(|record| record.attempt.next()) else {
                    return Ok(decision);
                };
                let decision = writing(decision, |record| record.attempt = attempt);
                Ok(answering(decision, |outcome| {
                    if let ClaimOutcome::Acquired(acquired) = outcome {
                        acquired.attempt = attempt;
                    }
                }))
            };
        }),
        Mutant::of("the checkpoint survives the retention", C01, |rules| {
            rules.claim = |record, request, now| {
                let old = match record.map(|record| &record.state) {
                    Some(
                        State::InProgress { checkpoint, .. } | State::Released { checkpoint, .. },
                    ) => checkpoint.clone(),
                    _ => None,
                };
                let decision = machine::claim(record, request, now)?;
                Ok(answering(decision, |outcome| {
                    if let ClaimOutcome::Acquired(acquired) = outcome {
                        acquired.checkpoint = old;
                    }
                }))
            };
        }),
        Mutant::of("the fingerprint survives the retention", C01, |rules| {
            rules.claim = |record, request, now| {
                let other = record.filter(|record| record.fingerprint != request.fingerprint);
                match other {
                    Some(record) if record.state != State::Unused => {
                        let record = edited(Some(record), |record| record.expires_at = LATER);
                        machine::claim(record.as_ref(), request, now)
                    }
                    _ => machine::claim(record, request, now),
                }
            };
        }),
        Mutant::of("check, then act", C02, |rules| rules.steps = Steps::CheckThenAct),
        Mutant::of("an own token is not recognised", C03, |rules| {
            rules.claim = |record, request, now| {
                let record = edited(record, |record| {
                    if in_progress(record) {
                        record.token = ClaimToken::from_stored_bytes([7; 16]);
                    }
                });
                machine::claim(record.as_ref(), request, now)
            };
        }),
        Mutant::of("an own failed token claims again", C03, |rules| {
            rules.claim = |record, request, now| {
                let record = edited(record, |record| {
                    if released(record) {
                        record.token = ClaimToken::from_stored_bytes([7; 16]);
                    }
                });
                machine::claim(record.as_ref(), request, now)
            };
        }),
        Mutant::of("a repeated claim renews the lease", C03, |rules| {
            rules.claim = |record, request, now| {
                let decision = machine::claim(record, request, now)?;
                match record {
                    Some(record)
                        if record.token == request.token && is_acquired(&decision.answer) =>
                    {
                        let mut record = record.clone();
                        if let State::InProgress { lease_until, .. } = &mut record.state {
                            *lease_until = now.at.after(request.lease.get());
                        }
                        Ok(put(record, decision.answer))
                    }
                    _ => Ok(decision),
                }
            };
        }),
        Mutant::of("a second claim overwrites the first", C04, |rules| {
            rules.claim = |record, request, now| {
                let record =
                    record.filter(|record| !in_progress(record) || record.token == request.token);
                machine::claim(record, request, now)
            };
        }),
        Mutant::of("a refused claim lengthens the record", C04, |rules| {
            rules.claim = |record, request, now| {
                let decision = machine::claim(record, request, now)?;
                match (record, &decision.answer) {
                    (Some(record), ClaimOutcome::InProgress(_)) => {
                        let expires_at = record.expires_at.after(Duration::from_secs(1));
                        let record = edited(Some(record), |record| record.expires_at = expires_at);
                        Ok(put(record.unwrap(), decision.answer))
                    }
                    _ => Ok(decision),
                }
            };
        }),
        Mutant::of("a refused duplicate clears the claim", C04, |rules| {
            rules.claim = |record, request, now| {
                let decision = machine::claim(record, request, now)?;
                match (record, &decision.answer) {
                    (Some(record), ClaimOutcome::InProgress(_)) => {
                        let record = edited(Some(record), |record| record.state = State::Unused);
                        Ok(put(record.unwrap(), decision.answer))
                    }
                    _ => Ok(decision),
                }
            };
        }),
        Mutant::of("a waiter's mark changes the record", C04, |rules| {
            rules.watching = |record| {
                edited(record.as_ref(), |record| {
                    record.expires_at = record.expires_at.after(Duration::from_secs(9));
                })
            };
        }),
        Mutant::of("running for counts from the first attempt", C04, |rules| {
            rules.claim = |record, request, now| {
                let record = edited(record, |record| record.claimed_at = record.first_claimed_at);
                machine::claim(record.as_ref(), request, now)
            };
        }),
        Mutant::of("the owner executes again after completing", C05, |rules| {
            rules.claim = |record, request, now| {
                let record =
                    record.filter(|record| !(completed(record) && record.token == request.token));
                machine::claim(record, request, now)
            };
        }),
        Mutant::of("every replay begins the retention anew", C05, |rules| {
            rules.claim = |record, request, now| {
                let decision = machine::claim(record, request, now)?;
                match (record, &decision.answer) {
                    (Some(record), ClaimOutcome::Replay(_)) => {
                        let expires_at = now.at.after(request.retention.get());
                        let record = edited(Some(record), |record| record.expires_at = expires_at);
                        Ok(put(record.unwrap(), decision.answer))
                    }
                    _ => Ok(decision),
                }
            };
        }),
        Mutant::of("the age of a replay counts from the claim", C05, |rules| {
            rules.claim = |record, request, now| {
                let record = edited(record, |record| {
                    if let State::Completed { at, .. } = &mut record.state {
                        *at = record.claimed_at;
                    }
                });
                machine::claim(record.as_ref(), request, now)
            };
        }),
        Mutant::of("mismatch is not checked while running", C06, |rules| {
            rules.claim = |record, request, now| {
                let record = edited(record, |record| {
                    if in_progress(record) {
                        record.fingerprint = request.fingerprint;
                    }
                });
                machine::claim(record.as_ref(), request, now)
            };
        }),
        Mutant::of("in progress is answered before mismatch", C06, |rules| {
            rules.claim = |record, request, now| {
                let same = edited(record, |record| record.fingerprint = request.fingerprint);
                let decision = machine::claim(same.as_ref(), request, now)?;
                match decision.answer {
                    ClaimOutcome::InProgress(_) => Ok(decision),
                    _ => machine::claim(record, request, now),
                }
            };
        }),
        Mutant::of("a released key forgets its fingerprint", C06, |rules| {
            rules.claim = |record, request, now| {
                let record = edited(record, |record| {
                    if released(record) {
                        record.fingerprint = request.fingerprint;
                    }
                });
                machine::claim(record.as_ref(), request, now)
            };
        }),
        Mutant::of("a completed key is replayed to any request", C06, |rules| {
            rules.claim = |record, request, now| {
                let record = edited(record, |record| {
                    if completed(record) {
                        record.fingerprint = request.fingerprint;
                    }
                });
                machine::claim(record.as_ref(), request, now)
            };
        }),
        Mutant::of("the version of a fingerprint is not compared", C06, |rules| {
            rules.claim = |record, request, now| {
                let record = edited(record, |record| {
                    let mut bytes = record.fingerprint.to_stored_bytes();
                    bytes[0] = request.fingerprint.version();
                    record.fingerprint = Fingerprint::from_stored_bytes(bytes);
                });
                machine::claim(record.as_ref(), request, now)
            };
        }),
        Mutant::of("an own token is recognised before the mismatch", C06, |rules| {
            rules.claim = |record, request, now| {
                let record = edited(record, |record| {
                    if record.token == request.token {
                        record.fingerprint = request.fingerprint;
                    }
                });
                machine::claim(record.as_ref(), request, now)
            };
        }),
        Mutant::of("a repeated claim reports the whole lease", C09, |rules| {
            rules.claim = |record, request, now| {
                let decision = machine::claim(record, request, now)?;
                Ok(answering(decision, |outcome| {
                    if let ClaimOutcome::Acquired(acquired) = outcome {
                        acquired.lease_remaining = request.lease.get();
                    }
                }))
            };
        }),
        Mutant::of("every attempt is reported as the first", C09, |rules| {
            rules.claim = |record, request, now| {
                let decision = machine::claim(record, request, now)?;
                Ok(answering(decision, |outcome| {
                    if let ClaimOutcome::Acquired(acquired) = outcome {
                        acquired.attempt = idempotency_core::AttemptNumber::FIRST;
                    }
                }))
            };
        }),
    ]
}
