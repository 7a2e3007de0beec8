//! Reads and locks rows. A row that an edit by hand made unreadable is skipped and does not affect the others.

use solid_notify_core::notice::{ClaimedNotice, OwnLimits, Status, time_from_millis};
use sqlx::{AssertSqlSafe, SqlSafeStr};

use crate::dialect::Dialect;
use crate::dialect::statement::{Arg, Prepared, Statement};
use crate::sql::claim::Claimed;

/// Declares the columns of one kind of row, each with its SQL, in the order in which a statement selects them. The list makes both
/// the text of the SELECT (`list`) and the positions at which a reader finds the columns by their names (`AT`): a search for the name
/// in each row would cost more, and not every driver keeps the names of a row.
macro_rules! columns {
    ($(#[$doc:meta])* $vis:vis $of:ident($($given:ident: $ty:ty),*): $($name:ident = $sql:expr;)+) => {
        $(#[$doc])*
        $vis struct $of {
            $(pub(crate) $name: usize,)+
        }

        impl $of {
            /// The position of each column.
            $vis const AT: Self = {
                let mut next = 0;
                Self { $($name: { next += 1; next - 1 },)+ }
            };
            /// How many columns there are: the position of a column that a statement selects behind them.
            #[allow(dead_code)] // Most statements select no column behind them.
            $vis const COUNT: usize = [$(stringify!($name)),+].len();

            /// The columns of a SELECT or of RETURNING.
            $vis fn list($($given: $ty),*) -> String {
                [$(String::from($sql)),+].join(", ")
            }
        }
    };
}
pub(crate) use columns;

pub(crate) fn required<DB: Dialect>(row: &DB::Row, column: usize) -> sqlx::Result<i64> {
    DB::int(row, column)?.ok_or_else(|| unexpected("a number", column))
}

pub(crate) fn required_text<DB: Dialect>(row: &DB::Row, column: usize) -> sqlx::Result<String> {
    DB::text(row, column)?.ok_or_else(|| unexpected("a text", column))
}

/// The numbers of a statement that selects one column, or the ids with which its rows begin.
pub(crate) fn numbers<DB: Dialect>(rows: &[DB::Row]) -> sqlx::Result<Vec<i64>> {
    rows.iter().map(|row| required::<DB>(row, 0)).collect()
}

/// The number of a statement that selects one; `None`: no row, or null.
pub(crate) fn one_number<DB: Dialect>(rows: &[DB::Row]) -> sqlx::Result<Option<i64>> {
    rows.first().map_or(Ok(None), |row| DB::int(row, 0))
}

/// The text of a statement that selects one; `None`: no row, or null.
pub(crate) fn one_text<DB: Dialect>(rows: &[DB::Row]) -> sqlx::Result<Option<String>> {
    rows.first().map_or(Ok(None), |row| DB::text(row, 0))
}

fn unexpected(what: &str, column: usize) -> sqlx::Error {
    sqlx::Error::Decode(format!("column {column} is null, not {what}").into())
}

/// Reads the claimed notices of `rows`. Skips rows that an edit by hand made unreadable.
pub(crate) fn read_claimed<DB: Dialect>(rows: &[DB::Row], status: Status) -> Vec<ClaimedNotice> {
    const AT: Claimed = Claimed::AT;
    let read = |row: &DB::Row| {
        let last_call = DB::moment(row, AT.last_call_time)?.unwrap_or(0);
        // An unreadable time of creation is replaced by the time of the call, because the notice must still be sent.
        let created = DB::moment(row, AT.create_time)?.unwrap_or(last_call);
        let param = DB::text(row, AT.param)?;
        Ok(ClaimedNotice {
            id: required::<DB>(row, AT.id)?,
            def_id: required::<DB>(row, AT.def_id)?,
            param_is_left: param.is_none(),
            param: param.unwrap_or_default(),
            description: DB::text(row, AT.description)?,
            errors: DB::text(row, AT.errors)?,
            status,
            fence: required::<DB>(row, AT.fence)?,
            failures: required::<DB>(row, AT.failures)?,
            crashes: required::<DB>(row, AT.crashes)?,
            worker: DB::text(row, AT.worker)?.unwrap_or_default(),
            last_call_time: time_from_millis(last_call),
            create_time: time_from_millis(created),
            trace_context: DB::text(row, AT.trace_context)?,
            ordering_key: DB::text(row, AT.ordering_key)?,
            tag: DB::text(row, AT.tag)?,
            own: OwnLimits::new(DB::int(row, AT.max_tries)?, DB::moment(row, AT.expires_at)?.map(time_from_millis)),
        })
    };
    readable::<DB, _>(rows, "notice", read)
}

/// Applies `read` to each row. Logs and skips rows that it fails for, with their id, which is the first column.
pub(crate) fn readable<DB: Dialect, T>(
    rows: &[DB::Row],
    what: &'static str,
    read: impl Fn(&DB::Row) -> sqlx::Result<T>,
) -> Vec<T> {
    let logged = |row: &DB::Row| {
        let failed = |error: sqlx::Error| {
            let id = DB::int(row, 0).ok().flatten();
            tracing::error!(what, id, %error, "skipped a row that cannot be read");
        };
        read(row).map_err(failed).ok()
    };
    rows.iter().filter_map(logged).collect()
}

/// Maximum number of tries to create a row that another session deletes at the same moment.
const CREATE_TRIES: usize = 5;

/// Has the database explain a statement: it then checks the rights that the statement needs.
pub(crate) async fn explain<DB: Dialect>(
    conn: &mut DB::Connection,
    statement: impl Into<Prepared<'_>>,
    args: &[Arg<'_>],
) -> sqlx::Result<()> {
    let statement: Prepared<'_> = statement.into();
    let numbered = format!("EXPLAIN {}", statement.numbered);
    let sql = AssertSqlSafe(format!("EXPLAIN {}", statement.sql.as_str())).into_sql_str();
    DB::fetch(conn, Prepared { sql, numbered: &numbered, ..statement }, args).await.map(drop)
}

/// Locks a row, and creates it where it is missing. Searches first: on MySQL an insert that finds the row would keep a shared lock
/// on it and wait for other sessions.
pub(crate) async fn locked_row<DB: Dialect>(
    conn: &mut DB::Connection,
    lock: &Statement,
    create: &Statement,
    key: &[Arg<'_>],
) -> sqlx::Result<DB::Row> {
    for _ in 0..CREATE_TRIES {
        if let Some(locked) = DB::fetch(conn, lock, key).await?.into_iter().next() {
            return Ok(locked);
        }
        DB::execute(conn, create, key).await?;
    }
    Err(sqlx::Error::RowNotFound)
}
