//! The statements of the series.

use solid_notify_core::store::SeriesCounts;

use crate::dialect::kind::Kind::{self, MySql, Postgres, Sqlite};
use crate::dialect::kind::Ty;
use crate::dialect::statement::{Statement, statements};

statements! {
    SeriesStatements:
    write_series,
    series,
    series_of_all,
    purge_series,
}

/// The columns that a row of the table has beside its key.
fn columns(each: impl Fn(&str, bool) -> String) -> String {
    let columns = SeriesCounts::COLUMNS.iter().map(|(name, is_max)| each(name, *is_max));
    columns.collect::<Vec<_>>().join(", ")
}

impl SeriesStatements {
    fn new(kind: Kind) -> Self {
        let now = kind.now();
        let statement = |text: String| Statement::new(kind, &text);
        let mut batch = vec![("owner", Ty::Int), ("minute_ms", Ty::Int)];
        batch.extend(SeriesCounts::COLUMNS.iter().map(|(name, _)| (*name, Ty::Int)));
        // `$3` and `$4` are the begin and the end, `$5` the step, in milliseconds.
        let sums = |which: &str, by_index: &str| {
            let step = kind.whole_part(&format!("({}) - $3", kind.epoch("minute")), "$5");
            format!(
                "SELECT {step} AS step, {sums} FROM notify_series{by_index}
                 WHERE {which}minute >= {from} AND minute < {until}
                 GROUP BY step",
                sums = columns(
                    |name, is_max| kind.whole_number(&format!("{}({name})", if is_max { "max" } else { "sum" }))
                ),
                by_index = kind.by_index(by_index),
                from = kind.epoch_time("$3"),
                until = kind.epoch_time("$4")
            )
        };
        let old = format!("minute < {}", kind.plus(&now, "-$2"));
        Self {
            // The counters of a minute only grow. So a repeated write changes nothing, and neither does one that is executed late.
            write_series: statement(format!(
                "INSERT INTO notify_series (def_id, minute, node, {names})
                 SELECT b.owner, {minute}, $3, {values} FROM {batch} WHERE true
                 {replaced}",
                names = columns(|name, _| name.to_owned()),
                minute = kind.epoch_time("b.minute_ms"),
                values = columns(|name, _| format!("b.{name}")),
                batch = kind.batch("$2", &batch),
                replaced = match kind {
                    Postgres | Sqlite => {
                        let larger =
                            |name: &str| kind.later(&format!("notify_series.{name}"), &format!("excluded.{name}"));
                        let set = columns(|name, _| format!("{name} = {}", larger(name)));
                        format!("ON CONFLICT (def_id, minute, node) DO UPDATE SET {set}")
                    }
                    MySql => {
                        let larger =
                            |name: &str| kind.later(&format!("notify_series.{name}"), &format!("VALUES({name})"));
                        format!("ON DUPLICATE KEY UPDATE {}", columns(|name, _| format!("{name} = {}", larger(name))))
                    }
                }
            )),
            series: statement(sums("def_id = $2 AND ", "PRIMARY")),
            series_of_all: statement(sums("", "notify_series_minute")),
            purge_series: statement(match kind {
                Postgres => format!(
                    "DELETE FROM notify_series WHERE ctid = ANY (ARRAY(SELECT ctid FROM notify_series WHERE {old} LIMIT $3))"
                ),
                Sqlite => format!(
                    "DELETE FROM notify_series WHERE rowid IN (SELECT rowid FROM notify_series WHERE {old} LIMIT $3)"
                ),
                MySql => format!("DELETE FROM notify_series WHERE {old} ORDER BY minute LIMIT $3"),
            }),
        }
    }
}

impl Kind {
    /// A quotient of whole numbers without its fraction. A division of whole numbers drops it, except on MySQL, which needs DIV.
    fn whole_part(self, dividend: &str, divisor: &str) -> String {
        let divided = if self == MySql { "DIV" } else { "/" };
        format!("({dividend}) {divided} {divisor}")
    }

    /// A sum as a number of 64 bits: Postgres and MySQL sum them to decimals.
    fn whole_number(self, sum: &str) -> String {
        match self {
            Postgres => format!("({sum})::bigint"),
            MySql => format!("CAST({sum} AS SIGNED)"),
            Sqlite => sum.to_owned(),
        }
    }
}
