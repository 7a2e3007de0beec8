//! `cargo xtask servers`: the servers of a test run, for use from an editor or another terminal.

use std::io::Write;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;

use test_servers::provide::provide;
use test_servers::run::interrupted;
use test_servers::selection::Selection;

/// Starts the servers, prints their URLs in the form of shell commands, and waits for Ctrl-C.
pub(crate) fn serve(selection: &Selection) -> Result<ExitCode> {
    let provided = provide(selection)?;
    for (variable, url) in provided.variables() {
        // A quote within quotes, in the syntax of a shell.
        println!("export {variable}='{}'", url.replace('\'', r"'\''"));
    }
    println!("# The servers stop with Ctrl-C.");
    std::io::stdout().flush()?;
    while !interrupted() {
        sleep(Duration::from_millis(50));
    }
    Ok(ExitCode::SUCCESS)
}
