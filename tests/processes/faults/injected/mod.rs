//! The faults. Each strikes again and again until its time is up, pauses in between so that notices are sent, and returns how
//! often it really struck.

mod connections;
mod database;
mod edits;
mod processes;

use std::time::Instant;

use crate::faults::bench::Bench;
use crate::faults::run::Run;

/// The counts of each effect. Each must be more than zero.
pub type Strikes = Vec<(String, usize)>;

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Kills,
    Restarts,
    EndedSessions,
    Stalls,
    HalfOpen,
    LostAnswers,
    Exhaustion,
    Conflicts,
    WriterLock,
    WrongClocks,
    Edits,
}

impl Fault {
    /// The faults of a database with a server.
    pub const OF_SERVERS: &[Self] = &[
        Self::Kills,
        Self::Restarts,
        Self::EndedSessions,
        Self::Stalls,
        Self::HalfOpen,
        Self::LostAnswers,
        Self::Exhaustion,
        Self::Conflicts,
        Self::WrongClocks,
        Self::Edits,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Kills => "processes are killed",
            Self::Restarts => "the server restarts",
            Self::EndedSessions => "sessions are ended",
            Self::Stalls => "the network stalls",
            Self::HalfOpen => "connections are half open",
            Self::LostAnswers => "answers are lost",
            Self::Exhaustion => "pools are exhausted",
            Self::Conflicts => "statements meet conflicts",
            Self::WriterLock => "a writer holds the lock",
            Self::WrongClocks => "clocks are wrong",
            Self::Edits => "a definition is edited",
        }
    }

    /// A process gets a wrong clock by a preloaded library, as Linux has it.
    pub fn is_possible(self) -> bool {
        self != Self::WrongClocks || cfg!(target_os = "linux")
    }

    /// Strikes until `until`. `alone`: no other fault does at the same time.
    pub async fn strike<B: Bench>(self, run: &Run<B>, until: Instant, alone: bool) -> Strikes {
        match self {
            Self::Kills => processes::kills(run, until).await,
            Self::Restarts => database::restarts(run, until).await,
            Self::EndedSessions => database::ended_sessions(run, until).await,
            Self::Stalls => connections::stalls(run, until).await,
            Self::HalfOpen => connections::half_open(run, until).await,
            Self::LostAnswers => connections::lost_answers(run, until).await,
            Self::Exhaustion => connections::exhaustion(run, until).await,
            Self::Conflicts => database::conflicts(run, until).await,
            Self::WriterLock => database::writer_lock(run, until).await,
            Self::WrongClocks => processes::wrong_clocks(run, until).await,
            Self::Edits => edits::edits(run, until, alone).await,
        }
    }
}
