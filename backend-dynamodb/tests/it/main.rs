//! The store on an emulator, and on whatever `DYNAMODB_URL` names.

mod conformance;
mod support;
