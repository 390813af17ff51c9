//! Records, as they are shown. Never the key, the scope or the answer itself, unless asked for.

pub(crate) mod answer;
mod view;

pub(crate) use view::{RecordView, Shown, ago, state_of};
