//! The neighbours of a test, and how long their runs take.

use std::time::Duration;

use crate::judge::AFTER_GRACE;
use crate::neighbours::{ALL, Neighbour};
use crate::store::Kind;
use crate::window::Rate;

/// The rate of CI: each healthy definition has a notice in each second.
const CI: Rate = Rate { count: 55, gap: Duration::from_millis(50) };
/// The rate of the night, at which the 99th percentile is not the worst notice.
const NIGHT: Rate = Rate { count: 200, gap: Duration::from_millis(25) };
/// The longer windows of what CI measures again.
pub const AGAIN: Rate = Rate { count: 120, gap: Duration::from_millis(50) };
/// The pairs of the night. People may want fewer (`NOTIFY_PAIRS`).
const PAIRS: u32 = 5;
/// What a run takes beside its window: the start and the end of the process, the warm-up, and most neighbours' begin and proof.
const AROUND: Duration = Duration::from_secs(4);

/// The neighbours of a test.
pub struct Plan {
    /// Whether they run in pairs.
    pub is_night: bool,
    pub rate: Rate,
    pub pairs: u32,
    pub neighbours: Vec<Neighbour>,
    turn: usize,
}

impl Plan {
    /// Reads it from the environment.
    pub fn of(store: Kind) -> Self {
        let is_night = match std::env::var("NOTIFY_NEIGHBOURS").as_deref() {
            Ok("night") => true,
            Ok(other) => panic!("NOTIFY_NEIGHBOURS is {other:?}; set it to \"night\", or not at all"),
            Err(_) => false,
        };
        let turn = std::env::var("NOTIFY_TURN").map_or(0, |turn| turn.parse().expect("NOTIFY_TURN is a number"));
        let pairs =
            std::env::var("NOTIFY_PAIRS").map_or(PAIRS, |pairs| pairs.parse().expect("NOTIFY_PAIRS is a number"));
        let only = std::env::var("NOTIFY_NEIGHBOUR").ok();
        Self { pairs, ..Self::new(store, is_night, turn, only.as_deref()) }
    }

    fn new(store: Kind, is_night: bool, turn: usize, only: Option<&str>) -> Self {
        let is_chosen = |neighbour: &Neighbour| match only {
            Some(part) => neighbour.is_possible(store) && neighbour.name().contains(part),
            None if is_night => neighbour.is_possible(store),
            None => neighbour.store_of_turn(turn) == Some(store),
        };
        let neighbours = ALL.into_iter().map(|(neighbour, _)| neighbour).filter(is_chosen).collect();
        Self { is_night, rate: if is_night { NIGHT } else { CI }, pairs: PAIRS, neighbours, turn }
    }

    /// Estimates how long it takes, if nothing is measured again.
    fn takes(&self) -> Duration {
        let run = self.rate.window() + AROUND;
        let stuck: Duration =
            self.neighbours.iter().map(|neighbour| neighbour.after_grace()).filter(|time| *time > AFTER_GRACE).sum();
        let count = u32::try_from(self.neighbours.len()).unwrap();
        // In CI the runs without a neighbour are those of the two programs.
        if self.is_night { self.pairs * (2 * count * run + stuck) } else { (count + 2) * run + stuck }
    }

    /// What runs, for people.
    pub fn text(&self) -> String {
        let (count, pairs, seconds) = (self.neighbours.len(), self.pairs, self.takes().as_secs());
        match self.is_night {
            true => format!("{count} neighbours in {pairs} pairs of runs, about {} min", seconds.div_ceil(60)),
            false => format!("{count} neighbours in turn {}, about {seconds} s", self.turn),
        }
    }
}

mod tests {
    use super::*;

    #[test]
    fn night_of_each_store_takes_less_than_90_minutes() {
        for store in Kind::ALL {
            let plan = Plan::new(store, true, 0, None);
            assert!(plan.takes() < Duration::from_secs(90 * 60), "{}: {}", store.name(), plan.text());
        }
    }

    #[test]
    fn name_selects_neighbours_that_have_no_turn() {
        let of_name = |store| Plan::new(store, false, 0, Some("locked_")).neighbours;
        assert_eq!(of_name(Kind::Postgres), [Neighbour::LockedRows, Neighbour::LockedAcks, Neighbour::LockedReplies]);
        assert!(of_name(Kind::Sqlite).is_empty());
    }
}
