//! How much of an item's 400 KB a record takes.
//!
//! The service counts the UTF-8 bytes of names and texts, the bytes of binary values, and for a number
//! one byte for each two digits and one more:
//! <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html>

use idempotency_core::{Fingerprint, IdempotencyKey, Namespace, Scope};

use crate::layout::{Attribute, Layout};

/// The largest item, with its names.
pub(crate) const MAX_ITEM_BYTES: usize = 400 * 1_024;

/// Bytes of a number of at most this many digits.
const fn number(digits: usize) -> usize {
    digits.div_ceil(2) + 1
}

/// The most bytes that the value of an attribute takes, without those whose length is free.
const fn value_bytes(attribute: Attribute) -> usize {
    match attribute {
        Attribute::Format => number(3),
        // the longest of the words is `in_progress`
        Attribute::State => 11,
        Attribute::Token => 16,
        // the epoch has 10 digits until 2286
        Attribute::Attempt | Attribute::DeleteAfter => number(10),
        Attribute::Fingerprint => Fingerprint::STORED_BYTES,
        Attribute::RetentionMs => number(12),
        Attribute::RetentionS => number(9),
        // 13 digits last until the year 2286
        Attribute::FirstClaimedAt
        | Attribute::ClaimedAt
        | Attribute::LeaseUntil
        | Attribute::EndedAt
        | Attribute::ExpiresAt => number(13),
        Attribute::Sequence => number(20),
        Attribute::Checkpoint | Attribute::Response => 0,
        // a namespace, `#`, and the number of a shard
        Attribute::Unsettled => 64 + 1 + 2,
        Attribute::Joined => 1,
    }
}

/// Attributes of every record.
const ALWAYS: [Attribute; 10] = [
    Attribute::Format,
    Attribute::State,
    Attribute::Token,
    Attribute::Attempt,
    Attribute::Fingerprint,
    Attribute::RetentionMs,
    Attribute::RetentionS,
    Attribute::FirstClaimedAt,
    Attribute::ClaimedAt,
    Attribute::ExpiresAt,
];

/// Bytes that are left for the response of a completed record, whatever its key.
pub(crate) fn most_response_bytes(layout: &Layout, namespace: &Namespace) -> usize {
    let others =
        [Attribute::DeleteAfter, Attribute::EndedAt, Attribute::Response, Attribute::Joined];
    left(layout, namespace, &others)
}

/// Bytes that are left for the checkpoint of a record in progress, whatever its key.
pub(crate) fn most_checkpoint_bytes(layout: &Layout, namespace: &Namespace) -> usize {
    let others = [
        Attribute::DeleteAfter,
        Attribute::LeaseUntil,
        // a released record keeps its checkpoint
        Attribute::EndedAt,
        Attribute::Sequence,
        Attribute::Checkpoint,
        Attribute::Unsettled,
    ];
    left(layout, namespace, &others)
}

fn left(layout: &Layout, namespace: &Namespace, others: &[Attribute]) -> usize {
    let attributes = ALWAYS.iter().chain(others);
    let taken = attributes.map(|attribute| layout.name(*attribute).len() + value_bytes(*attribute));
    let key = layout.key_bytes(longest_place(namespace));
    MAX_ITEM_BYTES.saturating_sub(taken.sum::<usize>() + key)
}

/// Bytes of the longest storage key of a namespace.
fn longest_place(namespace: &Namespace) -> usize {
    // scope and key have at most 255 bytes, each of which takes at most three in a storage key; keyed
    // digests are all of one length
    const WORST: usize = 255 * 3;
    let Ok(probe) = IdempotencyKey::new(Scope::global(), "k") else {
        return 2_048;
    };
    let place = namespace.storage_key(&probe);
    let open = format!("{}//k", namespace.name());
    if place.as_str() == open {
        namespace.name().len() + 2 + 2 * WORST
    } else {
        place.as_str().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_a_byte_for_two_digits_and_one_more() {
        assert_eq!([1, 2, 3, 13, 20].map(number), [2, 2, 3, 8, 11]);
    }

    #[test]
    fn longer_names_and_namespaces_leave_less() {
        let layout = Layout::new("table").unwrap();
        let namespace = Namespace::default();
        let most = most_response_bytes(&layout, &namespace);
        // a response of nearly 400 KB fits
        assert!((400_000..MAX_ITEM_BYTES).contains(&most), "{most}");
        let mut longer = layout.clone();
        longer.set_name(Attribute::Response, "response_of_the_handler").unwrap();
        assert_eq!(most_response_bytes(&longer, &namespace), most - 15);
        longer.set_sort_key("sk", "idempotency").unwrap();
        assert_eq!(most_response_bytes(&longer, &namespace), most - 15 - 13);
        let other = Namespace::new("idempotency-2").unwrap();
        assert_eq!(most_response_bytes(&layout, &other), most - 2);
        let keyed = Namespace::default().with_secret("secret");
        assert_eq!(most_response_bytes(&layout, &keyed), most + 2 * 765 + 2 - 66);
        assert!(most_checkpoint_bytes(&layout, &namespace) < most);
    }
}
