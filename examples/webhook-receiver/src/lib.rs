#![doc = include_str!("../README.md")]

mod app;
mod arguments;
mod event;
mod inbox;
mod problem;
mod receiver;
mod secret;
mod signature;

pub use arguments::Arguments;
pub use receiver::Receiver;
pub use secret::Secret;
