use std::fmt;

/// Where a list goes on. By scan: `s` and the last place; by index: the shard, `.`, and the last entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// Of the list index; none for a scan.
    pub(crate) shard: Option<u8>,
    /// Behind this one; none at the beginning of a shard or of the table.
    pub(crate) after: Option<String>,
}

impl Page {
    pub(crate) fn first(by_index: bool) -> Self {
        Self { shard: by_index.then_some(0), after: None }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (shard, after) = text.split_once(':')?;
        let shard = match shard {
            "scan" => None,
            shard => Some(shard.parse().ok().filter(|shard| *shard < crate::wire::SHARDS)?),
        };
        Some(Self {
            shard,
            after: Some(after).filter(|after| !after.is_empty()).map(str::to_owned),
        })
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shard {
            None => f.write_str("scan")?,
            Some(shard) => write!(f, "{shard}")?,
        }
        write!(f, ":{}", self.after.as_deref().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_as_it_was_written_and_nothing_else_is_one() {
        for shard in [None, Some(0), Some(15)] {
            for after in [None, Some("17.idempotency/shop/a:b")] {
                let page = Page { shard, after: after.map(str::to_owned) };
                assert_eq!(Page::parse(&page.to_string()), Some(page));
            }
        }
        for text in ["", "scan", "16:", "x:y", "-1:"] {
            assert_eq!(Page::parse(text), None, "{text}");
        }
    }
}
