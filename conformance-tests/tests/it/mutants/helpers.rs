//! Small changes that faults are made of.

use idempotency_core::{
    ClaimOutcome, ClaimRequest, Record, State, Takeover,
    machine::{Decision, Write},
};

/// The record, changed.
pub(crate) fn edited(record: Option<&Record>, edit: impl FnOnce(&mut Record)) -> Option<Record> {
    let mut record = record?.clone();
    edit(&mut record);
    Some(record)
}

/// The record that a decision writes, changed.
pub(crate) fn writing<A>(mut decision: Decision<A>, edit: impl FnOnce(&mut Record)) -> Decision<A> {
    if let Write::Put(record) = &mut decision.write {
        edit(record);
    }
    decision
}

/// The answer of a decision, changed.
pub(crate) fn answering<A>(mut decision: Decision<A>, edit: impl FnOnce(&mut A)) -> Decision<A> {
    edit(&mut decision.answer);
    decision
}

pub(crate) const fn keep<A>(answer: A) -> Decision<A> {
    let write = Write::Keep;
    Decision { write, answer }
}

pub(crate) const fn put<A>(record: Record, answer: A) -> Decision<A> {
    let write = Write::Put(record);
    Decision { write, answer }
}

pub(crate) const fn in_progress(record: &Record) -> bool {
    matches!(record.state, State::InProgress { .. })
}

pub(crate) const fn completed(record: &Record) -> bool {
    matches!(record.state, State::Completed { .. })
}

pub(crate) const fn released(record: &Record) -> bool {
    matches!(record.state, State::Released { .. })
}

pub(crate) fn is_acquired(outcome: &ClaimOutcome) -> bool {
    matches!(outcome, ClaimOutcome::Acquired(_))
}

/// The same claim, taking over or not.
pub(crate) fn with_takeover<'a>(
    request: &ClaimRequest<'a>,
    takeover: Takeover,
) -> ClaimRequest<'a> {
    ClaimRequest { takeover, ..*request }
}
