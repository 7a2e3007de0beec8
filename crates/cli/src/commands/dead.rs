//! `dead list|groups|preview|retry|purge`: dead letters.

use clap::Subcommand;
use solid_notify::Filter;
use solid_notify::operate::Position;

use crate::act::{Act, HowToAct, carry_out, text_of_preview};
use crate::commands::notices::{self, Msg};
use crate::exit::{Exit, Outcome};
use crate::select::{Select, State};
use crate::session::Session;
use crate::table::{Rows, time};

/// Commands for dead letters.
#[derive(Debug, Subcommand)]
pub(crate) enum Dead {
    /// List dead letters, the latest first
    List {
        /// How many, at most 500
        #[arg(long, short = 'n', default_value_t = 50, value_name = "NUMBER")]
        limit: usize,
        /// Where the page before ended (`next` of --json)
        #[arg(long, value_name = "POSITION")]
        after: Option<Position>,
        #[command(flatten)]
        select: Select,
    },
    /// Group dead letters with the same definition, class and message
    Groups {
        #[command(flatten)]
        select: Select,
    },
    /// Count what a selection selects
    Preview {
        #[command(flatten)]
        select: Select,
    },
    /// Send selected dead letters again, at a rate
    Retry {
        #[command(flatten)]
        select: Select,
        #[command(flatten)]
        how: HowToAct,
    },
    /// Delete selected dead letters for good
    Purge {
        /// Why, for the audit
        #[arg(long, short)]
        reason: String,
        #[command(flatten)]
        select: Select,
        #[command(flatten)]
        how: HowToAct,
    },
}

/// Runs a command for dead letters.
pub(crate) async fn run(session: &Session, command: Dead) -> Outcome {
    match command {
        Dead::List { select, limit, after } => {
            notices::run(session, Msg::List { status: State::DeadLetter, select, limit, after }).await
        }
        Dead::Groups { select } => {
            let groups = session.operator.groups(&select.narrow(Filter::dead_letters())).await?;
            session.out.show(&groups, || {
                let mut rows = Rows::new(&["#count", "definition", "class", "message", "last", "#example", "#group"]);
                for group in &groups {
                    let (count, example) = (group.count.to_string(), group.example.to_string());
                    let (definition, class, message) =
                        (group.definition.clone(), group.class.clone(), group.message.clone());
                    rows.row([count, definition, class, message, time(group.last), example, group.group.to_string()]);
                }
                rows.text("no dead letters")
            })?;
            Ok(Exit::Done)
        }
        Dead::Preview { select } => {
            let preview = session.operator.preview(&select.narrow(Filter::dead_letters())).await?;
            session.out.show(&preview, || text_of_preview(&preview))?;
            Ok(Exit::Done)
        }
        Dead::Retry { select, how } => {
            let filter = select.narrow_for_act(Filter::dead_letters(), how.all)?;
            carry_out(session, Act::Retry, &filter, &how).await
        }
        Dead::Purge { reason, select, how } => {
            let filter = select.narrow_for_act(Filter::dead_letters(), how.all)?;
            carry_out(session, Act::Purge { reason }, &filter, &how).await
        }
    }
}
