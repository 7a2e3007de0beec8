//! The command line: the arguments of a user, and those that this program passes when it starts itself again as a shop.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{Read, stdin};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

const USAGE: &str = "usage: orders [--kill-while-sending] [FILE]

FILE has one order a line, as JSON; `-` means standard input. Without it: examples/data/orders.jsonl.
--kill-while-sending  kill the shop while notices are being sent, not between two attempts; takes about 40 s";

/// The example's own input, found from any working directory.
const OURS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/orders.jsonl");
/// The hidden argument of a shop.
const SHOP: &str = "--shop-process";

/// The role of this process.
pub enum Role {
    Supervisor(SupervisorArguments),
    Shop(ShopArguments),
}

/// The arguments of a user.
#[derive(Default)]
pub struct SupervisorArguments {
    pub file: Option<PathBuf>,
    pub kill_while_sending: bool,
}

/// The arguments of a shop process.
pub struct ShopArguments {
    pub name: String,
    pub database: PathBuf,
    /// The address that orders are sent to.
    pub warehouse: String,
    pub input: PathBuf,
    /// The last line that this shop books.
    pub last_line: usize,
}

pub fn role() -> Result<Role> {
    let mut arguments = env::args_os().skip(1).peekable();
    if arguments.next_if(|first| first == SHOP).is_some() {
        return Ok(Role::Shop(ShopArguments::read(&arguments.collect::<Vec<_>>())?));
    }
    let mut wanted = SupervisorArguments::default();
    for argument in arguments {
        if argument == "--kill-while-sending" {
            wanted.kill_while_sending = true;
        } else if wanted.file.is_some() || argument != "-" && argument.as_encoded_bytes().starts_with(b"-") {
            bail!("cannot understand {}\n{USAGE}", argument.display());
        } else {
            wanted.file = Some(argument.into());
        }
    }
    Ok(Role::Supervisor(wanted))
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
    pub fn write(&self) -> [OsString; 6] {
        let Self { name, database, warehouse, input, last_line } = self;
        [SHOP.into(), name.into(), database.into(), warehouse.into(), input.into(), last_line.to_string().into()]
    }

    fn read(arguments: &[OsString]) -> Result<Self> {
        let [name, database, warehouse, input, last_line] = arguments else {
            bail!("{SHOP} is for this program's own use");
        };
        Ok(Self {
            name: name.to_string_lossy().into_owned(),
            database: database.into(),
            warehouse: warehouse.to_string_lossy().into_owned(),
            input: input.into(),
            last_line: last_line.to_string_lossy().parse()?,
        })
    }
}
