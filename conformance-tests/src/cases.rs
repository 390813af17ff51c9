use std::{fmt, future::Future, pin::Pin};

use crate::{clause::Clause, failure::Verdict, subject::Subject};

type Running<'a> = Pin<Box<dyn Future<Output = Verdict> + Send + 'a>>;

/// One case of the suite.
#[derive(Clone, Copy)]
pub struct Case {
    name: &'static str,
    clause: Clause,
    run: for<'a> fn(&'a Subject) -> Running<'a>,
}

impl Case {
    /// `module::what_must_be_so`
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The clause that it shows.
    pub const fn clause(&self) -> Clause {
        self.clause
    }

    pub(crate) fn run<'a>(&self, subject: &'a Subject) -> Running<'a> {
        (self.run)(subject)
    }

    /// Whether `filter` is part of its name or of its clause's id.
    pub fn matches(&self, filter: &str) -> bool {
        self.name.contains(filter) || self.clause.id().eq_ignore_ascii_case(filter)
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.clause, self.name)
    }
}

macro_rules! listing {
    ({} $($module:ident { $($case:ident: $clause:ident,)* })*) => {
        /// Every case, in the order of the list.
        pub const CASES: &[Case] = &[$($(
            Case {
                name: concat!(stringify!($module), "::", stringify!($case)),
                clause: Clause::$clause,
                run: |subject| Box::pin(crate::case::$module::$case(subject)),
            },
        )*)*];
    };
}

crate::__for_each_case! { listing {} }

/// A clause without a case does not compile.
#[expect(clippy::indexing_slicing, reason = "const, and within the length")]
const _: () = {
    let mut clause = 0;
    while clause < Clause::ALL.len() {
        assert!(is_shown(Clause::ALL[clause]), "a clause of the contract has no case");
        clause += 1;
    }
};

#[expect(clippy::indexing_slicing, reason = "const, and within the length")]
const fn is_shown(clause: Clause) -> bool {
    let mut case = 0;
    while case < CASES.len() {
        if CASES[case].clause as usize == clause as usize {
            return true;
        }
        case += 1;
    }
    false
}
