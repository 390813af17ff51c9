use async_trait::async_trait;
use idempotency_core::{ErrorKind, Operation, Schema, StoreError};
use sqlx::Row;

use crate::{
    PostgresStore, error,
    names::literal,
    sql::{self, VERBS},
};

/// What there is of what has to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetUp {
    /// All of it.
    Complete,
    /// All of it, with functions of another release.
    Different,
    /// Not all of it.
    Missing,
}

/// The table, its index and the functions.
#[async_trait]
impl Schema for PostgresStore {
    fn describe(&self) -> String {
        sql::script(&self.inner.names)
    }

    async fn create(&self) -> Result<(), StoreError> {
        if self.set_up(Operation::Schema).await? == SetUp::Complete {
            return Ok(());
        }
        let names = &self.inner.names;
        // a role without CREATE on the database may own the schema
        let schema = if self.schema_exists().await? {
            String::new()
        } else {
            format!("CREATE SCHEMA IF NOT EXISTS {};", names.quoted_schema())
        };
        // one simple query is one transaction: the lock is held to its end, so of several processes
        // one creates and the others find it done
        let script = format!(
            "SELECT pg_advisory_xact_lock(hashtextextended({}, 0));\n{schema}\n{}",
            literal(&names.table()),
            sql::script(names),
        );
        let failed = |source| error::classify(Operation::Schema, source);
        let mut connection = self.inner.caller.borrow().await.map_err(failed)?;
        let script = sqlx::AssertSqlSafe(script);
        sqlx::raw_sql(script).execute(&mut *connection).await.map_err(failed)?;
        connection.give_back();
        Ok(())
    }
}

impl PostgresStore {
    async fn schema_exists(&self) -> Result<bool, StoreError> {
        let query = || {
            sqlx::query("SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)")
                .bind(self.inner.names.schema())
        };
        let row = self.inner.caller.row(Operation::Schema, &query).await?;
        row.try_get(0).map_err(|source| error::classify(Operation::Schema, source))
    }

    pub(crate) async fn set_up(&self, operation: Operation) -> Result<SetUp, StoreError> {
        const LOOK: &str = "SELECT
            (SELECT count(*) FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace
                WHERE s.nspname = $1 AND c.relname = $2 AND c.relkind IN ('r', 'p')),
            ARRAY(SELECT concat(array_to_string(p.proconfig, ','), p.prosrc) FROM unnest($3) WITH ORDINALITY AS w (name, ord)
                JOIN pg_proc p ON p.proname = w.name
                JOIN pg_namespace s ON s.oid = p.pronamespace AND s.nspname = $1
                ORDER BY w.ord)";
        let names = &self.inner.names;
        let functions: Vec<_> = VERBS.iter().map(|verb| names.bare_function(verb)).collect();
        let query =
            || sqlx::query(LOOK).bind(names.schema()).bind(names.bare_table()).bind(&functions);
        let row = self.inner.caller.row(operation, &query).await?;
        let failed = |source| error::classify(operation, source);
        let tables: i64 = row.try_get(0).map_err(failed)?;
        let found: Vec<String> = row.try_get(1).map_err(failed)?;
        if tables == 0 || found.len() != VERBS.len() {
            return Ok(SetUp::Missing);
        }
        let same = sql::functions(names).zip(&found).all(|(ours, theirs)| ours == *theirs);
        Ok(if same { SetUp::Complete } else { SetUp::Different })
    }

    /// # Errors
    /// The table or its functions are missing.
    pub(crate) async fn check_schema(&self, operation: Operation) -> Result<(), StoreError> {
        match self.set_up(operation).await? {
            // functions of the same number answer the same questions
            SetUp::Complete | SetUp::Different => Ok(()),
            SetUp::Missing => {
                let detail = format!(
                    "the table {} or its functions are missing: set them up with \
                     `idempotency schema URL --apply`, `create=on` in the store URL, or Schema::create",
                    self.inner.names.table()
                );
                Err(StoreError::new(operation, ErrorKind::Invalid, detail).without_effect())
            }
        }
    }
}
