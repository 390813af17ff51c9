use std::{fmt, str::FromStr};

/// Makes [`Clause`] and everything that lists clauses from one table.
macro_rules! clauses {
    ($($id:ident $rule:literal)*) => {
        /// A clause of the contract that every store and the executor keep.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Clause {
            $(#[doc = $rule] $id,)*
        }

        impl Clause {
            /// All of them, in the order of the contract.
            pub const ALL: &'static [Self] = &[$(Self::$id,)*];

            /// `C00` to `C63`.
            pub const fn id(self) -> &'static str {
                match self { $(Self::$id => stringify!($id),)* }
            }

            /// What it asks for, in one line.
            pub const fn rule(self) -> &'static str {
                match self { $(Self::$id => $rule,)* }
            }
        }
    };
}

clauses! {
    C00 "what cannot be read is an error: never absent, overwritten or swept"
    C01 "an absent key is acquired as attempt 1, with nothing of an expired record"
    C02 "of concurrent claims exactly one is acquired"
    C03 "an own token claims again; a released one is spent"
    C04 "a live claim of another answers in progress and changes nothing"
    C05 "a completed key is replayed byte for byte"
    C06 "another fingerprint is a mismatch in every state"
    C07 "a take-over is the next attempt and gets the last checkpoint"
    C08 "a claim that refuses take-over is told what is abandoned"
    C09 "acquired tells the attempt and what is left of the lease"
    C10 "the holder's completion is stored and its retention counts from then"
    C11 "completed again by the same attempt: the first response stays"
    C12 "nobody else completes"
    C13 "the holder completes after its lease and after its own release"
    C14 "a completion whose record is gone restores it and says so"
    C20 "a renewal lengthens the lease, never shortens it, and may leave a checkpoint"
    C21 "nobody else renews, and a renewal never creates"
    C22 "an older renewal changes nothing"
    C25 "not started frees the key of attempt 1, and only of attempt 1"
    C26 "failed and unknown are marked and kept for the retention"
    C27 "nobody else releases, and nothing completed is released"
    C28 "a repeated release, or one of a gone record, is released"
    C29 "a token given back as not started is remembered"
    C30 "past its retention a record counts as absent"
    C31 "how long a record lives follows from its state"
    C32 "every duration that the types allow is kept, rounded up"
    C33 "one clock decides"
    C34 "two keys, scopes or namespaces never meet"
    C35 "another key's record is an error, not an answer"
    C40 "responses come back identical or are refused without effect"
    C41 "checkpoints are limited, and what the limits allow fits"
    C45 "a dropped future leaves an allowed state and a working store"
    C46 "a claim that nobody listens to holds for at most its lease"
    C47 "tokens are random, one an attempt, never used again"
    C50 "an error says what may have happened, and every operation may be repeated, also late"
    C51 "every operation ends in time"
    C55 "a sweep removes only what is past its retention, in bounded batches"
    C60 "the history of a key is linearizable"
    C61 "work starts only while its lease lasts"
    C62 "one renewal at a time, none beside a completion, no completion after lost"
    C63 "a recovery verdict counts only for the attempt it judged"
}

impl fmt::Display for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.id())
    }
}

impl FromStr for Clause {
    type Err = UnknownClause;

    fn from_str(id: &str) -> Result<Self, UnknownClause> {
        let same = |clause: &&Self| clause.id().eq_ignore_ascii_case(id);
        Self::ALL.iter().find(same).copied().ok_or_else(|| UnknownClause(id.to_owned()))
    }
}

/// No clause has this id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no clause of the contract")]
pub struct UnknownClause(String);
