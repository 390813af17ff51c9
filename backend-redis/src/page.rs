use std::fmt;

use crate::{nodes::Node, wire::Name};

/// Where a list goes on: `CURSOR.SERVERS.RUN.` and the names that are left out, in a Cluster with
/// `@HOST:PORT` behind them.
///
/// What is there all the time is found by a chain of `SCAN`s of which each one begins with the cursor that
/// the one before it gave: so the server promises, however often it sorts its keys anew meanwhile. Therefore
/// a list goes on to the next cursor only when every key of a scan has been shown, and a scan that finds more
/// than a page holds is done again, from the same cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) node: Node,
    /// Of `SCAN`: the scan of this page begins here.
    pub(crate) cursor: u64,
    /// Stands for all the servers that take writes.
    servers: Mark,
    /// Stands for the process that gave the cursor, where it may be asked who it is. No other one knows it.
    run: Option<Mark>,
    /// What a scan from here can find and the pages before this one have shown. Names and not keys: those are
    /// nobody's but the client's.
    shown: Vec<Name>,
}

/// What a scan has found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Scan {
    /// The keys that no page has shown, with their names.
    pub(crate) unshown: Vec<(Name, String)>,
    /// Where the next scan begins; 0 at the end.
    pub(crate) cursor: u64,
    /// The process that was asked.
    pub(crate) run: Option<Mark>,
}

/// Tells things apart that are rarely different.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark(u32);

impl Mark {
    pub(crate) fn of(text: &str) -> Self {
        let Name([a, b, c, d, ..]) = Name::of(text);
        Self(u32::from_be_bytes([a, b, c, d]))
    }

    fn of_all(nodes: &[Node]) -> Self {
        Self::of(&nodes.iter().map(Node::to_string).collect::<Vec<_>>().join(","))
    }
}

impl Page {
    /// The first one; none when there are no servers.
    pub(crate) fn first(primaries: &[Node]) -> Option<Self> {
        Some(Self::beginning(primaries.first()?, Mark::of_all(primaries)))
    }

    fn beginning(node: &Node, servers: Mark) -> Self {
        Self { node: node.clone(), cursor: 0, servers, run: None, shown: Vec::new() }
    }

    /// Whether the list began with these servers.
    pub(crate) fn is_of(&self, primaries: &[Node]) -> bool {
        self.servers == Mark::of_all(primaries)
    }

    /// Whether this process knows the cursor, as far as can be told.
    pub(crate) fn is_known_to(&self, run: Option<Mark>) -> bool {
        self.cursor == 0 || self.run.is_none() || run.is_none() || self.run == run
    }

    /// Those of the keys that no page before this one has shown, each one once.
    pub(crate) fn unshown(&self, keys: impl Iterator<Item = String>) -> Vec<(Name, String)> {
        let named = keys.map(|key| (Name::of(&key), key));
        let mut keys: Vec<_> = named.filter(|(name, _)| !self.shown.contains(name)).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// The keys that this page shows, and the page behind it.
    pub(crate) fn shows(
        mut self,
        scan: Scan,
        limit: usize,
        primaries: &[Node],
    ) -> (Vec<(Name, String)>, Option<Self>) {
        let Scan { unshown: mut keys, cursor, run } = scan;
        if keys.len() > limit {
            keys.truncate(limit);
            self.shown.extend(keys.iter().map(|(name, _)| *name));
            return (keys, Some(Self { run, ..self }));
        }
        if cursor != 0 {
            return (keys, Some(Self { cursor, run, shown: Vec::new(), ..self }));
        }
        let next = primaries.iter().find(|node| **node > self.node);
        (keys, next.map(|node| Self::beginning(node, self.servers)))
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (place, node) = match text.split_once('@') {
            None => (text, Node::Only),
            Some((place, address)) => {
                let (host, port) = address.rsplit_once(':')?;
                (place, Node::Of { host: host.to_owned(), port: port.parse().ok()? })
            }
        };
        let mut parts = place.split('.');
        let [cursor, servers, run, shown] = [(); 4].map(|()| parts.next());
        let mark = |text: &str| u32::from_str_radix(text, 16).ok().map(Mark);
        let run = match run? {
            "" => None,
            run => Some(mark(run)?),
        };
        let page = Self {
            node,
            cursor: cursor?.parse().ok()?,
            servers: mark(servers?)?,
            run,
            shown: names(shown?)?,
        };
        parts.next().is_none().then_some(page)
    }
}

/// Of 32 characters each.
fn names(text: &str) -> Option<Vec<Name>> {
    let each = text.as_bytes().chunks(32);
    each.map(|name| {
        let name = str::from_utf8(name).ok().filter(|name| name.len() == 32)?;
        Some(Name(u128::from_str_radix(name, 16).ok()?.to_be_bytes()))
    })
    .collect()
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:x}.", self.cursor, self.servers.0)?;
        if let Some(Mark(run)) = self.run {
            write!(f, "{run:x}")?;
        }
        f.write_str(".")?;
        for Name(name) in &self.shown {
            write!(f, "{:032x}", u128::from_be_bytes(*name))?;
        }
        match &self.node {
            Node::Only => Ok(()),
            node @ Node::Of { .. } => write!(f, "@{node}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(port: u16) -> Node {
        Node::Of { host: "::1".to_owned(), port }
    }

    fn scan(keys: &[&str], cursor: u64) -> Scan {
        let page = Page::first(&[Node::Only]).unwrap();
        let unshown = page.unshown(keys.iter().map(|key| (*key).to_owned()));
        Scan { unshown, cursor, run: Some(Mark::of("run")) }
    }

    #[test]
    fn a_page_is_read_as_it_was_written_and_nothing_else_is_one() {
        for node in [Node::Only, node(7_000)] {
            for run in [None, Some(Mark(0)), Some(Mark(u32::MAX))] {
                for shown in [vec![], vec![Name([0; 16])], vec![Name([0xab; 16]), Name([1; 16])]] {
                    let servers = Mark::of("servers");
                    let page = Page { node: node.clone(), cursor: u64::MAX, servers, run, shown };
                    assert_eq!(Page::parse(&page.to_string()), Some(page));
                }
            }
        }
        for text in [
            "",
            "1",
            "a.1..",
            "1.2.",
            "1.z..",
            "1.2.z.",
            "1.2..3",
            "1.2...",
            "1.2..@host",
            "1.2..@host:99999",
            "-1.2..",
        ] {
            assert_eq!(Page::parse(text), None, "{text}");
        }
    }

    /// The cursor stays until everything that its scan finds has been shown.
    #[test]
    fn a_scan_that_finds_too_much_is_done_again_without_what_was_shown() {
        let only = [Node::Only];
        let page = Page::first(&only).unwrap();
        let found = ["a", "b", "c", "d", "e"];
        let (first, next) = page.shows(scan(&found, 7), 2, &only);
        let page = next.unwrap();
        assert_eq!((first.len(), page.cursor), (2, 0));
        // keys have come and gone meanwhile, and the server has more or fewer of them in a scan
        let all =
            page.unshown(found.iter().chain(["new", "a"].iter()).map(|key| (*key).to_owned()));
        assert_eq!(all.len(), 4);
        let (second, next) = page.shows(Scan { unshown: all, cursor: 9, run: None }, 10, &only);
        assert!(second.iter().all(|key| !first.contains(key)));
        let page = next.unwrap();
        assert_eq!((page.cursor, page.shown.len()), (9, 0));
        let (_, next) = page.shows(scan(&[], 0), 10, &only);
        assert_eq!(next, None);
    }

    #[test]
    fn every_server_has_its_turn_and_others_are_noticed() {
        let nodes = [node(1), node(2)];
        let first = Page::first(&nodes).unwrap();
        let (_, second) = first.clone().shows(scan(&["a"], 5), 10, &nodes);
        let second = second.unwrap();
        assert_eq!(second.node, nodes[0]);
        assert!(second.is_known_to(Some(Mark::of("run"))) && second.is_known_to(None));
        // restarted, or another server at its address
        assert!(!second.is_known_to(Some(Mark::of("another"))));
        let (_, third) = second.shows(scan(&["b"], 0), 10, &nodes);
        let third = third.unwrap();
        assert_eq!((&third.node, third.cursor), (&nodes[1], 0));
        // nothing of it has been looked at yet
        assert!(third.is_known_to(Some(Mark::of("another"))));
        assert!(third.is_of(&nodes) && !third.is_of(&[node(1), node(3)]));
        let (_, end) = third.shows(scan(&[], 0), 10, &nodes);
        assert_eq!(end, None);
        assert_eq!(Page::first(&[]), None);
    }
}
