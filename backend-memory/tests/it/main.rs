//! The store, as the conformance suite sees it.

#[cfg(test)]
mod conformance;
