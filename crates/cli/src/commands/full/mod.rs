//! Commands that need more stores than SQLite, or crates that no other command needs. The program has them with the feature `full`.

mod schema;
mod shell;
mod simulate;
mod tasks;
mod top;

use std::path::PathBuf;

use clap::Subcommand;
use clap_complete::Shell;

use self::schema::Database;
pub(crate) use self::simulate::{Simulate, simulate};
use self::tasks::Task;
use self::top::Top;
use crate::exit::Outcome;
use crate::global::Global;
use crate::session::with_session;

#[derive(Debug, Subcommand)]
pub(crate) enum Full {
    /// Print the schema, for tools that migrate by themselves
    Schema {
        /// The database; that of the store without it
        #[arg(value_enum)]
        database: Option<Database>,
        /// Print the roles instead: accounts for the owner of the tables, producers, sweepers and readers
        #[arg(long)]
        roles: bool,
    },
    /// Watch nodes, alerts, counts and attempts on one screen
    Top(Top),
    /// Timed tasks on Redis
    #[command(subcommand, arg_required_else_help = true)]
    Task(Task),
    /// Print the completions of a shell
    Completions {
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Print the page of the manual, or write a page for each command
    Man {
        /// The folder of the pages
        folder: Option<PathBuf>,
    },
}

/// Runs a command. `program` is the whole command line, for its completions and its manual.
pub(crate) fn run(global: &Global, command: Full, program: clap::Command) -> Outcome {
    match command {
        Full::Schema { database, roles } => schema::schema(global, database, roles),
        Full::Top(how) => with_session(global, async |session| top::top(session, how).await),
        Full::Task(command) => with_session(global, async |session| tasks::run(session, command).await),
        Full::Completions { shell } => shell::completions(shell, program),
        Full::Man { folder } => shell::man(folder.as_deref(), program),
    }
}
