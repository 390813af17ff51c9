use std::fmt;

use crate::{nodes::Node, wire::Name};

/// Where a list goes on: `CURSOR.` and the name after which it does, in a Cluster with `@HOST:PORT` behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) node: Node,
    /// Of `SCAN`.
    pub(crate) cursor: u64,
    /// A scan can find more keys than a page holds: those up to this name were on the pages before. A name and
    /// no number, because keys expire between two pages; and not the key, which is nobody's but the client's.
    pub(crate) after: Option<Name>,
}

impl Page {
    pub(crate) fn first(primaries: &[Node]) -> Option<Self> {
        Some(Self { node: primaries.first()?.clone(), cursor: 0, after: None })
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (place, node) = match text.split_once('@') {
            None => (text, Node::Only),
            Some((place, address)) => {
                let (host, port) = address.rsplit_once(':')?;
                (place, Node::Of { host: host.to_owned(), port: port.parse().ok()? })
            }
        };
        let (cursor, after) = place.split_once('.')?;
        let after = match after {
            "" => None,
            after if after.len() == 32 => {
                Some(Name(u128::from_str_radix(after, 16).ok()?.to_be_bytes()))
            }
            _ => return None,
        };
        Some(Self { node, cursor: cursor.parse().ok()?, after })
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.", self.cursor)?;
        if let Some(Name(after)) = self.after {
            write!(f, "{:032x}", u128::from_be_bytes(after))?;
        }
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
            for after in [None, Some(Name([0; 16])), Some(Name([0xab; 16]))] {
                let page = Page { node: node.clone(), cursor: u64::MAX, after };
                assert_eq!(Page::parse(&page.to_string()), Some(page));
            }
        }
        for text in ["", "1", "a.", "1.2", "1.@host", "1.@host:99999", "1.zz"] {
            assert_eq!(Page::parse(text), None, "{text}");
        }
    }
}
