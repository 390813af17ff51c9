//! Faults of time: C30 to C33.

use std::time::Duration;

use idempotency_conformance::Clause::{C30, C31, C32, C33};
use idempotency_core::{
    ClaimRequest, CompleteRequest, Lease, Record, Retention, State, Timestamp, machine,
};

use super::{Mutant, helpers::*};

const LATER: Timestamp = Timestamp::from_unix_millis(u64::MAX / 2);

#[expect(clippy::too_many_lines, reason = "a list")]
pub(crate) fn mutants() -> Vec<Mutant> {
    vec![
        Mutant::of("an expired response is replayed until the server deletes it", C30, |rules| {
            rules.claim = |record, request, now| {
                let record = edited(record, |record| {
                    if completed(record) {
                        record.expires_at = LATER;
                    }
                });
                machine::claim(record.as_ref(), request, now)
            };
        }),
        Mutant::of("an expired release is still there", C30, |rules| {
            rules.claim = |record, request, now| {
                let record = edited(record, |record| {
                    if released(record) {
                        record.expires_at = LATER;
                    }
                });
                machine::claim(record.as_ref(), request, now)
            };
        }),
        Mutant::of("lookup shows expired records", C30, |rules| {
            rules.lookup =
                |record, _| record.filter(|record| record.state != State::Unused).cloned();
        }),
        Mutant::of("a renewal does not move the end of the record", C31, |rules| {
            rules.renew = |record, request, now| {
                let expires_at = record.map(|record| record.expires_at);
                Ok(writing(machine::renew(record, request, now), |record| {
                    record.expires_at = expires_at.unwrap_or(record.expires_at);
                }))
            };
        }),
        Mutant::of("a record in progress ends with its lease", C31, |rules| {
            rules.claim = |record, request, now| {
                let decision = machine::claim(record, request, now)?;
                Ok(writing(decision, |record| {
                    record.expires_at = now.at.after(request.lease.get());
                }))
            };
        }),
        Mutant::of("a released record keeps its old end", C31, |rules| {
            rules.release = |record, request, now| {
                let expires_at = record.map(|record| record.expires_at);
                Ok(writing(machine::release(record, request, now), |record| {
                    if released(record) {
                        record.expires_at = expires_at.unwrap_or(record.expires_at);
                    }
                }))
            };
        }),
        Mutant::of("a completion keeps the old end of the record", C31, |rules| {
            rules.complete = |record, request, now| {
                let expires_at = record.map(|record| record.expires_at);
                Ok(writing(machine::complete(record, request, now), |record| {
                    record.expires_at = expires_at.unwrap_or(record.expires_at);
                }))
            };
        }),
        Mutant::of("milliseconds are taken for seconds", C32, |rules| {
            rules.claim = |record, request, now| {
                let lease = request.lease.get() * 1_000;
                let lease = Lease::new(lease.min(Lease::MAX)).unwrap();
                machine::claim(record, &ClaimRequest { lease, ..*request }, now)
            };
        }),
        Mutant::of("durations are rounded down to seconds", C32, |rules| {
            rules.claim = |record, request, now| {
                let decision = machine::claim(record, request, now)?;
                Ok(writing(decision, |record| {
                    let (lease, retention) = (request.lease.get(), request.retention.get());
                    round_down(record, now.at, lease, retention);
                }))
            };
        }),
        Mutant::of("a retention wraps after 49 days", C32, |rules| {
            rules.complete = |record, request, now| {
                let millis = request.retention.get().as_millis() % (1 << 32);
                let wrapped = Duration::from_millis(u64::try_from(millis).unwrap().max(1));
                let retention = Retention::new(wrapped).unwrap();
                Ok(machine::complete(
                    record,
                    &CompleteRequest { retention, ..request.clone() },
                    now,
                ))
            };
        }),
        Mutant::of("short durations end at once", C32, |rules| {
            rules.claim = |record, request, now| {
                let decision = machine::claim(record, request, now)?;
                Ok(writing(decision, |record| {
                    if request.retention.get() < Duration::from_millis(2) {
                        record.expires_at = now.at;
                    }
                }))
            };
        }),
        Mutant::of("each connection decides by its own clock", C33, |rules| {
            rules.now = |now, connection| match connection % 2 {
                0 => now,
                _ => now.after(Duration::from_hours(2)),
            };
        }),
        Mutant::of("the clock runs at double speed", C33, |rules| {
            rules.now =
                |now, _| now.after(now.since(Timestamp::from_unix_millis(1_577_836_800_000)));
        }),
        Mutant::of("completions are stamped in another time zone", C33, |rules| {
            rules.complete = |record, request, now| {
                Ok(writing(machine::complete(record, request, now), |record| {
                    if let State::Completed { at, .. } = &mut record.state {
                        *at = at.before(Duration::from_mins(330));
                    }
                }))
            };
        }),
    ]
}

fn round_down(record: &mut Record, now: Timestamp, lease: Duration, retention: Duration) {
    let seconds = |duration: Duration| Duration::from_secs(duration.as_secs());
    let until = now.after(seconds(lease));
    if let State::InProgress { lease_until, .. } = &mut record.state {
        *lease_until = until;
    }
    record.expires_at = until.after(seconds(retention));
}
