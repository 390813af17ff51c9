use std::fmt;

/// The random 128-bit name of one attempt, chosen by the caller of `claim` (C47).
///
/// The executor makes one for each attempt from the operating system's random source. A store only
/// compares and keeps them; [`from_stored_bytes`](Self::from_stored_bytes) is for reading them back.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClaimToken([u8; 16]);

/// The operating system gave no random bytes.
#[derive(Debug, thiserror::Error)]
#[error("no claim token could be made: the operating system's random source failed")]
pub struct RandomSourceError(#[from] getrandom::Error);

impl ClaimToken {
    /// A fresh token.
    ///
    /// # Errors
    /// The operating system's random source failed; nothing was claimed.
    pub fn random() -> Result<Self, RandomSourceError> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// A token that a store has kept. Never make one from a client's data.
    pub const fn from_stored_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// What a store keeps.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

/// Shows the first 32 bits only: enough to tell attempts apart, not enough to act as one.
impl fmt::Debug for ClaimToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.0;
        write!(f, "ClaimToken({a:02x}{b:02x}{c:02x}{d:02x}…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ_and_debug_does_not_show_them_whole() {
        let tokens: Vec<_> = (0..1_000).map(|_| ClaimToken::random().unwrap()).collect();
        let distinct: std::collections::HashSet<_> = tokens.iter().collect();
        assert_eq!(distinct.len(), tokens.len());
        let shown = format!("{:?}", ClaimToken::from_stored_bytes([0xab; 16]));
        assert_eq!(shown, "ClaimToken(abababab…)");
    }
}
