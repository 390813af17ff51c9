//! The requests that the operations are made of, and what is made of their replies.

use aws_sdk_dynamodb::types::{ReturnValue, ReturnValuesOnConditionCheckFailure};
use idempotency_core::{
    CorruptRecord, Record, StorageKey, StoreError,
    machine::{Decision, Now, Write},
};

use crate::{
    call::{Call, Refused},
    error::conflict,
    expression::{self, Statement},
    layout::Attribute,
    store::Inner,
    values::Values,
    wire::{self, Item},
};

/// How often a decision is written again, when the record changes between two tries.
const MAX_ROUNDS: u32 = 8;

impl Inner {
    /// The item at `place`, from a consistent read.
    pub(crate) async fn look(
        &self,
        call: &Call,
        place: &StorageKey,
    ) -> Result<Option<Item>, StoreError> {
        let request = self
            .client
            .get_item()
            .table_name(&self.layout.table)
            .set_key(Some(self.layout.key(place).collect()))
            .consistent_read(true)
            .customize()
            .interceptor(call.reads())
            .send();
        Ok(call.read(request).await?.item)
    }

    /// Whether there is more to an item than its key.
    pub(crate) fn is_record(&self, item: &Item) -> bool {
        item.contains_key(self.layout.name(Attribute::Format))
    }

    /// The record that an item keeps. Its response, or its checkpoint, is taken out of the item.
    ///
    /// # Errors
    /// `Corrupt` when it cannot be read (C00) or is the item of another key (C35).
    pub(crate) fn read(
        &self,
        call: &Call,
        place: &StorageKey,
        item: Option<&mut Item>,
    ) -> Result<Option<Record>, StoreError> {
        let Some(item) = item else {
            return Ok(None);
        };
        let corrupt = |cause| call.failed(StoreError::corrupt(call.operation, cause));
        if wire::place_of(&self.layout, item) != Some(place.as_str()) {
            return Err(corrupt(CorruptRecord::OtherKey));
        }
        wire::record(&self.layout, item).map(Some).map_err(corrupt)
    }

    /// Puts `record` where nothing is.
    pub(crate) async fn put_new(
        &self,
        call: &Call,
        place: &StorageKey,
        record: &Record,
    ) -> Result<Result<(), Refused>, StoreError> {
        self.put(call, place, record, (self.statements.claim.clone(), None)).await
    }

    /// Puts `record` under a condition.
    async fn put(
        &self,
        call: &Call,
        place: &StorageKey,
        record: &Record,
        (statement, values): (Statement, Option<Item>),
    ) -> Result<Result<(), Refused>, StoreError> {
        let request = self
            .client
            .put_item()
            .table_name(&self.layout.table)
            .set_item(Some(self.writer().item(place, record)))
            .condition_expression(statement.condition)
            .set_expression_attribute_names(Some(statement.names))
            .set_expression_attribute_values(values)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .customize()
            .interceptor(call.writes())
            .send();
        let answer = call.write(request).await?;
        self.explained(call, place, answer.map(|_| ())).await
    }

    /// Sends an update; answers what was there before.
    pub(crate) async fn update(
        &self,
        call: &Call,
        place: &StorageKey,
        statement: &Statement,
        values: Values,
        returns: ReturnValue,
    ) -> Result<Result<Option<Item>, Refused>, StoreError> {
        let request = self
            .client
            .update_item()
            .table_name(&self.layout.table)
            .set_key(Some(self.layout.key(place).collect()))
            .set_update_expression(statement.update.clone())
            .condition_expression(&statement.condition)
            .set_expression_attribute_names(Some(statement.names.clone()))
            .set_expression_attribute_values(Some(values.0))
            .return_values(returns)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .customize()
            .interceptor(call.writes())
            .send();
        let answer = call.write(request).await?;
        self.explained(call, place, answer.map(|reply| reply.attributes)).await
    }

    /// A refusal with the item that is there, also from a service that does not send it along: only
    /// then, and when nothing is there, this is a request more.
    async fn explained<T: Send>(
        &self,
        call: &Call,
        place: &StorageKey,
        answer: Result<T, Refused>,
    ) -> Result<Result<T, Refused>, StoreError> {
        match answer {
            Err(Refused(None)) => Ok(Err(Refused(self.look(call, place).await?))),
            answer => Ok(answer),
        }
    }

    /// Lets `decide` decide about what is there, and writes it unless that has changed meanwhile.
    ///
    /// `now` was read before `item` was: a deadline that is over by then was over when the item was
    /// read. The other way round, a record that is renewed between the two would be judged by its old
    /// deadline.
    pub(crate) async fn decide<A>(
        &self,
        call: &Call,
        place: &StorageKey,
        mut item: Option<Item>,
        mut now: Now,
        decide: impl Fn(Option<&Record>, Now) -> Result<Decision<A>, StoreError> + Send + Sync,
    ) -> Result<A, StoreError> {
        for _ in 0..MAX_ROUNDS {
            let seen = self.read(call, place, item.as_mut())?;
            let decision = decide(seen.as_ref(), now).map_err(|error| call.failed(error))?;
            let Write::Put(record) = decision.write else {
                return Ok(decision.answer);
            };
            now = self.now();
            let condition = match &item {
                None => (self.statements.claim.clone(), None),
                Some(item) => {
                    let (statement, values) = expression::unchanged(&self.layout, item);
                    (statement, Some(values))
                }
            };
            item = match self.put(call, place, &record, condition).await? {
                Ok(()) => return Ok(decision.answer),
                Err(Refused(item)) => item,
            };
            // an earlier try of this very write was applied, and its answer lost
            if self.read(call, place, item.clone().as_mut())?.as_ref() == Some(&record) {
                return Ok(decision.answer);
            }
        }
        Err(call.failed(conflict(call.operation)))
    }
}
