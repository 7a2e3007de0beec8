//! The command line: the arguments of a user, and those that this program passes when it starts itself again as a shop.

use std::ffi::OsString;
use std::fs;
use std::io::{Read, stdin};
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};

/// The example's own input, found from any working directory.
const OURS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/orders.jsonl");
/// The name of the hidden subcommand [`Role::Shop`].
const SHOP: &str = "shop-process";

/// Books orders and delivers a notice of each to a warehouse.
#[derive(Parser)]
#[command(bin_name = "orders", args_conflicts_with_subcommands = true)]
pub struct CommandLine {
    #[command(subcommand)]
    pub role: Option<Role>,
    #[command(flatten)]
    pub supervisor: SupervisorArguments,
}

/// The role of this process, if it is not the supervisor.
#[derive(Subcommand)]
pub enum Role {
    /// Books lines and sends notices.
    #[command(name = SHOP, hide = true)]
    Shop(ShopArguments),
}

/// The arguments of a user.
#[derive(Args)]
pub struct SupervisorArguments {
    /// One order a line, as JSON; `-` means standard input. Without it: examples/data/orders.jsonl.
    file: Option<PathBuf>,
    /// Kill the shop while notices are being sent, not between two attempts; takes about 40 s.
    #[arg(long)]
    pub kill_while_sending: bool,
}

/// The arguments of a shop process.
#[derive(Args)]
pub struct ShopArguments {
    pub name: String,
    pub database: PathBuf,
    /// The address that orders are sent to.
    pub warehouse: String,
    pub input: PathBuf,
    /// The last line that this shop books.
    pub last_line: usize,
}

impl SupervisorArguments {
    /// Returns the whole input, and its name.
    pub fn read_input(&self) -> Result<(Vec<u8>, String)> {
        let (input, name) = match self.file.as_deref() {
            Some(file) if file == "-" => {
                let mut input = Vec::new();
                (stdin().read_to_end(&mut input).map(|_| input), "standard input".to_owned())
            }
            Some(file) => (fs::read(file), file.display().to_string()),
            None => (fs::read(OURS), "examples/data/orders.jsonl".to_owned()),
        };
        Ok((input.with_context(|| format!("cannot read orders from {name}"))?, name))
    }
}

impl ShopArguments {
    /// Returns the command line that [`CommandLine`] reads as these arguments.
    pub fn write(&self) -> [OsString; 6] {
        let Self { name, database, warehouse, input, last_line } = self;
        [SHOP.into(), name.into(), database.into(), warehouse.into(), input.into(), last_line.to_string().into()]
    }
}
