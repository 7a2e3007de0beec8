//! Lists and counts of notices for people, and the classes of dead letters. Notices are found in a queue slice by its index. A page
//! begins after a position, never at an offset.

use chrono::{DateTime, Utc};
use solid_notify_core::notice::{NoticeRecord, OwnLimits, Status, rfc3339, time_from_millis};
use solid_notify_core::store::{Listed, Position, QueueSlice};

use crate::connections::Share;
use crate::dialect::Dialect;
use crate::dialect::kind::Kind;
use crate::dialect::row::{columns, readable, required, required_text};
use crate::dialect::statement::{Arg, Statement, int, statements};
use crate::record::DUE;

columns! {
    /// A line of a list. An unreadable time counts as 1970; the position keeps its text as the index has it.
    Line(kind: Kind, slice: &SliceStatements):
    id = "m.id";
    def_id = "m.def_id";
    status = "m.status";
    fence = "m.fence";
    failures = "m.failures";
    crashes = "m.crashes";
    last_class = "m.last_class";
    description = "substr(m.description, 1, 200)";
    create_time = kind.epoch("m.create_time");
    time = kind.epoch(slice.shown);
    position = kind.time_text(slice.time);
    end_reason = slice.reason;
    ordering_key = "m.ordering_key";
    dedupe_key = "m.dedupe_key";
    last_call_time = kind.epoch("m.last_call_time");
    max_tries = "m.max_tries";
    expires_at = kind.epoch("m.expires_at");
}

statements! {
    ListStatements:
    list_ended_newest,
    list_ended_oldest,
    list_dead_newest,
    list_dead_oldest,
    list_group_newest,
    list_group_oldest,
    list_live_newest,
    list_live_oldest,
    count_ended,
    count_dead,
    count_group,
    count_live,
    next_class,
    ahead,
}

impl ListStatements {
    fn new(kind: Kind) -> Self {
        let statement = |text: String| Statement::new(kind, &text);
        // A queue slice: `$2` is its definition, `$3` its status, class or group, `$4` and `$5` the first and the last time.
        let ended = |class: bool| match class {
            false => SliceStatements {
                from: format!("notify_msg_history m{}", kind.by_index("notify_msg_history_finished")),
                which: "m.status = $3".to_owned(),
                time: "m.finish_time",
                shown: "m.finish_time",
                reason: "substr(m.end_reason, 1, 500)",
            },
            true => SliceStatements {
                from: format!("notify_msg_history m{}", kind.by_index("notify_msg_history_dead")),
                which: format!("{} = $3", kind.dead_class()),
                time: "m.finish_time",
                shown: "m.finish_time",
                reason: "substr(m.end_reason, 1, 500)",
            },
        };
        let group = || SliceStatements {
            from: format!("notify_msg_history m{}", kind.by_index("notify_msg_history_group")),
            which: "m.error_group = $3".to_owned(),
            ..ended(false)
        };
        let live = || SliceStatements {
            from: format!("notify_msg m{}", kind.by_slice()),
            which: "m.status = $3".to_owned(),
            time: "m.next_call_time",
            shown: DUE,
            reason: "NULL",
        };
        Self {
            list_ended_newest: statement(ended(false).newest(kind)),
            list_ended_oldest: statement(ended(false).oldest(kind)),
            list_dead_newest: statement(ended(true).newest(kind)),
            list_dead_oldest: statement(ended(true).oldest(kind)),
            list_group_newest: statement(group().newest(kind)),
            list_group_oldest: statement(group().oldest(kind)),
            list_live_newest: statement(live().newest(kind)),
            list_live_oldest: statement(live().oldest(kind)),
            count_ended: statement(ended(false).count(kind)),
            count_dead: statement(ended(true).count(kind)),
            count_group: statement(group().count(kind)),
            count_live: statement(live().count(kind)),
            // The class after `$3`: one index search, however many dead letters there are. One definition at a time, because
            // MySQL searches a range only between constants.
            next_class: statement(format!(
                "SELECT {class} FROM notify_msg_history m{} WHERE m.def_id = $2 AND {class} > $3 ORDER BY {class} LIMIT 1",
                kind.by_index("notify_msg_history_dead"),
                class = kind.dead_class(),
            )),
            ahead: statement(kind.ahead()),
        }
    }
}

/// A queue slice: the notices of a definition and status, or class, in the order of an index.
struct SliceStatements {
    from: String,
    which: String,
    time: &'static str,
    /// The displayed time.
    shown: &'static str,
    reason: &'static str,
}

impl SliceStatements {
    /// At most `$7` notices before the position `$5`, `$6`, newest first.
    fn newest(&self, kind: Kind) -> String {
        self.list(kind, &format!("{} < {} OR m.id < $6", self.time, kind.text_time("$5")), " DESC")
    }

    /// At most `$7` notices after the position `$4`, `$6`, oldest first.
    fn oldest(&self, kind: Kind) -> String {
        self.list(kind, &format!("{} > {} OR m.id > $6", self.time, kind.text_time("$4")), "")
    }

    fn list(&self, kind: Kind, behind: &str, order: &str) -> String {
        let time = self.time;
        let rows = format!("FROM {} WHERE {} AND ({behind})", self.from, self.within(kind));
        format!(
            "SELECT {columns}
             {first}
             ORDER BY {time}{order}, m.id{order}
             LIMIT $7",
            columns = Line::list(kind, self),
            first = kind.first_by(&rows, &format!("{time}{order}"), "$7"),
        )
    }

    /// The number of notices, at most `$6`.
    fn count(&self, kind: Kind) -> String {
        format!(
            "SELECT count(*) FROM (SELECT 1 AS one FROM {} WHERE {} LIMIT $6) AS counted",
            self.from,
            self.within(kind)
        )
    }

    fn within(&self, kind: Kind) -> String {
        format!(
            "m.def_id = $2 AND {} AND {time} >= {} AND {time} <= {}",
            self.which,
            kind.text_time("$4"),
            kind.text_time("$5"),
            time = self.time
        )
    }
}

pub(crate) async fn list<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    slice: &QueueSlice,
    limit: usize,
) -> sqlx::Result<Vec<Listed>> {
    let statements = ListStatements::of(DB::KIND);
    let statement = match (slice.status.is_final(), &slice.class, slice.newest_first) {
        (true, _, true) if slice.group.is_some() => &statements.list_group_newest,
        (true, _, false) if slice.group.is_some() => &statements.list_group_oldest,
        (true, None, true) => &statements.list_ended_newest,
        (true, None, false) => &statements.list_ended_oldest,
        (true, Some(_), true) => &statements.list_dead_newest,
        (true, Some(_), false) => &statements.list_dead_oldest,
        (false, _, true) => &statements.list_live_newest,
        (false, _, false) => &statements.list_live_oldest,
    };
    let bounds = Bounds::of::<DB>(slice);
    let [from, until] = bounds.args();
    let args = [now, slice.def_id.into(), which(slice), from, until, bounds.id.into(), int(limit).into()];
    let rows = on.rows(statement, &args).await?;
    Ok(readable::<DB, _>(&rows, "notice", read::<DB>))
}

pub(crate) async fn count<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    slice: &QueueSlice,
    most: usize,
) -> sqlx::Result<usize> {
    let statements = ListStatements::of(DB::KIND);
    let statement = match (slice.status.is_final(), &slice.class) {
        (true, _) if slice.group.is_some() => &statements.count_group,
        (true, None) => &statements.count_ended,
        (true, Some(_)) => &statements.count_dead,
        (false, _) => &statements.count_live,
    };
    let bounds = Bounds::of::<DB>(slice);
    let [from, until] = bounds.args();
    let args = [now, slice.def_id.into(), which(slice), from, until, int(most).into()];
    let rows = on.rows(statement, &args).await?;
    let count = rows.first().map(|row| required::<DB>(row, 0)).transpose()?;
    Ok(count.and_then(|count| usize::try_from(count).ok()).unwrap_or(0))
}

/// Returns the notice in front of a notice with an ordering key.
pub(crate) async fn ahead<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    notice: &NoticeRecord,
    key: &str,
) -> sqlx::Result<Option<i64>> {
    let args = [now, notice.def_id.into(), key.into(), notice.id.into()];
    let rows = on.rows(&ListStatements::of(DB::KIND).ahead, &args).await?;
    rows.first().map(|row| required::<DB>(row, 0)).transpose()
}

/// Reads class after class: one look for each class of a definition, and one more.
pub(crate) async fn classes<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    def_ids: &[i64],
) -> sqlx::Result<Vec<(i64, String)>> {
    let mut found = Vec::new();
    for def_id in def_ids {
        // The empty text sorts before every class.
        let mut last = String::new();
        loop {
            let args = [now, (*def_id).into(), last.as_str().into()];
            let rows = on.rows(&ListStatements::of(DB::KIND).next_class, &args).await?;
            let Some(class) = rows.first().map(|row| required_text::<DB>(row, 0)).transpose()? else { break };
            found.push((*def_id, class.clone()));
            last = class;
        }
    }
    Ok(found)
}

/// The times between which a queue slice is read, as text of the database, and the id after which the page begins.
pub(crate) struct Bounds {
    from: String,
    until: String,
    id: i64,
}

impl Bounds {
    pub(crate) fn of<DB: Dialect>(slice: &QueueSlice) -> Self {
        let text = |time: DateTime<Utc>| {
            let text = rfc3339(time);
            DB::KIND.padded_time(&text.trim_end_matches('Z').replace('T', " "))
        };
        let from = slice.from.map_or_else(|| "1970-01-01 00:00:00".to_owned(), text);
        let until = slice.until.map_or_else(|| DB::KIND.last_time().to_owned(), text);
        match (&slice.after, slice.newest_first) {
            (Some(after), true) => {
                // The position may be later than the end of the filter.
                let until = if after.time() < until.as_str() { after.time().to_owned() } else { until };
                let id = if after.time() == until { after.id() } else { i64::MAX };
                Self { from, until, id }
            }
            (Some(after), false) => {
                let from = if after.time() > from.as_str() { after.time().to_owned() } else { from };
                let id = if after.time() == from { after.id() } else { i64::MIN };
                Self { from, until, id }
            }
            (None, true) => Self { from, until, id: i64::MAX },
            (None, false) => Self { from, until, id: i64::MIN },
        }
    }

    pub(crate) fn args(&self) -> [Arg<'_>; 2] {
        [self.from.as_str().into(), self.until.as_str().into()]
    }
}

/// The argument that selects a queue slice among those of its definition: the group, the class or the status.
fn which(slice: &QueueSlice) -> Arg<'_> {
    match (slice.group, &slice.class) {
        (Some(group), _) => group.into(),
        (None, Some(class)) => class.as_str().into(),
        (None, None) => slice.status.code().into(),
    }
}

fn read<DB: Dialect>(row: &DB::Row) -> sqlx::Result<Listed> {
    const AT: Line = Line::AT;
    let code = required::<DB>(row, AT.status)?;
    let status = Status::from_code(code).ok_or_else(|| sqlx::Error::Decode(format!("unknown status {code}").into()))?;
    let (id, def_id) = (required::<DB>(row, AT.id)?, required::<DB>(row, AT.def_id)?);
    let time = |column| Ok::<_, sqlx::Error>(time_from_millis(DB::int(row, column)?.unwrap_or(0)));
    let position = Position::new(DB::text(row, AT.position)?.unwrap_or_default(), id);
    let mut listed = Listed::new(id, def_id, status, time(AT.create_time)?, time(AT.time)?, position);
    listed.fence = required::<DB>(row, AT.fence)?;
    listed.failures = required::<DB>(row, AT.failures)?;
    listed.crashes = required::<DB>(row, AT.crashes)?;
    listed.last_class = DB::text(row, AT.last_class)?;
    listed.description = DB::text(row, AT.description)?;
    listed.end_reason = DB::text(row, AT.end_reason)?;
    listed.ordering_key = DB::text(row, AT.ordering_key)?;
    listed.dedupe_key = DB::text(row, AT.dedupe_key)?;
    listed.last_call_time = DB::int(row, AT.last_call_time)?.map(time_from_millis);
    listed.own = OwnLimits::new(DB::int(row, AT.max_tries)?, DB::int(row, AT.expires_at)?.map(time_from_millis));
    Ok(listed)
}
