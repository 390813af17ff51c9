use std::io;

/// Why a server could not be started or told something.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The program is not on this machine.
    #[error("the tests need `{program}`, which is not there; install it with: {install}")]
    Missing {
        /// What was looked for.
        program: String,
        /// The exact command.
        install: String,
    },
    /// It did not start, or did not become ready in time.
    #[error("{what} did not become ready in {seconds} s; its output ends with:\n{output}")]
    NotReady {
        /// Which server.
        what: String,
        /// How long it was waited for.
        seconds: u64,
        /// The end of what it printed.
        output: String,
    },
    /// It answered something else than expected.
    #[error("{what} answered {answer:?}")]
    Answer {
        /// What was asked.
        what: String,
        /// The answer.
        answer: String,
    },
    /// The machine refused.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// Why not.
        source: io::Error,
    },
}

impl ServerError {
    /// For `map_err`: what was tried when the machine refused.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        |source| Self::Io { what, source }
    }
}
