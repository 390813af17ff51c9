//! Faults of cancelled, repeated and concurrent operations and of sweeps: C45, C50, C55, C60.

use idempotency_conformance::Clause::{C45, C50, C51, C55, C60};
use idempotency_core::{
    ErrorKind, Operation, Release, ReleaseOutcome, RenewOutcome, State, StoreError, machine,
};

use super::{Mutant, helpers::*};
use crate::{lab::Steps, net::NetFault};

pub(crate) fn mutants() -> Vec<Mutant> {
    let mut mutants = copies();
    mutants.extend(steps());
    mutants.extend(sweeps());
    mutants.extend(network());
    mutants
}

fn copies() -> Vec<Mutant> {
    vec![
        Mutant::of("a late claim opens a completed key again", C50, |rules| {
            rules.claim = |record, request, now| match record {
                Some(record) if completed(record) && record.token == request.token => {
                    machine::claim(None, request, now)
                }
                _ => machine::claim(record, request, now),
            };
        }),
        Mutant::of("a late not started frees the key of a successor", C50, |rules| {
            rules.release = |record, request, now| match record {
                Some(record) if in_progress(record) && request.release == Release::NotStarted => {
                    let record = edited(Some(record), |record| record.state = State::Unused);
                    Ok(put(record.unwrap(), ReleaseOutcome::Released))
                }
                _ => Ok(machine::release(record, request, now)),
            };
        }),
        Mutant::of("a late renewal of a predecessor is held", C50, |rules| {
            rules.renew = |record, request, now| match machine::renew(record, request, now) {
                decision if record.is_some_and(|record| record.attempt > request.attempt) => {
                    let lease_remaining = request.lease.get();
                    Ok(answering(decision, |outcome| {
                        *outcome = RenewOutcome::Held { lease_remaining }
                    }))
                }
                decision => Ok(decision),
            };
        }),
        Mutant::of("a spent token has an unknown effect", C50, |rules| {
            rules.claim = |record, request, now| {
                machine::claim(record, request, now)
                    .map_err(|_| StoreError::new(Operation::Claim, ErrorKind::TokenSpent, "spent"))
            };
        }),
    ]
}

fn steps() -> Vec<Mutant> {
    vec![
        Mutant::of("a dropped operation leaves its lock behind", C45, |rules| {
            rules.steps = Steps::Busy;
        }),
        Mutant::of("a store that panics", C60, |rules| rules.steps = Steps::Panic),
        Mutant::of("a completion removes the record and writes it later", C60, |rules| {
            rules.steps = Steps::RemoveThenWrite;
        }),
        Mutant::of("reads lag one write behind", C60, |rules| rules.steps = Steps::StaleReads),
        Mutant::of("two completions at once are both lost", C60, |rules| {
            rules.complete = |record, request, now| {
                let mut decision = machine::complete(record, request, now);
                if record.is_some_and(completed) {
                    decision = keep(idempotency_core::FinishOutcome::Lost);
                }
                Ok(decision)
            };
        }),
    ]
}

fn sweeps() -> Vec<Mutant> {
    vec![
        Mutant::of("a sweep takes abandoned records", C55, |rules| {
            rules.sweep = |record, now| {
                machine::is_expired(record, now)
                    || matches!(&record.state, State::InProgress { lease_until, .. } if *lease_until < now.at)
            };
        }),
        Mutant::of("a sweep takes completed records", C55, |rules| {
            rules.sweep = |record, now| machine::is_expired(record, now) || completed(record);
        }),
        Mutant::of("a sweep takes released records", C55, |rules| {
            rules.sweep = |record, now| machine::is_expired(record, now) || released(record);
        }),
        Mutant::of("a sweep takes no notice of its batch", C55, |rules| {
            rules.sweep_batch = |_| usize::MAX;
        }),
        Mutant::of("a sweep does not count the abandoned", C55, |rules| {
            rules.counts_as_abandoned = |_| false;
        }),
        Mutant::of("a sweep removes nothing", C55, |rules| rules.sweep = |_, _| false),
        Mutant::of("a sweep removes what was claimed since it looked", C55, |rules| {
            rules.steps = Steps::SweepLater;
        }),
    ]
}

fn network() -> Vec<Mutant> {
    vec![
        Mutant::over_a_network(
            "nothing happened is said of a lost reply",
            C50,
            NetFault::EffectNone,
        ),
        Mutant::over_a_network("an outage is an unexpected error", C50, NetFault::Unexpected),
        Mutant::over_a_network(
            "a broken connection is used for ever",
            C50,
            NetFault::NeverReconnects,
        ),
        Mutant::over_a_network("no time-out", C51, NetFault::NoTimeout),
        Mutant::over_a_network("a dropped request leaves its reply behind", C45, NetFault::Shifted),
    ]
}
