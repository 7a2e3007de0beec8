//! The program `solid-notify`: the verbs of the library as commands, for operators, and for services in any language.
//!
//! It is a shell: each command calls a verb of `solid-notify` and shows its result. What it adds is the terminal: contexts, questions
//! before changes, tables, JSON and exit codes. `program.rs` lists the commands; each group has a file in `commands/`.

mod act;
mod ask;
#[cfg_attr(not(feature = "full"), path = "without_bar.rs")]
mod bar;
mod commands;
mod contexts;
mod demo;
mod exit;
mod global;
mod log_filter;
mod log_queue;
mod output;
mod program;
mod read;
mod secret;
mod select;
mod sending;
mod serve;
mod session;
mod signals;
mod table;
mod times;

use std::process::ExitCode;

/// Runs the program with the arguments of this process. Returns its exit code.
pub fn main() -> ExitCode {
    program::main()
}
