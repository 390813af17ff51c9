//! The program, as it is called.

#[cfg(test)]
mod backend;
#[cfg(test)]
mod calls;
#[cfg(test)]
mod conformance;
#[cfg(test)]
mod generated;
#[cfg(test)]
mod records;
#[cfg(test)]
mod storm;
#[cfg(test)]
mod support;
#[cfg(test)]
mod terminal;
#[cfg(test)]
mod verbs;
