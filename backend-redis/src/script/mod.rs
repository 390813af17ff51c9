//! The scripts: each is one atomic step on one key.

use std::sync::LazyLock;

use redis::{Cmd, Script as Hashed};

/// A script, as the server knows it.
pub(crate) struct Script {
    text: &'static str,
    hash: LazyLock<String>,
}

macro_rules! scripts {
    ($($name:ident = $($file:literal)+;)*) => {$(
        pub(crate) static $name: Script = {
            const TEXT: &str = concat!($(include_str!($file)),+);
            Script { text: TEXT, hash: LazyLock::new(|| Hashed::new(TEXT).get_hash().to_owned()) }
        };
    )*};
}

scripts! {
    CLAIM = "record.lua" "claim.lua";
    COMPLETE = "complete.lua" "record.lua" "complete_rest.lua";
    RENEW = "record.lua" "renew.lua";
    RELEASE = "record.lua" "release.lua";
    SETTLE = "record.lua" "settle.lua";
    LOOKUP = "record.lua" "lookup.lua";
    WATCH = "record.lua" "watch.lua";
}

impl Script {
    /// Runs it, for a server that has it already. That is so after the first time, and until the
    /// server is restarted, fails over, or is told to forget its scripts.
    pub(crate) fn known(&self, key: &str, arguments: &[&[u8]]) -> Cmd {
        Self::call("EVALSHA", &self.hash, key, arguments)
    }

    /// Runs it and lets the server keep it: on the very node that has to, in a Cluster.
    pub(crate) fn whole(&self, key: &str, arguments: &[&[u8]]) -> Cmd {
        Self::call("EVAL", self.text, key, arguments)
    }

    fn call(name: &str, script: &str, key: &str, arguments: &[&[u8]]) -> Cmd {
        let size = arguments.iter().map(|argument| argument.len()).sum::<usize>();
        let mut call =
            Cmd::with_capacity(arguments.len() + 4, size + script.len() + key.len() + 16);
        call.arg(name).arg(script).arg(1).arg(key);
        for argument in arguments {
            call.arg(*argument);
        }
        call
    }
}
