//! Exit codes, and errors of the program: what failed, and what to do next.

use solid_notify::Error;
use solid_notify::error::FaultKind;

/// How a command ended. The numbers are documented in the book and in the help, and never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// Failed for another reason than those below.
    Failed = 1,
    /// The command line is wrong. The parser of the command line has the same number.
    Usage = 2,
    /// Nothing was changed, because the state does not allow it, or another editor was faster.
    Unchanged = 3,
    /// There is no such notice, definition, version, context, task or file.
    NotFound = 4,
    /// A value, a file or a definition is invalid.
    Invalid = 5,
    /// The store cannot be reached.
    Unreachable = 6,
    /// A question was not answered with yes, or the context is read-only.
    NotConfirmed = 7,
}

/// The part of the help about exit codes.
pub(crate) const HELP: &str = "Exit codes:
  0  done
  1  failed
  2  the command line is wrong
  3  unchanged: the state does not allow it, or another editor was faster
  4  there is no such notice, definition, version, context, task or file
  5  a value, a file or a definition is invalid
  6  the store cannot be reached
  7  not confirmed, or the context is read-only";

/// Why a command did not do what it was asked to do.
#[derive(Debug)]
pub(crate) struct Failure {
    /// How the program ends.
    pub(crate) exit: Exit,
    /// What failed.
    pub(crate) message: String,
    /// What to do next.
    pub(crate) next: Option<String>,
}

/// The result of a command.
pub(crate) type Outcome<T = Exit> = Result<T, Failure>;

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), next: None }
    }

    /// Says what to do next.
    pub(crate) fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }

    /// Something failed that was necessary: `what` completes "cannot …".
    pub(crate) fn cannot(what: &str, error: impl std::fmt::Display) -> Self {
        Self::new(Exit::Failed, format!("cannot {what}: {error}"))
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Exit::Invalid, message)
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// There is no notice with this id.
    pub(crate) fn no_notice(id: i64) -> Self {
        Self::new(Exit::NotFound, format!("there is no notice {id}")).next(
            "it never existed, its transaction was rolled back, or it was purged; `solid-notify msg list` lists notices",
        )
    }
}

/// What mends a store that answers and cannot be used.
pub(crate) const TABLES_OR_RIGHTS: &str = "if tables are missing, `solid-notify migrate` creates them; if a right is missing, a \
     role of `solid-notify schema --roles` gives it (PostgreSQL, MySQL, MariaDB)";

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        match error {
            Error::UnknownDefinition { name, nearest } => {
                let meant = nearest.map(|name| format!(", did you mean {name:?}?")).unwrap_or_default();
                Self::new(Exit::NotFound, format!("there is no definition {name:?}{meant}"))
                    .next("`solid-notify def list` lists the definitions")
            }
            Error::NotInSnapshot { .. } => Self::new(Exit::NotFound, message),
            Error::InvalidDefinition { .. } => {
                Self::new(Exit::Invalid, message).next("nothing was stored; the columns are explained in the book")
            }
            Error::InvalidNotice { .. }
            | Error::InvalidFile { .. }
            | Error::Invalid { .. }
            | Error::Token { .. }
            | Error::ParamKeys { .. } => Self::new(Exit::Invalid, message),
            Error::Store(error) => match error.kind {
                FaultKind::Outage => Self::new(Exit::Unreachable, message)
                    .next("check the URL, the server and the network; `solid-notify health` shows more"),
                FaultKind::Busy | FaultKind::Slow => {
                    Self::new(Exit::Unreachable, message).next("the store is slow at the moment: try again")
                }
                FaultKind::Conflict => {
                    Self::new(Exit::Unchanged, message).next("another transaction was faster: try again")
                }
                FaultKind::Unusable if !error.is_explained() => Self::new(Exit::Failed, message).next(TABLES_OR_RIGHTS),
                _ => Self::new(Exit::Failed, message),
            },
            _ => Self::new(Exit::Failed, message),
        }
    }
}

#[cfg(test)]
mod tests {
    use solid_notify::error::StoreError;

    use super::*;

    #[test]
    fn error_that_says_what_is_wrong_gets_no_advice_about_tables() {
        let refused = || StoreError::new("adding a notice", FaultKind::Unusable, "OOM");
        let next = |error: StoreError| Failure::from(Error::Store(error)).next;
        assert_eq!(next(refused()).as_deref(), Some(TABLES_OR_RIGHTS));
        assert_eq!(next(refused().explained("; the memory of the server is full")), None);
    }
}
