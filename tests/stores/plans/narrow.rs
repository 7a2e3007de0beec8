//! Each way to the notices of a narrowed filter has its index: those of a tag, of a key, of ids.

use solid_notify_sql::statement_texts;

use super::{Access, Plans};

/// A way: its number, the index, and whether the found notices, which are few, are sorted.
type Way = (&'static str, &'static str, bool);

const ENDED: [Way; 7] = [
    ("1", "notify_msg_history_finished", false),
    ("2", "notify_msg_history_dead", false),
    ("3", "PRIMARY", true),
    ("4", "notify_msg_history_tag", false),
    ("5", "notify_msg_history_order", false),
    ("6", "notify_msg_history_dedupe", false),
    ("7", "notify_msg_history_group", false),
];
const LIVE: [Way; 4] = [
    ("1", "notify_msg_due", false),
    ("3", "PRIMARY", true),
    ("4", "notify_msg_tag", true),
    ("5", "notify_msg_order", true),
];

/// Returns what is wrong with the plans. PostgreSQL and SQLite plan all ways of a statement at once, MySQL the one that runs.
pub async fn bad_ways<DB: Plans>(conn: &mut DB::Connection, tables: &str) -> Vec<String> {
    let mut bad = Vec::new();
    for (name, text) in statement_texts::<DB>().into_iter().filter(|(name, _)| name.contains("_narrow_")) {
        let (ways, status) = if name.contains("ended") { (&ENDED[..], "3") } else { (&LIVE[..], "0") };
        for (way, index, _) in ways {
            let steps = DB::explain(conn, &text, &arguments(DB::NAME, status, way)).await;
            let index_of = |step: &str| {
                let named = ways.iter().filter(|(_, index, _)| uses(step, index));
                named.max_by_key(|(_, index, _)| index.len()).map(|(way, ..)| *way)
            };
            let (sorts, reads): (Vec<_>, Vec<_>) =
                steps.iter().partition(|(access, _)| matches!(access, Access::Sort | Access::SortFew));
            if !reads.iter().any(|(_, step)| index_of(step) == Some(*way)) {
                bad.push(format!("{name}, way {way}, {tables}: {index} is not used: {steps:?}"));
            }
            let strays = reads.iter().filter(|(access, step)| {
                index_of(step).is_none() || matches!(access, Access::Whole | Access::Definition)
            });
            bad.extend(strays.map(|(_, step)| format!("{name}, way {way}, {tables}: {step}")));
            // Few found notices are sorted by time, on PostgreSQL then those of the same time by id. The page is sorted once more, on
            // SQLite in each way, and there the page of live notices that two searches have found.
            let sorted = |all: bool| ways.iter().filter(|(other, _, sorted)| *sorted && (all || other == way)).count();
            let (found, pages) = match DB::NAME {
                "MySQL" => (sorted(false), 1),
                "SQLite" => (sorted(true), ways.len() + usize::from(name.contains("live"))),
                _ => (sorted(true) * 2, 1),
            };
            if sorts.len() > found + if name.starts_with("list") { pages } else { 0 } {
                bad.push(format!("{name}, way {way}, {tables}: {} are sorted: {steps:?}", sorts.len()));
            }
        }
    }
    bad
}

/// True if a step of a plan searches this index.
fn uses(step: &str, index: &str) -> bool {
    match index {
        "PRIMARY" => ["PRIMARY", "notify_msg_pkey", "notify_msg_history_pkey"].iter().any(|name| step.contains(name)),
        _ => step.contains(index),
    }
}

fn arguments(database: &str, status: &str, way: &str) -> Vec<String> {
    let ids = match database {
        "PostgreSQL" => "'{777,200777}'",
        "MySQL" => "777,200777",
        _ => "'[777,200777]'",
    };
    let (from, until) = ("'1970-01-01 00:00:00'", "'9999-12-31 23:59:59'");
    [
        "1",
        status,
        from,
        until,
        "51",
        way,
        ids,
        "'one tag'",
        "'one key'",
        "'17'",
        "'auth'",
        "'refused'",
        "1",
        "7",
        "1000",
    ]
    .map(str::to_owned)
    .to_vec()
}
