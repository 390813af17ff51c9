use idempotency_core::{Idempotency, TurnedAway};

use crate::refusal::Refusal;

/// Has a refusal counted that came before a claim.
pub(crate) fn tell(refusal: Refusal, idempotency: &Idempotency) {
    if let Some(reason) = reason(refusal) {
        idempotency.turn_away(reason);
    }
}

/// None: the request came to the executor, which has told of it.
const fn reason(refusal: Refusal) -> Option<TurnedAway> {
    Some(match refusal {
        Refusal::NoPrincipal => TurnedAway::NoPrincipal,
        Refusal::KeyMissing => TurnedAway::KeyMissing,
        Refusal::KeyInvalid(_) => TurnedAway::KeyInvalid,
        Refusal::BodyTooLarge { .. } => TurnedAway::BodyTooLarge,
        Refusal::BodyTooSlow { .. } => TurnedAway::BodyTooSlow,
        Refusal::BodyUnreadable => TurnedAway::BodyUnreadable,
        Refusal::Overloaded => TurnedAway::Overloaded,
        Refusal::ShuttingDown => TurnedAway::ShuttingDown,
        Refusal::InProgress(_)
        | Refusal::Mismatch
        | Refusal::OutcomeUnknown
        | Refusal::NotKept(_)
        | Refusal::StoreUnavailable
        | Refusal::RecordUnreadable
        | Refusal::RolledBack => return None,
    })
}
