//! The program, as it is called.

#[cfg(test)]
mod conformance;
