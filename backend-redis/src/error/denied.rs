//! What a user lacks, out of what the server says.
//!
//! Its own words are not passed on: a user's name is in them. They differ from release to release, and
//! scripts have words of their own.

use std::borrow::Cow;

/// What to grant, if this is the refusal of a command, a key or a channel.
pub(super) fn missing_grant(words: &str) -> Option<Cow<'static, str>> {
    if let Some(command) = command(words) {
        return Some(
            format!(
                "the connection's user may not run `{command}`: grant it `+{command}` (ACL SETUSER)"
            )
            .into(),
        );
    }
    let has = |parts: &[&str]| parts.iter().any(|part| words.contains(part));
    let grant = if words.ends_with(" key") || has(&["of the keys"]) {
        "the connection's user may not use the keys of this namespace: grant it `~NAMESPACE/*`, as in \
         `~idempotency/*`"
    } else if words.ends_with(" channel") || has(&["of the channels", "to the channel"]) {
        "the connection's user may not use the channels on which waiters are told: grant it `&idempotency:*`"
    } else if has(&["access database"]) {
        "the connection's user may not use the database of the URL: grant it that one"
    } else if has(&["no permissions", "executing the script"]) {
        "the connection's user may not run a command that the scripts need: grant it all that \
         docs/backends.md lists"
    } else {
        return None;
    };
    Some(grant.into())
}

/// `User app has no permissions to run the 'config|get' command`
fn command(words: &str) -> Option<&str> {
    let (_, rest) = words.rsplit_once("run the '")?;
    let (command, rest) = rest.split_once('\'')?;
    let is_name = |byte: u8| byte.is_ascii_lowercase() || matches!(byte, b'|' | b'-' | b'_' | b'.');
    let is_one = rest.starts_with(" command") && !command.is_empty() && command.len() <= 32;
    Some(command).filter(|command| is_one && command.bytes().all(is_name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of Redis 6.2, 7.0, 8.2 and Valkey 9.
    #[test]
    fn what_to_grant_is_told_and_the_users_name_is_not() {
        for (words, grant) in [
            ("User app has no permissions to run the 'set' command", "`+set`"),
            ("User app has no permissions to run the 'config|get' command", "`+config|get`"),
            ("this user has no permissions to run the 'set' command or its subcommand", "`+set`"),
            ("User channel of the keys has no permissions to run the 'ping' command", "`+ping`"),
            ("No permissions to access a key", "`~NAMESPACE/*`"),
            ("User app has no permissions to access the 'shop/a channel' key", "`~NAMESPACE/*`"),
            ("User app has no permissions to access the 'k' channel", "`&idempotency:*`"),
            ("User app has no permissions to access database 3", "database"),
            (
                "this user has no permissions to access one of the keys used as arguments",
                "`~NAMESPACE/*`",
            ),
            ("No permissions to access a channel", "`&idempotency:*`"),
            (
                "this user has no permissions to access one of the channels used as arguments",
                "`&idempotency:*`",
            ),
            (
                "The user executing the script can't run this command or subcommand",
                "docs/backends.md",
            ),
            (
                "The user executing the script can't access at least one of the keys mentioned in the \
                 command arguments",
                "`~NAMESPACE/*`",
            ),
            (
                "The user executing the script can't publish to the channel mentioned in the command",
                "`&idempotency:*`",
            ),
            (
                "The user executing the script is lacking the permissions for the command",
                "docs/backends.md",
            ),
            (
                "ACL failure in script: User app has no permissions to run the 'pexpiretime' command",
                "`+pexpiretime`",
            ),
        ] {
            let told = missing_grant(words).expect(words);
            assert!(told.contains(grant), "{words}: {told}");
            assert!(!told.contains("app ") && !told.contains("shop"), "{told}");
        }
        for other in ["", "DB index is out of range", "unknown command 'no permission'"] {
            assert_eq!(missing_grant(other), None, "{other}");
        }
    }

    /// A key can be in the words of an error, and looks like anything.
    #[test]
    fn nothing_but_the_name_of_a_command_is_taken_over() {
        for words in [
            "User a has no permissions to run the 'Secret Key' command",
            "User a has no permissions to run the '0123456789' command",
            "User a has no permissions to run the 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' command",
        ] {
            let told = missing_grant(words).unwrap();
            assert!(told.contains("docs/backends.md"), "{told}");
        }
    }
}
