//! Where a step prints: on the terminal, or into a file while another step runs beside it.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use test_servers::run::{self, CommandResult};

/// Where a step prints, and the commands that it runs.
pub(crate) enum Output {
    Terminal,
    /// A temporary file without a name.
    File(File),
}

impl Output {
    pub(crate) fn file() -> Result<Self> {
        Ok(Self::File(tempfile::tempfile().context("cannot make a file for the output of a step")?))
    }

    /// Runs a command that prints here, for at most this time.
    pub(crate) fn run(&self, command: &mut Command, limit: Option<Duration>) -> Result<CommandResult> {
        if let Self::File(file) = self {
            // Both have one position in the file.
            let copy = || Ok::<_, anyhow::Error>(Stdio::from(file.try_clone().context("cannot share an output")?));
            command.stdout(copy()?).stderr(copy()?);
        }
        run::run(command, limit)
    }

    /// Prints a text, and ends the line.
    pub(crate) fn line(&self, text: &str) -> Result<()> {
        match self {
            Self::Terminal => println!("{text}"),
            Self::File(file) => writeln!(&*file, "{text}").context("cannot write an output")?,
        }
        Ok(())
    }

    /// Returns what was printed; of a terminal nothing.
    pub(crate) fn read(self) -> Result<String> {
        let mut bytes = Vec::new();
        if let Self::File(mut file) = self {
            file.rewind().and_then(|()| file.read_to_end(&mut bytes)).context("cannot read an output")?;
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
