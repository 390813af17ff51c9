use serde::{Deserialize, Serialize};

/// One line of input.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Line {
    pub(crate) scope: String,
    pub(crate) key: String,
    pub(crate) body: Order,
    #[serde(default)]
    pub(crate) parallel: bool,
    #[serde(default)]
    pub(crate) wait_ms: u64,
}

/// What is ordered: the request that the key stands for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Order {
    pub(crate) item: String,
    /// In cents.
    pub(crate) amount: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) simulate: Option<Simulate>,
}

/// What is to happen while the order is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Simulate {
    Slow,
    Declined,
    UnavailableOnce,
    PanicAfterEffect,
    VanishAfterEffect,
}

impl Line {
    /// The line, or what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| format!("not an operation: {error}"))
    }
}
