use std::fmt;

/// Where the records are: the quoted names of the table and of what belongs to it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Names {
    schema: Box<str>,
    table: Box<str>,
}

/// Why the name of a schema or a table is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the {what} name {name:?} is refused: use 1 to {longest} bytes without `$` and control characters"
)]
pub struct NameError {
    what: &'static str,
    name: String,
    longest: usize,
}

/// What `PostgreSQL` keeps of a name.
const LONGEST: usize = 63;
/// The longest suffix that [`Names`] gives to a table's name.
const SUFFIX: &str = "_complete_many_v1";

impl Names {
    pub(crate) const DEFAULT_SCHEMA: &str = "public";
    pub(crate) const DEFAULT_TABLE: &str = "idempotency_keys";

    pub(crate) fn new(schema: &str, table: &str) -> Result<Self, NameError> {
        let schema = checked("schema", schema, LONGEST)?;
        let table = checked("table", table, LONGEST - SUFFIX.len())?;
        Ok(Self { schema, table })
    }

    pub(crate) fn schema(&self) -> &str {
        &self.schema
    }

    pub(crate) fn bare_table(&self) -> &str {
        &self.table
    }

    /// The schema, quoted.
    pub(crate) fn quoted_schema(&self) -> String {
        quoted(&self.schema)
    }

    /// The table, quoted, in its schema.
    pub(crate) fn table(&self) -> String {
        format!("{}.{}", quoted(&self.schema), quoted(&self.table))
    }

    /// One of the functions, quoted, in its schema. A function whose arguments or answers change gets
    /// another number, so that two releases can work with one table.
    pub(crate) fn function(&self, verb: &str) -> String {
        format!("{}.{}", quoted(&self.schema), quoted(&self.bare_function(verb)))
    }

    pub(crate) fn bare_function(&self, verb: &str) -> String {
        format!("{}_{verb}_v1", self.table)
    }

    pub(crate) fn sweep_index(&self) -> String {
        quoted(&format!("{}_sweep_at", self.table))
    }

    /// The channel on which waiters are told.
    pub(crate) fn channel(&self) -> String {
        format!("{}_ended", self.table)
    }
}

impl Default for Names {
    fn default() -> Self {
        Self { schema: Self::DEFAULT_SCHEMA.into(), table: Self::DEFAULT_TABLE.into() }
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.table())
    }
}

/// `$` would end the quotes around the bodies of the functions.
fn checked(what: &'static str, name: &str, longest: usize) -> Result<Box<str>, NameError> {
    let fits = (1..=longest).contains(&name.len());
    if fits && !name.chars().any(|c| c.is_control() || c == '$') {
        return Ok(name.into());
    }
    Err(NameError { what, name: name.chars().take(LONGEST).collect(), longest })
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as a constant of SQL, whatever `standard_conforming_strings` says.
pub(crate) fn literal(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_so_that_they_stay_names() {
        let names = Names::new("a b", "x\"; DROP TABLE y; --").unwrap();
        assert_eq!(names.table(), "\"a b\".\"x\"\"; DROP TABLE y; --\"");
        assert_eq!(names.function("claim"), "\"a b\".\"x\"\"; DROP TABLE y; --_claim_v1\"");
        assert_eq!(literal("it's \\ x"), "E'it\\'s \\\\ x'");
    }

    #[test]
    fn names_that_cannot_be_quoted_are_refused_with_the_rule() {
        for bad in ["", "a\0b", "$idempotency$", &"t".repeat(47)] {
            let error = Names::new("public", bad).unwrap_err().to_string();
            assert!(error.contains("1 to 46 bytes"), "{error}");
        }
        assert!(Names::new(&"s".repeat(63), &"t".repeat(46)).is_ok());
        assert!(Names::new(&"s".repeat(64), "t").is_err());
    }
}
