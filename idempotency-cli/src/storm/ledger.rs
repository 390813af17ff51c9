//! What really happened: one line for each event, never de-duplicated, never changed.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};

/// One event of a payment at the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) payment: u64,
    /// Which attempt the work was told that it is; none in the world without keys.
    pub(super) told: Option<u32>,
    pub(super) what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum What {
    /// Work began.
    Began,
    /// The customer was charged.
    Charged,
    /// A later attempt asked the provider, and the charge was made already.
    Found,
}

/// Where the events are written.
#[derive(Debug)]
pub(super) enum Ledger {
    /// In this process.
    Here(Mutex<Vec<Entry>>),
    /// In a file that several processes append to, each event with one write: what a process has
    /// written stays when it is killed.
    Shared(PathBuf, File),
}

impl Ledger {
    pub(super) const fn here() -> Self {
        Self::Here(Mutex::new(Vec::new()))
    }

    /// A file that exists.
    pub(super) fn shared(file: &Path) -> io::Result<Self> {
        let opened = OpenOptions::new().append(true).open(file)?;
        Ok(Self::Shared(file.to_owned(), opened))
    }

    pub(super) fn write(&self, entry: Entry) -> io::Result<()> {
        match self {
            Self::Here(entries) => {
                entries.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
                Ok(())
            }
            Self::Shared(_, file) => {
                let mut line = serde_json::to_vec(&entry)?;
                line.push(b'\n');
                let mut file: &File = file;
                file.write_all(&line)
            }
        }
    }

    /// What a provider answers who is asked for a payment.
    pub(super) fn has_charge(&self, payment: u64) -> io::Result<bool> {
        let is_it = |entry: &Entry| entry.payment == payment && entry.what == What::Charged;
        Ok(self.entries()?.iter().any(is_it))
    }

    /// All events, in their order.
    pub(super) fn entries(&self) -> io::Result<Vec<Entry>> {
        match self {
            Self::Here(entries) => {
                Ok(entries.lock().unwrap_or_else(PoisonError::into_inner).clone())
            }
            Self::Shared(path, _) => {
                let text = fs::read_to_string(path)?;
                // of a line that is being written there is no more yet than the beginning
                let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
                whole.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_ledger_keeps_the_lines_of_all_writers_in_order() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let [a, b] = [(); 2].map(|()| Ledger::shared(file.path()).unwrap());
        let entry = |payment, what| Entry { payment, told: Some(2), what };
        let entries = [entry(1, What::Began), entry(2, What::Found), entry(1, What::Charged)];
        a.write(entries[0]).unwrap();
        b.write(entries[1]).unwrap();
        a.write(entries[2]).unwrap();
        assert_eq!(b.entries().unwrap(), entries);
        assert!(b.has_charge(1).unwrap() && !a.has_charge(2).unwrap());
        // a line that is damaged is an error, not a charge that never happened
        fs::write(file.path(), "{\"payment\":1}\n").unwrap();
        assert!(a.entries().is_err());
    }
}
