//! Faults of leases and take-over: C07, C08, C46.

use idempotency_conformance::Clause::{C07, C08, C46};
use idempotency_core::{
    AttemptNumber, ClaimOutcome, ReleaseReason, State, Takeover, Timestamp, machine,
};

use super::{Mutant, helpers::*};
use crate::lab::Steps;

const NEVER: Timestamp = Timestamp::from_unix_millis(u64::MAX / 2);

pub(crate) fn mutants() -> Vec<Mutant> {
    let mut mutants = takeovers();
    mutants.extend(refusals());
    mutants
}

fn takeovers() -> Vec<Mutant> {
    vec![
        Mutant::of("the lease is taken for the retention", C07, |rules| {
            rules.claim = |record, request, now| {
                let record = edited(record, |record| {
                    if let State::InProgress { lease_until, .. } = &mut record.state {
                        *lease_until = record.expires_at;
                    }
                });
                machine::claim(record.as_ref(), request, now)
            };
        }),
        Mutant::of("a lease never ends", C07, |rules| {
            rules.claim = |record, request, now| {
                let record = edited(record, |record| {
                    if let State::InProgress { lease_until, .. } = &mut record.state {
                        *lease_until = NEVER;
                    }
                });
                machine::claim(record.as_ref(), request, now)
            };
        }),
        Mutant::of("a lease ends at half its length", C07, |rules| {
            rules.claim = |record, request, now| {
                let record = edited(record, |record| {
                    if let State::InProgress { lease_until, .. } = &mut record.state {
                        let half = lease_until.since(record.claimed_at) / 2;
                        *lease_until = record.claimed_at.after(half);
                    }
                });
                machine::claim(record.as_ref(), request, now)
            };
        }),
        Mutant::of("a takeover forgets the attempt", C07, |rules| {
            rules.claim = |record, request, now| {
                let decision = machine::claim(record, request, now)?;
                Ok(writing(decision, |record| record.attempt = AttemptNumber::FIRST.next()))
            };
        }),
        Mutant::of("a takeover forgets the checkpoint", C07, |rules| {
            rules.claim = |record, request, now| {
                let decision = machine::claim(record, request, now)?;
                Ok(answering(decision, |outcome| {
                    if let ClaimOutcome::Acquired(acquired) = outcome {
                        acquired.checkpoint = None;
                    }
                }))
            };
        }),
        Mutant::of("a takeover does not pass the checkpoint on", C07, |rules| {
            rules.claim = |record, request, now| {
                let decision = machine::claim(record, request, now)?;
                Ok(writing(decision, |record| {
                    if let State::InProgress { checkpoint, .. } = &mut record.state {
                        *checkpoint = None;
                    }
                }))
            };
        }),
        Mutant::of("a takeover forgets when the first attempt began", C07, |rules| {
            rules.claim = |record, request, now| {
                let record = edited(record, |record| record.first_claimed_at = now.at);
                machine::claim(record.as_ref(), request, now)
            };
        }),
        Mutant::of("a takeover keeps the token of the dead", C07, |rules| {
            rules.claim = |record, request, now| {
                let decision = machine::claim(record, request, now)?;
                let old = record.map_or(request.token, |record| record.token);
                Ok(writing(decision, |record| record.token = old))
            };
        }),
        Mutant::of("failed is seen as abandoned", C07, |rules| {
            rules.claim = |record, request, now| {
                let record = edited(record, |record| {
                    if let State::Released { reason, .. } = &mut record.state {
                        *reason = ReleaseReason::Unknown;
                    }
                });
                machine::claim(record.as_ref(), request, now)
            };
        }),
        Mutant::of("a claim is written with its retention for a lease", C46, |rules| {
            rules.steps = Steps::Provisional;
        }),
        Mutant::of("a ghost claim lasts for the retention", C46, |rules| {
            rules.claim = |record, request, now| {
                let decision = machine::claim(record, request, now)?;
                Ok(writing(decision, |record| {
                    if let State::InProgress { lease_until, .. } = &mut record.state {
                        *lease_until = lease_until.after(request.retention.get());
                    }
                }))
            };
        }),
    ]
}

fn refusals() -> Vec<Mutant> {
    vec![
        Mutant::of("those who refuse take over all the same", C08, |rules| {
            rules.claim = |record, request, now| {
                machine::claim(record, &with_takeover(request, Takeover::Allow), now)
            };
        }),
        Mutant::of("an unknown outcome is taken for a failure", C08, |rules| {
            rules.claim = |record, request, now| {
                let record = edited(record, |record| {
                    if let State::Released { reason, .. } = &mut record.state {
                        *reason = ReleaseReason::Failed;
                    }
                });
                machine::claim(record.as_ref(), request, now)
            };
        }),
        Mutant::of("the abandoned checkpoint is not shown", C08, |rules| {
            rules.claim = |record, request, now| {
                let decision = machine::claim(record, request, now)?;
                Ok(answering(decision, |outcome| {
                    if let ClaimOutcome::Abandoned(abandoned) = outcome {
                        abandoned.checkpoint = None;
                    }
                }))
            };
        }),
        Mutant::of("abandoned since the claim", C08, |rules| {
            rules.claim = |record, request, now| {
                let decision = machine::claim(record, request, now)?;
                let since = record.map(|record| now.at.since(record.claimed_at));
                Ok(answering(decision, |outcome| {
                    if let ClaimOutcome::Abandoned(abandoned) = outcome {
                        abandoned.since = since.unwrap_or_default();
                    }
                }))
            };
        }),
    ]
}
