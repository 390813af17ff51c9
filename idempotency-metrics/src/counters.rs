use metrics::Counter;

/// One counter for each value of a label. All are registered from the beginning: a rare outcome is seen
/// going from 0 to 1, which is what alerts look for.
#[derive(Debug)]
pub(crate) struct Counters<K: 'static> {
    values: &'static [(K, &'static str)],
    counters: Box<[Counter]>,
}

impl<K: PartialEq + 'static> Counters<K> {
    pub(crate) fn new(
        values: &'static [(K, &'static str)],
        register: impl FnMut(&'static str) -> Counter,
    ) -> Self {
        let counters = values.iter().map(|(_, name)| *name).map(register).collect();
        Self { values, counters }
    }

    /// Counts one of `value`, or of the last one when the table has no such value.
    pub(crate) fn add_one(&self, value: &K) {
        let at = position(self.values, value);
        if let Some(counter) = self.counters.get(at) {
            counter.increment(1);
        }
    }
}

/// Where `value` stands; what is not in the table counts as its last.
pub(crate) fn position<K: PartialEq>(values: &[(K, &str)], value: &K) -> usize {
    let found = values.iter().position(|(known, _)| known == value);
    found.unwrap_or(values.len().saturating_sub(1))
}
