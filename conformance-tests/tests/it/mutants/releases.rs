//! Faults of releases: C25 to C29.

use idempotency_conformance::Clause::{C25, C26, C27, C28, C29};
use idempotency_core::{
    AttemptNumber, Release, ReleaseOutcome, ReleaseReason, ReleaseRequest, State, machine,
};

use super::{Mutant, helpers::*};

#[expect(clippy::too_many_lines, reason = "a list")]
pub(crate) fn mutants() -> Vec<Mutant> {
    vec![
        Mutant::of("not started by attempt 2 removes the record", C25, |rules| {
            rules.release = |record, request, now| {
                if request.release != Release::NotStarted {
                    return Ok(machine::release(record, request, now));
                }
                let first = edited(record, |record| record.attempt = AttemptNumber::FIRST);
                let request = ReleaseRequest { attempt: AttemptNumber::FIRST, ..*request };
                Ok(machine::release(first.as_ref(), &request, now))
            };
        }),
        Mutant::of("not started counts as failed", C25, |rules| {
            rules.release = |record, request, now| {
                let release = match request.release {
                    Release::NotStarted => Release::Failed,
                    other => other,
                };
                Ok(machine::release(record, &ReleaseRequest { release, ..*request }, now))
            };
        }),
        Mutant::of("not started by attempt 2 counts as unknown", C25, |rules| {
            rules.release = |record, request, now| {
                let later = request.attempt != AttemptNumber::FIRST;
                let release = match request.release {
                    Release::NotStarted if later => Release::Unknown,
                    other => other,
                };
                Ok(machine::release(record, &ReleaseRequest { release, ..*request }, now))
            };
        }),
        Mutant::of("a failure forgets the checkpoint", C26, |rules| {
            rules.release = |record, request, now| {
                Ok(writing(machine::release(record, request, now), |record| {
                    if let State::Released { checkpoint, .. } = &mut record.state {
                        *checkpoint = None;
                    }
                }))
            };
        }),
        Mutant::of("a failure removes the record", C26, |rules| {
            rules.release = |record, request, now| {
                Ok(writing(machine::release(record, request, now), |record| {
                    if matches!(record.state, State::Released { reason: ReleaseReason::Failed, .. })
                    {
                        record.state = State::Unused;
                    }
                }))
            };
        }),
        Mutant::of("unknown is marked as failed", C26, |rules| {
            rules.release = |record, request, now| {
                Ok(writing(machine::release(record, request, now), |record| {
                    if let State::Released { reason, .. } = &mut record.state {
                        *reason = ReleaseReason::Failed;
                    }
                }))
            };
        }),
        Mutant::of("a release after the lease is lost", C26, |rules| {
            rules.release = |record, request, now| match record.map(|record| &record.state) {
                Some(State::InProgress { lease_until, .. }) if *lease_until < now.at => {
                    Ok(keep(ReleaseOutcome::Lost))
                }
                _ => Ok(machine::release(record, request, now)),
            };
        }),
        Mutant::of("a stale release is accepted", C27, |rules| {
            rules.release = |record, request, now| {
                let record = edited(record, |record| {
                    record.token = request.token;
                    record.attempt = request.attempt;
                });
                Ok(machine::release(record.as_ref(), request, now))
            };
        }),
        Mutant::of("a release ignores the attempt", C27, |rules| {
            rules.release = |record, request, now| {
                let attempt = record.map_or(request.attempt, |record| record.attempt);
                Ok(machine::release(record, &ReleaseRequest { attempt, ..*request }, now))
            };
        }),
        Mutant::of("a completed key is released", C27, |rules| {
            rules.release = |record, request, now| {
                let record = edited(record, |record| {
                    if completed(record) {
                        let lease_until = now.at;
                        record.state =
                            State::InProgress { lease_until, sequence: 0, checkpoint: None };
                    }
                });
                Ok(machine::release(record.as_ref(), request, now))
            };
        }),
        Mutant::of("a second release is lost", C28, |rules| {
            rules.release = |record, request, now| match record {
                Some(record) if released(record) => Ok(keep(ReleaseOutcome::Lost)),
                _ => Ok(machine::release(record, request, now)),
            };
        }),
        Mutant::of("a second release replaces the reason", C28, |rules| {
            rules.release = |record, request, now| {
                let record = edited(record, |record| {
                    if let State::Released { at, checkpoint, .. } = record.state.clone() {
                        record.state =
                            State::InProgress { lease_until: at, sequence: 0, checkpoint };
                    }
                });
                Ok(machine::release(record.as_ref(), request, now))
            };
        }),
        Mutant::of("a release of what is gone is lost", C28, |rules| {
            rules.release = |record, request, now| match machine::lookup(record, now) {
                Some(_) => Ok(machine::release(record, request, now)),
                None => Ok(keep(ReleaseOutcome::Lost)),
            };
        }),
        Mutant::of("a late claim after not started holds the key", C29, |rules| {
            rules.claim = |record, request, now| {
                machine::claim(record.filter(|record| record.state != State::Unused), request, now)
            };
        }),
        Mutant::of("not started blocks the key for everybody", C29, |rules| {
            rules.claim = |record, request, now| match record {
                Some(record) if record.state == State::Unused => {
                    Err(idempotency_core::StoreError::token_spent())
                }
                _ => machine::claim(record, request, now),
            };
        }),
    ]
}
