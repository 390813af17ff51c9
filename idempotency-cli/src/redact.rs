//! Keeps secrets out of what the argument parser says about wrong arguments.

/// `text` without what stands before the `@` of a URL, or in its `password` parameters, in any of the
/// arguments: a URL at a wrong place would else come back with its password.
pub(crate) fn redact(text: &str, arguments: impl IntoIterator<Item = String>) -> String {
    let mut text = text.to_owned();
    for argument in arguments {
        for secret in secrets(&argument) {
            text = text.replace(secret, "…");
        }
    }
    text
}

fn secrets(argument: &str) -> Vec<&str> {
    let credentials = argument.split_once("://").and_then(|(_, rest)| {
        // up to the last one: a password with an unescaped @ or / counts whole
        rest.rfind('@').and_then(|at| rest.get(..at))
    });
    let parameters = argument.split(['?', '&']).skip(1).filter_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.to_ascii_lowercase().contains("pass").then_some(value)
    });
    credentials.into_iter().chain(parameters).filter(|secret| !secret.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kind of fault: a secret in an error message.
    #[test]
    fn a_url_at_a_wrong_place_does_not_come_back_with_its_password() {
        for argument in [
            "redis://user:hunter2@host/0",
            "--format=redis://:hunter2@host",
            "postgres://u:hun/ter2@hunter2@host/db?x=1",
            "redis+unix:///x?db=1&pass=hunter2",
            "postgres://h/db?password=hunter2",
        ] {
            let text = format!("error: unrecognized subcommand '{argument}'");
            let shown = redact(&text, ["idempotency".to_owned(), argument.to_owned()]);
            assert!(!shown.contains("hunter2") && shown.contains('…'), "{shown}");
        }
        let text = "error: a b@c d";
        assert_eq!(redact(text, ["b@c".to_owned(), "x://".to_owned()]), text);
    }
}
