//! Questions before a change. Without a terminal there is no answer, and no is assumed.

use std::io::{IsTerminal, Write};

use crate::exit::{Exit, Failure, Outcome};
use crate::output::harmless;

/// Asks whether to do something. `yes`: the command line has answered.
pub(crate) fn confirm(question: &str, yes: bool) -> Outcome<()> {
    if yes {
        return Ok(());
    }
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(Failure::new(Exit::NotConfirmed, format!("not confirmed: {question}"))
            .next("add --yes where no person can answer"));
    }
    let mut stream = anstream::stderr().lock();
    let _ = write!(stream, "{} [y/N] ", harmless(question)).and_then(|()| stream.flush());
    let mut answer = String::new();
    let read = stdin.read_line(&mut answer);
    match read {
        Ok(_) if ["y", "yes"].contains(&answer.trim().to_lowercase().as_str()) => Ok(()),
        _ => Err(Failure::new(Exit::NotConfirmed, "not confirmed, so nothing was changed")),
    }
}
