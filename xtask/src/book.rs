//! `cargo xtask book`: renders the book. The test `documents` checks its snippets and links in each test run.

use anyhow::Result;

use crate::tool::MDBOOK;
use test_servers::run::{CommandResult, run, workspace_root};

/// The start page, in the folder `build-dir` of docs/book.toml.
const START_PAGE: &str = "target/book/index.html";

/// Renders `docs` with mdBook, which it installs when it is missing, and prints the path of the start page.
pub(crate) fn book() -> Result<CommandResult> {
    let outcome = run(MDBOOK.command()?.args(["build", "docs"]), None)?;
    if outcome.succeeded() {
        println!("{}", workspace_root().join(START_PAGE).display());
    }
    Ok(outcome)
}
