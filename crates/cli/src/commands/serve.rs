//! `serve`: the options; the rest is in [`crate::serve`].

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::contexts;
use crate::exit::{Failure, Outcome};
use crate::global::{Global, variable};
use crate::serve::config::{Overrides, filter};
use crate::serve::{self, Source};

/// The file in the current folder that is read if no other one is named.
const FILE: &str = "solid-notify.toml";

/// Where the settings of `serve` are.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The file; else solid-notify.toml in the current folder, if it exists
    #[arg(long, value_name = "FILE", env = "SOLID_NOTIFY_CONFIG")]
    config: Option<PathBuf>,
    /// Check the file and end
    #[arg(long)]
    check: bool,
    /// The address of probes, metrics and acks; it comes before that of the file
    #[arg(long, value_name = "ADDRESS", env = "SOLID_NOTIFY_LISTEN")]
    listen: Option<SocketAddr>,
    /// The name of this node in tables and logs; it comes before that of the file
    #[arg(long, value_name = "NAME", env = "SOLID_NOTIFY_NODE")]
    node: Option<String>,
}

/// Serves the databases of the file, or the store of the options where there is no file.
pub(crate) fn run(global: &Global, options: Serve) -> Outcome {
    let file = options.config.or_else(|| Path::new(FILE).is_file().then(|| FILE.into()));
    let log = variable("SOLID_NOTIFY_LOG").map(|text| filter(&text)).transpose();
    let log = log.map_err(|problem| Failure::invalid(format!("SOLID_NOTIFY_LOG: {problem}")))?;
    // A context matters only where it was asked for: the file of `serve` names its databases.
    let chosen = match (&file, global.url.is_some() || global.context.is_some()) {
        (Some(_), true) => {
            return Err(Failure::usage("--url and --context have no meaning beside the file of `serve`")
                .next("name the database in the file: [databases.NAME]"));
        }
        (Some(_), false) => None,
        (None, _) => {
            let chosen = contexts::chosen(global)?;
            if !options.check {
                chosen.change("send the notices of its store", global.yes)?;
            }
            Some(chosen)
        }
    };
    let (url, own_secret) = chosen.map(|chosen| (chosen.url, chosen.own_secret)).unzip();
    let overrides =
        Overrides { listen: options.listen, node: options.node, log, url, own_secret: own_secret.flatten() };
    let source = Source { file, overrides };
    if options.check { serve::check(&source, global.json) } else { serve::serve(&source) }
}
