use serde::{Deserialize, Serialize};

use crate::{ledger::Effect, source::Source};

/// More than any card has, and it fits any database's numbers.
const MOST: u64 = 999_999_999_999;

/// What a client asks for, of a charge as of a refund.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Order {
    /// In the currency's smallest unit, 1 to [`MOST`].
    pub(crate) amount: u64,
    /// Three lower-case letters.
    pub(crate) currency: String,
    pub(crate) source: Source,
    pub(crate) customer: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Charge,
    Refund,
}

/// What a client gets.
#[derive(Debug, Serialize)]
pub(crate) struct Receipt {
    pub(crate) id: String,
    object: Kind,
    amount: u64,
    currency: String,
    customer: String,
    status: &'static str,
}

impl Kind {
    pub(crate) fn new_id(self) -> String {
        let prefix = match self {
            Self::Charge => "ch",
            Self::Refund => "re",
        };
        format!("{prefix}_{}", uuid::Uuid::now_v7().simple())
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Charge => "charge",
            Self::Refund => "refund",
        }
    }

    pub(crate) fn path(self, id: &str) -> String {
        match self {
            Self::Charge => format!("/v1/charges/{id}"),
            Self::Refund => format!("/v1/refunds/{id}"),
        }
    }
}

impl Order {
    /// What is wrong with it, if anything.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        if self.amount == 0 || self.amount > MOST {
            Some("`amount` must be 1 to 999999999999, in the currency's smallest unit.")
        } else if self.currency.len() != 3 || !self.currency.bytes().all(|b| b.is_ascii_lowercase())
        {
            Some("`currency` must be three lower-case letters, like `eur`.")
        } else if self.customer.is_empty() || self.customer.contains('\0') {
            // a database has no place for U+0000, and a client would try again for ever
            Some("`customer` must not be empty, and must not contain U+0000.")
        } else {
            None
        }
    }
}

impl From<Effect> for Receipt {
    fn from(effect: Effect) -> Self {
        Self {
            id: effect.id,
            object: effect.kind,
            amount: effect.amount,
            currency: effect.currency,
            customer: effect.customer,
            status: "succeeded",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kind of fault: what no database takes is told to be a failure that passes (H-15).
    #[test]
    fn an_order_that_cannot_be_written_down_is_refused() {
        let fault = |amount, currency: &str, customer: &str| {
            let (currency, customer) = (currency.into(), customer.into());
            Order { amount, currency, source: Source::Visa, customer }.fault()
        };
        assert_eq!(fault(MOST, "eur", "cus_\u{1F375}"), None);
        for (amount, currency, customer, named) in [
            (0, "eur", "c", "amount"),
            (MOST + 1, "eur", "c", "amount"),
            (1, "EUR", "c", "currency"),
            (1, "eur", "", "customer"),
            (1, "eur", "a\0b", "customer"),
        ] {
            let told = fault(amount, currency, customer).unwrap();
            assert!(told.contains(named), "{told}");
        }
    }
}
