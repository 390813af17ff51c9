//! Faults of leases, take-over and renewal: C07, C08, C20 to C22, C46.

use std::{num::NonZeroU64, time::Duration};

use bytes::Bytes;
use idempotency_conformance::Clause::{C07, C08, C20, C21, C22, C46};
use idempotency_core::{
    AttemptNumber, ClaimOutcome, ClaimToken, ReleaseReason, RenewOutcome, RenewRequest, State,
    Takeover, Timestamp, machine,
};

use super::{Mutant, helpers::*};
use crate::lab::Steps;

const NEVER: Timestamp = Timestamp::from_unix_millis(u64::MAX / 2);

pub(crate) fn mutants() -> Vec<Mutant> {
    let mut mutants = takeovers();
    mutants.extend(refusals());
    mutants.extend(renewals());
    mutants.extend(strangers());
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

fn renewals() -> Vec<Mutant> {
    vec![
        Mutant::of("a renewal shortens the lease", C20, |rules| {
            rules.renew = |record, request, now| {
                Ok(writing(machine::renew(record, request, now), |record| {
                    if let State::InProgress { lease_until, .. } = &mut record.state {
                        *lease_until = now.at.after(request.lease.get());
                    }
                }))
            };
        }),
        Mutant::of("a renewal changes nothing", C20, |rules| {
            rules.renew =
                |record, request, now| Ok(keep(machine::renew(record, request, now).answer));
        }),
        Mutant::of("a renewal without a checkpoint drops it", C20, |rules| {
            rules.renew = |record, request, now| {
                Ok(writing(machine::renew(record, request, now), |record| {
                    if let State::InProgress { checkpoint, .. } = &mut record.state {
                        checkpoint.clone_from(&request.checkpoint);
                    }
                }))
            };
        }),
        Mutant::of("an empty checkpoint is taken for none", C20, |rules| {
            rules.renew = |record, request, now| {
                let checkpoint = request.checkpoint.clone().filter(|bytes| !bytes.is_empty());
                let request = RenewRequest { checkpoint, ..request.clone() };
                Ok(machine::renew(record, &request, now))
            };
        }),
        Mutant::of("the holder is lost at the end of its lease", C20, |rules| {
            rules.renew = |record, request, now| {
                let live = record.filter(|record| match &record.state {
                    State::InProgress { lease_until, .. } => *lease_until >= now.at,
                    _ => true,
                });
                Ok(machine::renew(live, request, now))
            };
        }),
        Mutant::of("renewals are counted across attempts", C20, |rules| {
            rules.claim = |record, request, now| {
                let first = record.is_none();
                let decision = machine::claim(record, request, now)?;
                Ok(writing(decision, |record| {
                    if let (false, State::InProgress { sequence, .. }) = (first, &mut record.state)
                    {
                        *sequence = 9;
                    }
                }))
            };
        }),
        Mutant::of("an older renewal brings back its checkpoint", C22, |rules| {
            rules.renew = |record, request, now| {
                let newest = RenewRequest { sequence: NonZeroU64::MAX, ..request.clone() };
                Ok(writing(machine::renew(record, &newest, now), |record| {
                    if let State::InProgress { sequence, .. } = &mut record.state {
                        *sequence = request.sequence.get();
                    }
                }))
            };
        }),
        Mutant::of("an older renewal is lost", C22, |rules| {
            rules.renew = |record, request, now| {
                let newest = match record.map(|record| &record.state) {
                    Some(State::InProgress { sequence, .. }) => *sequence,
                    _ => 0,
                };
                if request.sequence.get() < newest {
                    return Ok(keep(RenewOutcome::Lost));
                }
                Ok(machine::renew(record, request, now))
            };
        }),
        Mutant::of("a repeated renewal is lost", C22, |rules| {
            rules.renew = |record, request, now| {
                let newest = match record.map(|record| &record.state) {
                    Some(State::InProgress { sequence, .. }) => *sequence,
                    _ => 0,
                };
                if request.sequence.get() == newest {
                    return Ok(keep(RenewOutcome::Lost));
                }
                Ok(machine::renew(record, request, now))
            };
        }),
    ]
}

fn strangers() -> Vec<Mutant> {
    vec![
        Mutant::of("a stale renewal is accepted", C21, |rules| {
            rules.renew = |record, request, now| {
                let record = edited(record, |record| {
                    record.token = request.token;
                    record.attempt = request.attempt;
                });
                Ok(machine::renew(record.as_ref(), request, now))
            };
        }),
        Mutant::of("a renewal ignores the attempt", C21, |rules| {
            rules.renew = |record, request, now| {
                let attempt = record.map_or(request.attempt, |record| record.attempt);
                let request = RenewRequest { attempt, ..request.clone() };
                Ok(machine::renew(record, &request, now))
            };
        }),
        Mutant::of("a renewal re-creates what is gone", C21, |rules| {
            rules.renew = |record, request, now| match machine::lookup(record, now) {
                Some(_) => Ok(machine::renew(record, request, now)),
                None => Ok(put(ghost(request, now.at), held(request.lease.get()))),
            };
        }),
        Mutant::of("a heartbeat writes after the completion", C21, |rules| {
            rules.renew = |record, request, now| match record {
                Some(record) if completed(record) => {
                    let expires_at =
                        now.at.after(request.lease.get()).after(record.retention.get());
                    let record = edited(Some(record), |record| record.expires_at = expires_at);
                    Ok(put(record.unwrap(), held(request.lease.get())))
                }
                _ => Ok(machine::renew(record, request, now)),
            };
        }),
        Mutant::of("an own released token is renewed", C21, |rules| {
            rules.renew = |record, request, now| {
                let record = edited(record, |record| {
                    if released(record) {
                        let (sequence, checkpoint) = (0, None);
                        let lease_until = now.at;
                        record.state = State::InProgress { lease_until, sequence, checkpoint };
                    }
                });
                Ok(machine::renew(record.as_ref(), request, now))
            };
        }),
    ]
}

const fn held(lease_remaining: Duration) -> RenewOutcome {
    RenewOutcome::Held { lease_remaining }
}

/// A record that nobody claimed.
fn ghost(request: &RenewRequest<'_>, now: Timestamp) -> idempotency_core::Record {
    let lease_until = now.after(request.lease.get());
    idempotency_core::Record {
        fingerprint: idempotency_core::Fingerprint::of_bytes("?"),
        token: ClaimToken::from_stored_bytes(*request.token.as_bytes()),
        attempt: request.attempt,
        retention: idempotency_core::Retention::DEFAULT,
        first_claimed_at: now,
        claimed_at: now,
        expires_at: lease_until.after(Duration::from_mins(1)),
        state: State::InProgress {
            lease_until,
            sequence: request.sequence.get(),
            checkpoint: request.checkpoint.clone().map(|bytes| Bytes::copy_from_slice(&bytes)),
        },
    }
}
