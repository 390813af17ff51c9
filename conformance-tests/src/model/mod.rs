//! Random programs that give the same answers on a store and on the machine.

mod generate;
mod program;
mod reference;

pub(crate) use generate::search;
pub(crate) use program::{Program, kept};
pub(crate) use reference::agrees;
