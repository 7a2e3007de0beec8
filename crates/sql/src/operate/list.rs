//! Lists and counts of notices for people, and the classes of dead letters. Notices are found in a queue slice by its index. A page
//! begins after a position, never at an offset.

use chrono::{DateTime, Utc};
use solid_notify_core::notice::{NoticeRecord, rfc3339};
use solid_notify_core::store::{Listed, QueueSlice};

use crate::connections::Share;
use crate::dialect::Dialect;
use crate::dialect::kind::Kind;
use crate::dialect::row::{one_number, one_text, readable};
use crate::dialect::statement::{Arg, Statement, int, statements};
use crate::operate::narrow::{self, NarrowStatements};
use crate::operate::slice::{Slice, read};

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
        let page = |slice: &Slice, newest_first| statement(slice.page(kind, newest_first, "$6", "$7"));
        let count = |slice: &Slice| statement(format!("SELECT count(*) FROM ({}) AS counted", slice.rows(kind, "$6")));
        // A queue slice: `$3` is its status, class or group.
        let ended = Slice::ended(kind, "notify_msg_history_finished", "m.status = $3");
        let dead = Slice::ended(kind, "notify_msg_history_dead", &format!("{} = $3", kind.dead_class()));
        let group = Slice::ended(kind, "notify_msg_history_group", "m.error_group = $3");
        let live = Slice::live(kind, "notify_msg_due", "m.status = $3");
        Self {
            list_ended_newest: page(&ended, true),
            list_ended_oldest: page(&ended, false),
            list_dead_newest: page(&dead, true),
            list_dead_oldest: page(&dead, false),
            list_group_newest: page(&group, true),
            list_group_oldest: page(&group, false),
            list_live_newest: page(&live, true),
            list_live_oldest: page(&live, false),
            count_ended: count(&ended),
            count_dead: count(&dead),
            count_group: count(&group),
            count_live: count(&live),
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

pub(crate) async fn list<DB: Dialect>(
    on: &Share<DB>,
    now: Arg<'_>,
    slice: &QueueSlice,
    limit: usize,
) -> sqlx::Result<Vec<Listed>> {
    let bounds = Bounds::of::<DB>(slice);
    let [from, until] = bounds.args();
    if !slice.only.selects_all() {
        let statement = NarrowStatements::of(DB::KIND).list(slice);
        let args = narrow::args(now, slice, [from, until, int(limit).into()], bounds.id);
        return Ok(readable::<DB, _>(&on.rows(statement, &args).await?, "notice", read::<DB>));
    }
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
    let bounds = Bounds::of::<DB>(slice);
    let [from, until] = bounds.args();
    let rows = if slice.only.selects_all() {
        let statements = ListStatements::of(DB::KIND);
        let statement = match (slice.status.is_final(), &slice.class) {
            (true, _) if slice.group.is_some() => &statements.count_group,
            (true, None) => &statements.count_ended,
            (true, Some(_)) => &statements.count_dead,
            (false, _) => &statements.count_live,
        };
        on.rows(statement, &[now, slice.def_id.into(), which(slice), from, until, int(most).into()]).await?
    } else {
        let args = narrow::args(now, slice, [from, until, int(most).into()], bounds.id);
        on.rows(NarrowStatements::of(DB::KIND).count(slice), &args).await?
    };
    let count = one_number::<DB>(&rows)?;
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
    one_number::<DB>(&rows)
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
            let Some(class) = one_text::<DB>(&rows)? else { break };
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
