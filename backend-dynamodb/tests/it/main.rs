//! The store on an emulator, or on what `DYNAMODB_URL` names.

#[cfg(test)]
mod clocks;
#[cfg(test)]
mod conformance;
#[cfg(test)]
#[cfg(feature = "aws-config")]
mod encrypted;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod foreign;
#[cfg(test)]
mod operator;
#[cfg(test)]
mod races;
#[cfg(test)]
mod sizes;
#[cfg(test)]
mod support;
#[cfg(test)]
mod tables;
#[cfg(test)]
mod transactions;
#[cfg(test)]
mod trips;
