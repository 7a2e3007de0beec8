//! `completions`, `man`: files for shells and for the manual.

use std::path::Path;

use clap_complete::Shell;

use crate::exit::{Exit, Failure, Outcome};
use crate::output::line;

/// Prints the completions of a shell.
pub(crate) fn completions(shell: Shell, mut program: clap::Command) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut program, "solid-notify", &mut script);
    line(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}

/// Prints the page of the program, or writes a page for each command into a folder.
pub(crate) fn man(folder: Option<&Path>, program: clap::Command) -> Outcome {
    let failed = |error: std::io::Error| Failure::new(Exit::Failed, format!("cannot write the manual: {error}"));
    match folder {
        Some(folder) => {
            std::fs::create_dir_all(folder).map_err(failed)?;
            clap_mangen::generate_to(program, folder).map_err(failed)?;
            line(&format!("wrote the pages into {}", folder.display()))?;
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(program).render(&mut page).map_err(failed)?;
            line(&String::from_utf8_lossy(&page))?;
        }
    }
    Ok(Exit::Done)
}
