//! The text format of Prometheus, as far as our exporter writes it.

use std::collections::{BTreeMap, BTreeSet};

/// What one scrape has shown.
#[derive(Debug, Default)]
pub(crate) struct Scrape {
    series: Vec<Series>,
    /// Name and kind, as `# TYPE` says.
    pub(crate) types: BTreeMap<String, String>,
    /// Names with a `# HELP`.
    pub(crate) explained: BTreeSet<String>,
}

/// One line.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) value: f64,
}

impl Scrape {
    pub(crate) fn parse(text: &str) -> Self {
        let mut scrape = Self::default();
        for line in text.lines().filter(|line| !line.is_empty()) {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').expect(line);
                scrape.types.insert(name.into(), kind.into());
            } else if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').expect(line);
                assert!(!help.is_empty(), "{line}");
                scrape.explained.insert(name.into());
            } else {
                scrape.series.push(Series::parse(line));
            }
        }
        scrape
    }

    /// All series of this name.
    pub(crate) fn of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Series> {
        self.series.iter().filter(move |series| series.name == name)
    }

    /// The value of the only series with at least these labels, written `name=value,…`.
    pub(crate) fn value(&self, name: &str, labels: &str) -> Option<f64> {
        let wanted: Vec<_> = labels.split(',').filter_map(|pair| pair.split_once('=')).collect();
        let fits = |series: &&Series| {
            wanted.iter().all(|(key, value)| series.labels.get(*key).is_some_and(|v| v == value))
        };
        let found: Vec<_> = self.of(name).filter(fits).collect();
        match found.as_slice() {
            [one] => Some(one.value),
            _ => None,
        }
    }
}

impl Series {
    fn parse(line: &str) -> Self {
        let (series, value) = line.rsplit_once(' ').expect(line);
        let (name, labels) = match series.split_once('{') {
            None => (series, ""),
            Some((name, labels)) => (name, labels.strip_suffix('}').expect(line)),
        };
        let labels = labels.split(',').filter(|pair| !pair.is_empty()).map(|pair| {
            let (key, value) = pair.split_once('=').expect(line);
            (key.to_owned(), value.trim_matches('"').to_owned())
        });
        Self { name: name.into(), labels: labels.collect(), value: value.parse().expect(line) }
    }
}
