use idempotency_core::{ErrorKind, Operation, StoreError};
use redis::{Pipeline, Value, cmd};

use crate::{
    RedisStore,
    nodes::parts,
    page::{Mark, Page, Scan},
};

/// How many keys a `SCAN` looks at: less than a millisecond of the server's time. Not fewer for short pages: where
/// the server holds much else, most scans find nothing.
const A_SCAN: usize = 1_000;

impl RedisStore {
    /// Scans from where `page` begins, for as many keys as a page holds. A server can find more than that also
    /// when it is told to look at one alone: those that it keeps in the same place.
    pub(crate) async fn scan(
        &self,
        page: &Page,
        pattern: &str,
        limit: usize,
    ) -> Result<Scan, StoreError> {
        let mut count = A_SCAN;
        loop {
            let scan = self.scan_once(page, pattern, count).await?;
            let found = scan.unshown.len();
            if found <= limit || count == 1 {
                return Ok(scan);
            }
            // a little fewer than would fit if the rest were like this
            count = (count * limit / found * 3 / 4).clamp(1, count / 2);
        }
    }

    async fn scan_once(
        &self,
        page: &Page,
        pattern: &str,
        count: usize,
    ) -> Result<Scan, StoreError> {
        let mut scan = cmd("SCAN");
        scan.arg(page.cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(count);
        let mut info = cmd("INFO");
        info.arg("server");
        let mut commands = Pipeline::with_capacity(2);
        commands.add_command(scan).add_command(info).ignore_errors();
        let failed = |error| self.failed_to_read(Operation::List, &error);
        let replies = self.inner.link.commands_to(&page.node, commands).await.map_err(&failed)?;
        let mut replies = replies.into_iter().map(Value::extract_error);
        let found = replies.next().unwrap_or(Ok(Value::Nil)).map_err(&failed)?;
        // not everybody may ask it; then it is not known
        let run = replies.next().and_then(Result::ok).and_then(run_of);
        if !page.is_known_to(run) {
            return Err(begin_again());
        }
        let mut found = parts(found).into_iter();
        let (Some(Value::BulkString(cursor)), Some(keys)) = (found.next(), found.next()) else {
            return Err(no_scan());
        };
        let cursor = String::from_utf8(cursor).ok().and_then(|cursor| cursor.parse().ok());
        let unshown = page.unshown(parts(keys).into_iter().filter_map(text));
        Ok(Scan { unshown, cursor: cursor.ok_or_else(no_scan)?, run })
    }
}

/// Who the process is.
fn run_of(info: Value) -> Option<Mark> {
    let info: String = redis::from_redis_value(info).ok()?;
    info.lines().find_map(|line| line.strip_prefix("run_id:")).map(Mark::of)
}

fn text(key: Value) -> Option<String> {
    match key {
        Value::BulkString(key) => String::from_utf8(key).ok(),
        _ => None,
    }
}

fn no_scan() -> StoreError {
    let detail = "the server's answer to SCAN is none that this release knows";
    StoreError::new(Operation::List, ErrorKind::Unexpected, detail).without_effect()
}

/// A cursor means nothing to another server.
pub(crate) fn begin_again() -> StoreError {
    let detail = "a server was restarted, failed over, came or went since the list began, so that it could \
                  not be whole: begin again without a page";
    StoreError::new(Operation::List, ErrorKind::Invalid, detail).without_effect()
}
