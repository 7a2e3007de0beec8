//! The options that every command has.

use std::path::PathBuf;

use clap::Args;

/// Options of every command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Global {
    /// The store: postgres://, mysql://, mariadb://, sqlite:, redis:// or rediss://; else the environment variable SOLID_NOTIFY_URL
    #[arg(long, global = true, value_name = "URL", conflicts_with = "context")]
    pub(crate) url: Option<String>,
    /// A store from the file of contexts; else the environment variable SOLID_NOTIFY_CONTEXT, else the one that `context use` chose
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// The file of contexts; else the environment variable SOLID_NOTIFY_CONTEXTS, else solid-notify/contexts.toml in the folder of the user's settings
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) contexts: Option<PathBuf>,
    /// The name that the audit stores; else the environment variable SOLID_NOTIFY_WHO, else the name of the login
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) who: Option<String>,
    /// Print one JSON document instead of text for people
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Do not ask before a change
    #[arg(long, short = 'y', global = true)]
    pub(crate) yes: bool,
}

/// Returns the value of a variable of the environment, unless it is blank.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

impl Global {
    /// Returns the name of the operator.
    pub(crate) fn operator(&self) -> String {
        let named = self.who.clone().filter(|name| !name.trim().is_empty()).or_else(|| variable("SOLID_NOTIFY_WHO"));
        named
            .or_else(|| variable("USER"))
            .or_else(|| variable("LOGNAME"))
            .or_else(|| variable("USERNAME"))
            .unwrap_or_else(|| "solid-notify".to_owned())
    }
}
