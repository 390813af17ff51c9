use std::fmt;

use crate::nodes::Node;

/// Where a list goes on: `CURSOR.SKIP`, in a Cluster with `@HOST:PORT` behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) node: Node,
    /// Of `SCAN`.
    pub(crate) cursor: u64,
    /// A scan can find more keys than a page holds: so many of them were on the pages before.
    pub(crate) skip: usize,
}

impl Page {
    pub(crate) fn first(primaries: &[Node]) -> Option<Self> {
        Some(Self { node: primaries.first()?.clone(), cursor: 0, skip: 0 })
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (place, node) = match text.split_once('@') {
            None => (text, Node::Only),
            Some((place, address)) => {
                let (host, port) = address.rsplit_once(':')?;
                (place, Node::Of { host: host.to_owned(), port: port.parse().ok()? })
            }
        };
        let (cursor, skip) = place.split_once('.')?;
        Some(Self { node, cursor: cursor.parse().ok()?, skip: skip.parse().ok()? })
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.cursor, self.skip)?;
        match &self.node {
            Node::Only => Ok(()),
            Node::Of { host, port } => write!(f, "@{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_as_it_was_written_and_nothing_else_is_one() {
        for node in [Node::Only, Node::Of { host: "::1".to_owned(), port: 7_000 }] {
            let page = Page { node, cursor: u64::MAX, skip: 3 };
            assert_eq!(Page::parse(&page.to_string()), Some(page));
        }
        for text in ["", "1", "1.", "a.b", "1.2@host", "1.2@host:99999"] {
            assert_eq!(Page::parse(text), None, "{text}");
        }
    }
}
