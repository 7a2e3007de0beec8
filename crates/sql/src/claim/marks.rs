//! Where a look begins: the time of the first notice that the last look found in each queue slice.
//!
//! A deleted row leaves its index entry until the database clears it away. Postgres cannot do that while any transaction anywhere
//! is older. A look from the start of a queue slice would step over all such entries each time.

use std::collections::HashMap;

use parking_lot::Mutex;
use serde::Serialize;
use solid_notify_core::notice::Status;

/// How far before the first notice a look begins, because overlapping transactions may commit in another order than their times.
const MARGIN_MS: i64 = 100;

/// The marks of each definition: a time for each live status, in the order of [`Status::LIVE`], in milliseconds since 1970.
#[derive(Default)]
pub(crate) struct Marks(Mutex<HashMap<i64, [Option<i64>; 4]>>);

/// The marks of a definition, as the statement `due` reads them.
#[derive(Serialize)]
pub(crate) struct MarkRow {
    owner: i64,
    from_0: Option<i64>,
    from_2: Option<i64>,
    from_5: Option<i64>,
    from_4: Option<i64>,
}

impl Marks {
    /// Returns where a look at a queue slice begins; `None`: at its start.
    pub(crate) fn of(&self, def_id: i64, status: Status) -> Option<i64> {
        let marks = self.0.lock();
        marks.get(&def_id)?[place(status)?]
    }

    pub(crate) fn rows(&self) -> Vec<MarkRow> {
        let marks = self.0.lock();
        let row = |(owner, marks): (&i64, &[Option<i64>; 4])| {
            let [from_0, from_2, from_5, from_4] = *marks;
            MarkRow { owner: *owner, from_0, from_2, from_5, from_4 }
        };
        marks.iter().map(row).collect()
    }

    /// Stores the result of a look: for each queue slice the time of its first notice, or now (0: an unreadable time). A look
    /// that was not thorough does not see notices before the marks, so it moves no mark back.
    pub(crate) fn set(&self, found: &[(i64, Status, i64)], thorough: bool) {
        let mut marks = self.0.lock();
        if thorough {
            marks.clear();
        }
        for (def_id, status, first) in found {
            if let Some(place) = place(*status) {
                let mark = &mut marks.entry(*def_id).or_default()[place];
                *mark = (*mark).max(Some(first - MARGIN_MS).filter(|mark| *mark > 0));
            }
        }
    }
}

fn place(status: Status) -> Option<usize> {
    Status::LIVE.iter().position(|live| *live == status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Status::{Failed, NotSent};

    #[test]
    fn a_mark_goes_forward_until_a_thorough_look_sets_it_anew() {
        let marks = Marks::default();
        assert_eq!(marks.of(1, NotSent), None);
        marks.set(&[(1, NotSent, 5000), (1, Failed, 9000)], true);
        assert_eq!((marks.of(1, NotSent), marks.of(1, Failed), marks.of(2, NotSent)), (Some(4900), Some(8900), None));
        marks.set(&[(1, NotSent, 7000), (1, Failed, 3000)], false);
        assert_eq!((marks.of(1, NotSent), marks.of(1, Failed)), (Some(6900), Some(8900)));
        marks.set(&[(1, NotSent, 1000)], true);
        assert_eq!((marks.of(1, NotSent), marks.of(1, Failed)), (Some(900), None));
        assert_eq!(serde_json::to_value(marks.rows()).unwrap()[0]["from_0"], 900);
    }
}
