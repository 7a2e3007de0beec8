//! The command line: all commands, and what each of them runs.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use solid_notify::operate::Rate;

use crate::commands::add::Add;
use crate::commands::alerts::Alerts;
use crate::commands::bulk::BulkCommand;
use crate::commands::circuit::Circuit;
use crate::commands::context::ContextCommand;
use crate::commands::dead::Dead;
use crate::commands::definition_trials::{Simulate, Test};
use crate::commands::doctor::Doctor;
use crate::commands::notices::Msg;
use crate::commands::observe::{Audit, Series};
use crate::commands::run::Run;
use crate::commands::serve::Serve;
use crate::commands::store::Database;
use crate::commands::tasks::Task;
use crate::commands::top::Top;
use crate::commands::{
    add, alerts, bulk, circuit, context, dead, definition_edits, definition_files, definition_trials, definitions,
    doctor, notices, observe, run, serve, shell, store, switch, tasks, top,
};
use crate::demo;
use crate::exit::{Exit, Failure, HELP, Outcome};
use crate::global::{Global, variable};
use crate::output;
use crate::session::Session;

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
    /// Print the schema, for tools that migrate by themselves
    Schema {
        /// The database; that of the store without it
        #[arg(value_enum)]
        database: Option<Database>,
        /// Print the roles instead: accounts for the owner of the tables, producers, sweepers and readers
        #[arg(long)]
        roles: bool,
    },
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
    /// Pause everything, on every node
    PauseAll {
        /// Why, for the audit and for `health`
        #[arg(long, short)]
        reason: String,
    },
    /// End the pause of everything
    ResumeAll,
    /// Show who did what
    Audit(Audit),
    /// List the living sweepers
    Nodes,
    /// Count the notices of each definition
    Stats,
    /// Count attempts in steps of time
    Series(Series),
    /// Watch nodes, alerts, counts and attempts on one screen
    Top(Top),
    /// Timed tasks on Redis
    #[command(subcommand, arg_required_else_help = true)]
    Task(Task),
    /// Send notices by the ready channels
    Run(Run),
    /// Show in less than a minute what all of this is for: a shop, receivers that fail, `serve`
    Demo,
    /// Send notices of several stores by the ready channels, with probes, metrics and acks over HTTP
    Serve(Serve),
    /// Named stores
    #[command(subcommand, arg_required_else_help = true)]
    Context(ContextCommand),
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
    Simulate(Simulate),
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
        Command::Schema { database, roles } => store::schema(&global, database, roles),
        Command::Context(command) => context::run(&global, command),
        Command::Serve(options) => serve::run(&global, options),
        Command::Demo => runtime()?.block_on(demo::run()),
        Command::Completions { shell } => shell::completions(shell, Cli::command()),
        Command::Man { folder } => shell::man(folder.as_deref(), Cli::command()),
        command => {
            log();
            runtime()?.block_on(async {
                let session = Session::open(&global).await?;
                connected(&session, command).await
            })
        }
    }
}

fn runtime() -> Outcome<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(|error| Failure::new(Exit::Failed, format!("cannot start the runtime: {error}")))
}

/// Runs a command that needs the store.
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
        Command::PauseAll { reason } => switch::pause_all(session, &reason).await,
        Command::ResumeAll => switch::resume_all(session).await,
        Command::Audit(audit) => observe::audit(session, audit).await,
        Command::Nodes => observe::nodes(session).await,
        Command::Stats => observe::stats(session).await,
        Command::Series(series) => observe::series(session, series).await,
        Command::Top(how) => top::top(session, how).await,
        Command::Task(command) => tasks::run(session, command).await,
        Command::Run(how) => run::run(session, how).await,
        // Those that need no store were run before.
        Command::Schema { .. }
        | Command::Context(_)
        | Command::Demo
        | Command::Serve(_)
        | Command::Completions { .. }
        | Command::Man { .. } => Ok(Exit::Done),
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
        Def::Test(how) => definition_trials::test(session, &how).await,
        Def::Simulate(how) => definition_trials::simulate(session, &how).await,
        Def::Pause { name } => definition_edits::enable(session, &name, false).await,
        Def::Resume { name } => definition_edits::enable(session, &name, true).await,
        Def::Delete { name } => definition_edits::delete(session, &name).await,
    }
}

/// Prints the log of the library on the error stream: warnings, or what SOLID_NOTIFY_LOG asks for.
fn log() {
    let filter = variable("SOLID_NOTIFY_LOG").unwrap_or_else(|| "warn".to_owned());
    let filter = tracing_subscriber::EnvFilter::try_new(filter).unwrap_or_else(|error| {
        output::warn(format!("SOLID_NOTIFY_LOG cannot be read, so only warnings are logged: {error}"));
        tracing_subscriber::EnvFilter::new("warn")
    });
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
}
