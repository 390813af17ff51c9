//! The store on an emulator, or on what `DYNAMODB_URL` names.

#[cfg(test)]
mod conformance;
#[cfg(test)]
mod support;
