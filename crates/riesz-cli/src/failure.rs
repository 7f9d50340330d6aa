//! Why a command ended without its result, and what to do about it.

use crate::output::printable;
use riesz::Error;
use std::io::ErrorKind;
use std::path::Path;

/// The result of a command.
pub(crate) type Outcome<T> = Result<T, Failure>;

/// A message for the user, a hint where one helps, and the exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    hint: Option<String>,
    code: i32,
}

/// Exit codes.
const FAILED: i32 = 1;
const BAD_INPUT: i32 = 2;
const INTERRUPTED: i32 = 130;

impl Failure {
    /// Bad input or usage.
    pub(crate) fn bad_input(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, code: BAD_INPUT }
    }

    /// The machine could not do it.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, code: FAILED }
    }

    /// Ctrl-C.
    pub(crate) fn interrupted(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, code: INTERRUPTED }
    }

    /// Whether the user asked to stop.
    pub(crate) fn is_interruption(&self) -> bool {
        self.code == INTERRUPTED
    }

    /// When the user asked to stop.
    pub(crate) fn interruption(&self) -> String {
        self.message.replacen("cancelled", "interrupted", 1)
    }

    /// Adds what to do next.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The operating system refused `path`.
    pub(crate) fn io(path: &Path, source: std::io::Error) -> Self {
        Error::Io { path: path.to_path_buf(), source }.into()
    }

    /// Prints the message and returns the exit code.
    pub(crate) fn report(self) -> i32 {
        eprintln!("error: {}", printable(&self.message));
        if let Some(hint) = self.hint {
            eprintln!("hint: {}", printable(&hint));
        }
        self.code
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { hint: hint(&error), code: code(&error), message: error.to_string() }
    }
}

fn code(error: &Error) -> i32 {
    match error {
        Error::Cancelled { .. } => INTERRUPTED,
        Error::Diverged { .. }
        | Error::NotPositiveDefinite { .. }
        | Error::NotConverged { .. }
        | Error::RoundedAway { .. } => FAILED,
        Error::Io { source, .. } => match source.kind() {
            ErrorKind::NotFound
            | ErrorKind::InvalidData
            | ErrorKind::InvalidInput
            | ErrorKind::UnexpectedEof
            | ErrorKind::IsADirectory => BAD_INPUT,
            _ => FAILED,
        },
        _ => BAD_INPUT,
    }
}

/// What to do next, where the message does not say it already.
fn hint(error: &Error) -> Option<String> {
    match error {
        Error::Io { source, .. } if source.kind() == ErrorKind::NotFound => {
            let here = std::env::current_dir().map(|here| here.display().to_string()).unwrap_or_default();
            Some(format!("check the path; relative paths start at {here}"))
        }
        Error::OneClass(_) => {
            Some("is this the right column? --target names it; --task regression learns quantities".into())
        }
        Error::ColumnNames { extra, .. } if !extra.is_empty() => {
            Some("riesz info shows the columns of a model; --target names one that is the answer, and leaves it out".into())
        }
        Error::ColumnNames { .. } => Some("riesz info shows the columns of a model".into()),
        Error::Format(_) => Some("a model is written by riesz fit or by save in Python; fit it again".into()),
        Error::Columns { .. } => {
            Some("columns without names must be those of the data the model was fitted on, in the same order".into())
        }
        _ => None,
    }
}
