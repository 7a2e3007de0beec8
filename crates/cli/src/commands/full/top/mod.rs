//! `top`: the whole store on one screen, read again and again. Without a terminal it prints one look and ends.

mod look;
mod screen;

use std::io::IsTerminal;
use std::time::Duration;

use clap::Args;
use crossterm::event::{Event, EventStream, KeyCode, KeyEventKind, KeyModifiers};
use futures_util::StreamExt;
use futures_util::future::{BoxFuture, OptionFuture};
use ratatui::DefaultTerminal;
use tokio::time::MissedTickBehavior;

use self::look::Look;
use self::screen::Screen;
use crate::exit::{Exit, Failure, Outcome};
use crate::session::Session;
use crate::signals::asked_to_stop;
use crate::times;

/// What to show, and how often.
#[derive(Debug, Args)]
pub(crate) struct Top {
    /// The pause between two looks: 1s or more
    #[arg(long, value_parser = times::duration, default_value = "2s", value_name = "DURATION")]
    every: Duration,
}

/// Shows nodes, alerts, counts of all definitions and a chart of attempts.
pub(crate) async fn top(session: &Session, top: Top) -> Outcome {
    if top.every < Duration::from_secs(1) {
        return Err(Failure::usage("--every is shorter than a second").next("`--every 2s` is the default"));
    }
    let look = Look::take(session).await?;
    if session.out.json || !std::io::stdout().is_terminal() {
        session.out.show(&look, || look.text())?;
        return Ok(Exit::Done);
    }
    let terminal = ratatui::try_init().map_err(|error| Failure::cannot("draw on this terminal", error))?;
    let ended = watch(session, top.every, Screen::new(look), terminal).await;
    ratatui::restore();
    ended
}

/// Draws until the user quits, also while a store that does not answer is read. An error of the store is shown above the last look, because
/// an operator watches outages, too.
async fn watch(session: &Session, every: Duration, mut screen: Screen, mut terminal: DefaultTerminal) -> Outcome {
    let mut keys = EventStream::new();
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.reset();
    let stop = asked_to_stop();
    tokio::pin!(stop);
    let mut looking: Option<BoxFuture<'_, Outcome<Look>>> = None;
    loop {
        terminal.draw(|frame| screen.draw(frame)).map_err(|error| Failure::cannot("draw on this terminal", error))?;
        let look_again = tokio::select! {
            () = &mut stop => return Ok(Exit::Done),
            look = OptionFuture::from(looking.as_mut()), if looking.is_some() => {
                looking = None;
                match look {
                    Some(Ok(look)) => screen.show(look),
                    Some(Err(failure)) => screen.fail(failure.message),
                    None => {}
                }
                false
            }
            _ = ticks.tick() => !screen.is_frozen(),
            event = keys.next() => match event {
                Some(Ok(Event::Key(key))) if key.kind != KeyEventKind::Release => {
                    let is_interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
                    if is_interrupt || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
                        return Ok(Exit::Done);
                    }
                    screen.press(key.code)
                }
                // The size has changed.
                Some(Ok(_)) => false,
                Some(Err(error)) => return Err(Failure::cannot("read keys", error)),
                None => return Ok(Exit::Done),
            },
        };
        if look_again && looking.is_none() {
            looking = Some(Box::pin(Look::take(session)));
        }
    }
}
