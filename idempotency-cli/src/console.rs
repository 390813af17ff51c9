//! Where a verb writes, and who answers its questions.

use std::{
    fmt::Display,
    io::{self, BufRead, IsTerminal, Write},
};

use crate::ended::Refused;

/// The two ends of a conversation.
pub(crate) struct Console<'a> {
    pub(crate) out: &'a mut (dyn Write + Send),
    /// None: nobody is there to answer.
    answers: Option<&'a mut (dyn BufRead + Send)>,
}

impl<'a> Console<'a> {
    pub(crate) fn new(
        out: &'a mut (dyn Write + Send),
        answers: Option<&'a mut (dyn BufRead + Send)>,
    ) -> Self {
        Self { out, answers }
    }

    /// A line beside the work. That nobody reads on, as in `… | head`, neither keeps the work from being
    /// done nor changes how it ended.
    pub(crate) fn say(&mut self, text: impl Display) -> io::Result<()> {
        let said = writeln!(self.out, "{text}");
        said.or_else(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Ok(()),
            _ => Err(error),
        })
    }

    /// Asks before something is changed; `assume_yes` is the operator's `--yes`.
    pub(crate) fn confirm(&mut self, question: &str, assume_yes: bool) -> anyhow::Result<()> {
        const NOBODY: &str = "nothing was changed: there is no terminal to ask at; look at what it \
             would do, and say --yes";
        if assume_yes {
            return Ok(());
        }
        let answers = self.answers.as_mut().ok_or(Refused::NotConfirmed(NOBODY))?;
        write!(self.out, "{question} [y/N] ")?;
        self.out.flush()?;
        let mut answer = String::new();
        answers.read_line(&mut answer)?;
        if matches!(answer.trim(), "y" | "Y" | "yes") {
            return Ok(());
        }
        Err(Refused::NotConfirmed("nothing was changed").into())
    }
}

/// A line on the standard error. Where nobody hears it, the exit code says enough.
pub(crate) fn note(text: impl Display) {
    let _unheard = writeln!(io::stderr(), "{text}");
}

/// Whether a person can be asked: both ends have to be a terminal.
pub(crate) fn is_terminal() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(answer: Option<&str>, assume_yes: bool) -> (anyhow::Result<()>, String) {
        let mut out = Vec::new();
        let mut answers = answer.map(str::as_bytes);
        let answers = answers.as_mut().map(|answers| answers as &mut (dyn BufRead + Send));
        let confirmed = Console::new(&mut out, answers).confirm("Remove it?", assume_yes);
        (confirmed, String::from_utf8(out).unwrap())
    }

    #[test]
    fn only_a_yes_is_a_yes() {
        for yes in ["y\n", "Y\r\n", "yes\n"] {
            let (confirmed, shown) = ask(Some(yes), false);
            assert!(confirmed.is_ok(), "{yes}");
            assert_eq!(shown, "Remove it? [y/N] ");
        }
        for no in ["", "\n", "n\n", "yep\n", "no\n"] {
            assert!(ask(Some(no), false).0.is_err(), "{no}");
        }
    }

    #[test]
    fn nobody_there_is_a_no_unless_told_before() {
        let (confirmed, shown) = ask(None, false);
        assert!(confirmed.unwrap_err().to_string().contains("--yes"));
        assert_eq!(shown, "");
        assert!(ask(None, true).0.is_ok());
    }
}
