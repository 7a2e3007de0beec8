//! What the demo prints: who does what, one line each.

use std::io::IsTerminal;
use std::time::Duration;

use clap::builder::styling::{AnsiColor, Style};

use crate::exit::Outcome;
use crate::output::{harmless, line};

/// How long people read a step.
const READING: Duration = Duration::from_secs(4);

const STEP: Style = Style::new().bold();
const COMMAND: Style = AnsiColor::Cyan.on_default().bold();

/// Who a line is about.
#[derive(Debug, Clone, Copy)]
pub(super) enum Party {
    Shop,
    Warehouse,
    Carrier,
    Chat,
    Serve,
}

impl Party {
    fn name(self) -> (&'static str, Style) {
        match self {
            Self::Shop => ("shop", AnsiColor::Blue.on_default()),
            Self::Warehouse => ("warehouse", AnsiColor::Green.on_default()),
            Self::Carrier => ("carrier", AnsiColor::Magenta.on_default()),
            Self::Chat => ("chat", AnsiColor::Red.on_default().bold()),
            Self::Serve => ("serve", AnsiColor::Yellow.on_default()),
        }
    }

    /// Prints what this party does.
    pub(super) fn does(self, what: &str) -> Outcome<()> {
        let (name, style) = self.name();
        line(&format!("  {style}{name:>9}{style:#}  {}", harmless(what)))
    }
}

/// Begins a step of the story. On a terminal people get the time to read the one before.
pub(super) async fn step(number: u8, title: &str) -> Outcome<()> {
    if number > 1 && std::io::stdout().is_terminal() {
        tokio::time::sleep(READING).await;
    }
    line(&format!("\n{STEP}{number}. {title}{STEP:#}"))
}

/// Prints a command that the demo runs, as a person would type it.
pub(super) fn command(arguments: &[&str]) -> Outcome<()> {
    let typed: Vec<String> = arguments
        .iter()
        .map(
            |argument| {
                if argument.contains([' ', '*', '{']) { format!("'{argument}'") } else { (*argument).to_owned() }
            },
        )
        .collect();
    line(&format!("{COMMAND}$ solid-notify {}{COMMAND:#}", typed.join(" ")))
}
