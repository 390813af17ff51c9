use aws_sdk_dynamodb::{
    config::http::HttpResponse,
    error::SdkError,
    operation::transact_write_items::{TransactWriteItemsError, TransactWriteItemsOutput},
    types::{
        AttributeValue, CancellationReason, ReturnValuesOnConditionCheckFailure, TransactWriteItem,
        Update,
    },
};
use idempotency_core::{
    Answer, CompleteRequest, DetachedClaim, ErrorKind, FinishOutcome, IdempotencyKey, Operation,
    Release, SeenClaim, State, StoreError,
};

use crate::{
    DynamoDbStore,
    error::{classify, is_item_size},
    values::Values,
    wire,
};

/// Why a transaction with a completion in it did not commit.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransactionError {
    /// The service cancelled it because of the application's own items: a condition did not hold, say.
    /// Nothing of it has happened, and the claim still holds.
    #[error("the transaction was cancelled because of items beside the completion")]
    Refused(Vec<CancellationReason>),
    /// The service did not answer, or refused. What may have happened is the error's effect: with
    /// `Unknown` send the same items again, and the completion tells.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What the service answers to a transaction.
pub type TransactionReply =
    Result<TransactWriteItemsOutput, SdkError<TransactWriteItemsError, HttpResponse>>;

/// Completing inside the caller's transaction.
impl DynamoDbStore {
    /// The completion of `claim` with `answer`, as an item to put beside the application's own in one
    /// `TransactWriteItems`: what they write and the answer are there together or not at all.
    ///
    /// It is fenced more strictly than
    /// [`complete`](idempotency_core::IdempotencyStore::complete): a record that is gone, released or
    /// completed cancels the transaction, because the work may have been done by somebody else. An
    /// answer that is too large becomes the fact that it is done.
    ///
    /// Give the reply to [`transaction_outcome`](Self::transaction_outcome), and its outcome to
    /// [`DetachedClaim::finished`]. The heartbeat of a detached claim has ended: beside a transaction a
    /// renewal would be a conflict. So the lease has to last for the work.
    ///
    /// # Errors
    /// The driver refuses to make the item.
    pub fn completion(
        &self,
        claim: &DetachedClaim,
        answer: Answer,
    ) -> Result<TransactWriteItem, StoreError> {
        self.completion_of(&claim.completion(answer))
    }

    /// The same for whoever claims without the executor.
    ///
    /// # Errors
    /// `TooLarge`: the response is larger than the profile allows. Or the driver refuses to make the
    /// item.
    pub fn completion_of(
        &self,
        request: &CompleteRequest<'_>,
    ) -> Result<TransactWriteItem, StoreError> {
        let inner = &*self.inner;
        inner.profile.check_response(&request.response)?;
        let statement = &inner.statements.complete_held;
        let values = Values::of_completion(request, inner.now());
        let values = values.with(":joined", AttributeValue::Bool(true));
        let update = Update::builder()
            .table_name(&inner.layout.table)
            .set_key(Some(inner.layout.key(&self.place(request.key)).collect()))
            .set_update_expression(statement.update.clone())
            .condition_expression(&statement.condition)
            .set_expression_attribute_names(Some(statement.names.clone()))
            .set_expression_attribute_values(Some(values.0))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .build()
            .map_err(|source| {
                StoreError::new(Operation::Complete, ErrorKind::Unexpected, "an incomplete request")
                    .without_effect()
                    .with_source(source)
            })?;
        Ok(TransactWriteItem::builder().update(update).build())
    }

    /// What the reply to a transaction means for the claim whose completion was its item number `index`,
    /// counted from 0.
    ///
    /// `Done`: committed, now or by an earlier try whose reply was lost. `Lost`: the claim does not hold,
    /// and nothing was written. That is so as well when the attempt is completed, but not by a transaction: by
    /// [`complete`](idempotency_core::IdempotencyStore::complete), or by an operator who settled it.
    ///
    /// # Errors
    /// The transaction was not committed, or it is not known.
    pub fn transaction_outcome(
        &self,
        claim: &DetachedClaim,
        index: usize,
        reply: &TransactionReply,
    ) -> Result<FinishOutcome, TransactionError> {
        // names the claim; nothing is released
        let claim = claim.giving_back(Release::Unknown);
        let seen = SeenClaim { token: claim.token, attempt: claim.attempt };
        self.transaction_outcome_of(claim.key, seen, index, reply)
    }

    /// The same for whoever claims without the executor.
    ///
    /// # Errors
    /// The transaction was not committed, or it is not known.
    pub fn transaction_outcome_of(
        &self,
        key: &IdempotencyKey,
        claim: SeenClaim,
        index: usize,
        reply: &TransactionReply,
    ) -> Result<FinishOutcome, TransactionError> {
        let Err(error) = reply else {
            return Ok(FinishOutcome::Done);
        };
        let Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) =
            error.as_service_error()
        else {
            // the driver may have sent it more than once
            return Err(classify(Operation::Complete, error).into());
        };
        let reasons = cancelled.cancellation_reasons();
        let own = reasons.get(index);
        if own.and_then(CancellationReason::code) == Some("ConditionalCheckFailed") {
            return self.fenced(key, claim, own).map_err(TransactionError::Store);
        }
        // a reason of the service's before one of the application's: that can go away by itself
        let trouble = reasons.iter().find_map(trouble);
        Err(match trouble {
            Some((kind, detail)) => {
                StoreError::new(Operation::Complete, kind, detail).without_effect().into()
            }
            None => TransactionError::Refused(reasons.to_vec()),
        })
    }

    /// The completion's condition did not hold: because it was committed before, or because the attempt has
    /// ended otherwise, or somebody else has the key.
    fn fenced(
        &self,
        key: &IdempotencyKey,
        claim: SeenClaim,
        reason: Option<&CancellationReason>,
    ) -> Result<FinishOutcome, StoreError> {
        let inner = &*self.inner;
        let item = reason.and_then(|reason| reason.item()).filter(|item| !item.is_empty());
        let is_joined = item.is_some_and(|item| wire::is_joined(&inner.layout, item));
        let call = inner.call(Operation::Complete);
        let record = inner.read(&call, &self.place(key), item.cloned().as_mut())?;
        let is_own = record.is_some_and(|record| {
            let is_completed = matches!(record.state, State::Completed { .. });
            is_joined && is_completed && SeenClaim::from(&record) == claim
        });
        Ok(if is_own { FinishOutcome::Done } else { FinishOutcome::Lost })
    }
}

/// Reasons that are nobody's condition.
fn trouble(reason: &CancellationReason) -> Option<(ErrorKind, &'static str)> {
    Some(match reason.code()? {
        "TransactionConflict" => (
            ErrorKind::Conflict,
            "another transaction, or a write, has one of the items: nothing was written, try again",
        ),
        "ThrottlingError" | "ProvisionedThroughputExceeded" => {
            (ErrorKind::Throttled, "a table has no capacity left: nothing was written, try again")
        }
        "ItemCollectionSizeLimitExceeded" => {
            (ErrorKind::Full, "the items of a partition key exceed 10 GB: nothing was written")
        }
        "ValidationError" if is_item_size(reason.message().unwrap_or_default()) => {
            (ErrorKind::TooLarge, "an item would be larger than 400 KB: nothing was written")
        }
        "ValidationError" => {
            (ErrorKind::Invalid, "the service refuses one of the items: nothing was written")
        }
        _ => return None,
    })
}
