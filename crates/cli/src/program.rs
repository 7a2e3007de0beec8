//! The command line: all commands, and what each of them runs.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use solid_notify::operate::Rate;

use crate::commands::add::Add;
use crate::commands::alerts::Alerts;
use crate::commands::bulk::BulkCommand;
use crate::commands::circuit::Circuit;
use crate::commands::context::ContextCommand;
use crate::commands::dead::Dead;
use crate::commands::definition_test::Test;
use crate::commands::doctor::Doctor;
#[cfg(feature = "full")]
use crate::commands::full::{self, Full};
use crate::commands::notices::Msg;
use crate::commands::observe::{Audit, Series};
use crate::commands::run::Run;
use crate::commands::serve::Serve;
use crate::commands::{
    add, alerts, bulk, circuit, context, dead, definition_edits, definition_files, definition_test, definitions,
    doctor, notices, observe, run, serve, store, switch,
};
use crate::demo;
use crate::exit::{Exit, HELP, Outcome};
use crate::global::Global;
use crate::output;
use crate::session::{Session, runtime, with_sender, with_session};

/// A transactional outbox driven by definitions: operate it, and send its notices
#[derive(Debug, Parser)]
#[command(name = "solid-notify", version, after_help = HELP)]
#[command(infer_subcommands = false, arg_required_else_help = true)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create the tables, or bring them up to date
    Migrate,
    /// Show whether the store answers, sweepers run, and what is not sent
    Health,
    /// Examine the store, its server, definitions and nodes: what is wrong, what it means, and what mends it
    Doctor(Doctor),
    /// Definitions: how notices are sent
    #[command(subcommand, arg_required_else_help = true)]
    Def(Def),
    /// Add a notice
    Add(Box<Add>),
    /// Notices
    #[command(subcommand, arg_required_else_help = true)]
    Msg(Msg),
    /// Dead letters: notices that finally failed
    #[command(subcommand, arg_required_else_help = true)]
    Dead(Dead),
    /// Bulk acts that sweepers execute
    #[command(subcommand, arg_required_else_help = true)]
    Bulk(BulkCommand),
    /// Alerts and silences
    #[command(subcommand, arg_required_else_help = true)]
    Alerts(Alerts),
    /// Circuits of definitions
    #[command(subcommand, arg_required_else_help = true)]
    Circuit(Circuit),
    /// Pause everything, or all retries, on every node
    PauseAll {
        /// Only retries wait; first attempts go on
        #[arg(long)]
        retries: bool,
        /// Why, for the audit and for `health`
        #[arg(long, short)]
        reason: String,
    },
    /// End the pause of everything or of all retries
    ResumeAll,
    /// Show who did what
    Audit(Audit),
    /// List the living sweepers
    Nodes,
    /// Count the notices of each definition
    Stats,
    /// Count attempts in steps of time
    Series(Series),
    /// Send notices by the ready channels
    Run(Run),
    /// Show in less than a minute what all of this is for: a shop, receivers that fail, `serve`
    Demo,
    /// Send notices of several stores by the ready channels, with probes, metrics and acks over HTTP
    Serve(Serve),
    /// Named stores
    #[command(subcommand, arg_required_else_help = true)]
    Context(ContextCommand),
    #[cfg(feature = "full")]
    #[command(flatten)]
    Full(Full),
}

/// Commands for definitions.
#[derive(Debug, Subcommand)]
enum Def {
    /// List definitions
    List {
        /// Deleted ones, too
        #[arg(long)]
        deleted: bool,
    },
    /// Show a definition: the columns that differ from a new one
    Show {
        name: String,
        /// Show all columns
        #[arg(long)]
        all: bool,
    },
    /// Create a definition: create payment timeout=10s handler=webhook
    Create {
        name: String,
        /// column=value
        columns: Vec<String>,
        /// Make it a target of this definition; its name is then DEFINITION/NAME
        #[arg(long, value_name = "DEFINITION")]
        target_of: Option<String>,
    },
    /// Create and change definitions so that they are as in a TOML file
    Apply {
        /// - is the standard input
        file: PathBuf,
        /// Delete definitions that are not in the file
        #[arg(long)]
        delete_missing: bool,
    },
    /// Show what `apply` would do; the exit code is 3 if that is something
    Diff {
        /// - is the standard input
        file: PathBuf,
        /// Delete definitions that are not in the file
        #[arg(long)]
        delete_missing: bool,
    },
    /// Print definitions as TOML, for `apply`
    Export { names: Vec<String> },
    /// Change columns: edit payment timeout=20s; an empty value is null
    Edit {
        name: String,
        /// column=value
        #[arg(required = true)]
        columns: Vec<String>,
    },
    /// Show what an edit would do to the live notices
    Preview {
        name: String,
        /// column=value
        #[arg(required = true)]
        columns: Vec<String>,
    },
    /// List the versions of a definition, the latest first
    Versions { name: String },
    /// Restore a version of a definition
    Rollback { name: String, version: i64 },
    /// Give waiting retries the times of the present intervals
    Retime {
        name: String,
        /// How many notices per period: 100/1m, 5 (per second), or "at once"
        #[arg(long, default_value = "20/1s", value_parser = |text: &str| text.parse::<Rate>().map_err(|error| error.to_string()))]
        rate: Rate,
    },
    /// Send a notice that is marked as a test, and show what the receiver answers
    Test(Test),
    /// Show what the retries of a definition do while its receiver is down, in virtual time
    #[cfg(feature = "full")]
    Simulate(full::Simulate),
    /// Switch a definition off: notices are accepted, none is sent
    Pause { name: String },
    /// Switch a definition on
    Resume { name: String },
    /// Delete a definition; its live notices are sent until they end
    Delete { name: String },
}

/// Runs the program.
pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // A closed pipe is the only error of printing, and there is nothing to do about it.
            let _ = error.print();
            let exit = if error.use_stderr() { Exit::Usage } else { Exit::Done };
            return ExitCode::from(exit as u8);
        }
    };
    let exit = run(cli).unwrap_or_else(|failure| {
        output::failure(&failure);
        failure.exit
    });
    ExitCode::from(exit as u8)
}

fn run(cli: Cli) -> Outcome {
    let Cli { global, command } = cli;
    match command {
        Command::Context(command) => context::run(&global, command),
        Command::Serve(options) => serve::run(&global, options),
        Command::Demo => runtime()?.block_on(demo::run()),
        #[cfg(feature = "full")]
        Command::Full(command) => full::run(&global, command, <Cli as clap::CommandFactory>::command()),
        command @ Command::Run(_) => with_sender(&global, async |session| connected(session, command).await),
        command => with_session(&global, async |session| connected(session, command).await),
    }
}

/// Runs a command with the store that it needs.
async fn connected(session: &Session, command: Command) -> Outcome {
    match command {
        Command::Migrate => store::migrate(session).await,
        Command::Health => store::health(session).await,
        Command::Doctor(how) => doctor::run(session, &how).await,
        Command::Def(command) => def(session, command).await,
        Command::Add(notice) => add::add(session, *notice).await,
        Command::Msg(command) => notices::run(session, command).await,
        Command::Dead(command) => dead::run(session, command).await,
        Command::Bulk(command) => bulk::run(session, command).await,
        Command::Alerts(command) => alerts::run(session, command).await,
        Command::Circuit(command) => circuit::run(session, command).await,
        Command::PauseAll { retries, reason } => switch::pause_all(session, retries, &reason).await,
        Command::ResumeAll => switch::resume_all(session).await,
        Command::Audit(audit) => observe::audit(session, audit).await,
        Command::Nodes => observe::nodes(session).await,
        Command::Stats => observe::stats(session).await,
        Command::Series(series) => observe::series(session, series).await,
        Command::Run(how) => run::run(session, how).await,
        // Those that need no store were run before.
        Command::Context(_) | Command::Demo | Command::Serve(_) => Ok(Exit::Done),
        #[cfg(feature = "full")]
        Command::Full(_) => Ok(Exit::Done),
    }
}

async fn def(session: &Session, command: Def) -> Outcome {
    match command {
        Def::List { deleted } => definitions::list(session, deleted).await,
        Def::Show { name, all } => definitions::show(session, &name, all).await,
        Def::Create { name, columns, target_of } => {
            definition_edits::create(session, &name, target_of.as_deref(), &columns).await
        }
        Def::Apply { file, delete_missing } => definition_files::apply(session, &file, delete_missing).await,
        Def::Diff { file, delete_missing } => definition_files::diff(session, &file, delete_missing).await,
        Def::Export { names } => definition_files::export(session, &names).await,
        Def::Edit { name, columns } => definition_edits::edit(session, &name, &columns).await,
        Def::Preview { name, columns } => definition_edits::preview(session, &name, &columns).await,
        Def::Versions { name } => definitions::versions(session, &name).await,
        Def::Rollback { name, version } => definition_edits::rollback(session, &name, version).await,
        Def::Retime { name, rate } => definition_edits::retime(session, &name, rate).await,
        Def::Test(how) => definition_test::test(session, &how).await,
        #[cfg(feature = "full")]
        Def::Simulate(how) => full::simulate(session, &how).await,
        Def::Pause { name } => definition_edits::enable(session, &name, false).await,
        Def::Resume { name } => definition_edits::enable(session, &name, true).await,
        Def::Delete { name } => definition_edits::delete(session, &name).await,
    }
}
