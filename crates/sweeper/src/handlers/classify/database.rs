//! The class of an sqlx error, by its type and by the server's error code. One function for each database.

use solid_notify_core::ErrorClass;
use solid_notify_core::ErrorClass::{Auth, Deadlock, Invalid, Network, NotFound, Unavailable};
#[cfg(any(feature = "postgres", feature = "mysql"))]
use solid_notify_core::ErrorClass::{Busy, Timeout};

use super::cause::{Cause, TypeClass};

/// Returns the class of an [`sqlx::Error`]. Does not look at the error's causes, which may determine it more exactly.
pub(super) fn class(error: Cause<'_>) -> Option<TypeClass> {
    let class = match error.downcast_ref::<sqlx::Error>()? {
        sqlx::Error::Database(error) => return reported(error.as_ref()).map(TypeClass::Perhaps),
        // The server is full or down: the pool reports only that it got no connection in time.
        sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => Unavailable,
        sqlx::Error::Tls(_) | sqlx::Error::Protocol(_) => Network,
        sqlx::Error::RowNotFound => NotFound,
        sqlx::Error::Encode(_) | sqlx::Error::InvalidArgument(_) => Invalid,
        // The cause of `Io` decides its class. The others are faults of the program or of its settings, which a release corrects.
        _ => return None,
    };
    Some(TypeClass::Perhaps(class))
}

/// Returns the class of an error that a server reported.
fn reported(error: &dyn sqlx::error::DatabaseError) -> Option<ErrorClass> {
    #[cfg(feature = "postgres")]
    if error.try_downcast_ref::<sqlx::postgres::PgDatabaseError>().is_some() {
        return postgres(&error.code().unwrap_or_default());
    }
    #[cfg(feature = "mysql")]
    if let Some(error) = error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>() {
        return mysql(error.number());
    }
    #[cfg(feature = "sqlite")]
    if error.try_downcast_ref::<sqlx::sqlite::SqliteError>().is_some() {
        return sqlite(error.code().and_then(|code| code.parse().ok()).unwrap_or(0));
    }
    None
}

/// Returns the class of an SQLSTATE of PostgreSQL. A fault of the schema or of the server's disk shows nothing about the notice.
#[cfg(feature = "postgres")]
fn postgres(code: &str) -> Option<ErrorClass> {
    match (code, code.get(..2).unwrap_or_default()) {
        // A wrong role or password, a missing right.
        ("42501", _) | (_, "28") => Some(Auth),
        // Too many connections, and other exhausted resources.
        (_, "53") => Some(Busy),
        (_, "08") => Some(Network),
        // An unknown outcome of a commit, a shutdown, a read-only standby, an idle transaction that the server ended.
        ("40003" | "57P01" | "57P02" | "57P03" | "57P05" | "25006" | "25P03", _) => Some(Unavailable),
        // A lock that was not free in time, serialization failures, deadlocks.
        ("55P03", _) | (_, "40") => Some(Deadlock),
        // `statement_timeout`, or an administrator's cancel.
        ("57014", _) => Some(Timeout),
        // Cardinality, data exceptions, constraints, a value above the server's limits.
        (_, "21" | "22" | "23" | "54") => Some(Invalid),
        _ => None,
    }
}

/// Returns the class of an error number of MySQL or MariaDB.
#[cfg(feature = "mysql")]
fn mysql(number: u16) -> Option<ErrorClass> {
    match number {
        // A wrong user or password, a locked account, a missing right to a database, table, column, routine or operation.
        1044 | 1045 | 1142 | 1143 | 1227 | 1370 | 1698 | 3118 => Some(Auth),
        // Too many connections of the server or of the user.
        1040 | 1203 | 1226 => Some(Busy),
        // Connections that were aborted, lost or never established.
        1152 | 1158..=1161 | 2002 | 2003 | 2006 | 2013 => Some(Network),
        // Shutdown, read-only servers (a failover), connections that the server closed.
        1053 | 1290 | 1836 | 1927 | 4031 => Some(Unavailable),
        // Lock wait time-out, deadlock, a snapshot that is too old, NOWAIT, a deadlock over the next id.
        1205 | 1213 | 1020 | 3572 | 1467 => Some(Deadlock),
        // A statement that took longer than the server allows, or that an administrator killed.
        1317 | 1969 | 3024 => Some(Timeout),
        // Null in a column without nulls, duplicates, out of range, truncated, wrong characters or numbers, JSON, a CHECK
        // constraint, larger than a packet, a row or a function's result may be.
        1048 | 1062 | 1264 | 1292 | 1365 | 1366 | 1406 | 1690 | 3140 | 3141 | 4025 | 3819 | 1153 | 1118 | 1301 => {
            Some(Invalid)
        }
        _ => None,
    }
}

/// Returns the class of an extended result code of SQLite, whose lowest byte is the primary one.
#[cfg(feature = "sqlite")]
fn sqlite(code: u32) -> Option<ErrorClass> {
    match code & 0xff {
        // PERM, AUTH.
        3 | 23 => Some(Auth),
        // BUSY, LOCKED.
        5 | 6 => Some(Deadlock),
        // READONLY, IOERR, FULL, CANTOPEN.
        8 | 10 | 13 | 14 => Some(Unavailable),
        // TOOBIG, CONSTRAINT, MISMATCH, RANGE.
        18 | 19 | 20 | 25 => Some(Invalid),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "postgres")]
    #[test]
    fn codes_of_postgres_have_classes() {
        for (codes, class) in [
            (&["40001", "40P01", "55P03"][..], Some(Deadlock)),
            (&["28P01", "28000", "42501"], Some(Auth)),
            (&["57014"], Some(Timeout)),
            (&["53300"], Some(Busy)),
            (&["08006"], Some(Network)),
            (&["57P01", "57P03", "25006"], Some(Unavailable)),
            (&["23505", "22P02"], Some(Invalid)),
            (&["42P01", "58030", "", "é"], None),
        ] {
            for code in codes {
                assert_eq!(postgres(code), class, "{code}");
            }
        }
    }

    #[cfg(feature = "mysql")]
    #[test]
    fn codes_of_mysql_have_classes() {
        for (numbers, expected) in [
            (&[1205, 1213][..], Some(Deadlock)),
            (&[1045, 1142], Some(Auth)),
            (&[1969, 3024], Some(Timeout)),
            (&[1040], Some(Busy)),
            (&[2013, 1160], Some(Network)),
            (&[1053, 1290], Some(Unavailable)),
            (&[1062, 1406], Some(Invalid)),
            (&[1146, 1021, 0], None),
        ] {
            for number in numbers {
                assert_eq!(mysql(*number), expected, "{number}");
            }
        }
    }

    #[cfg(feature = "sqlite")]
    #[test]
    fn codes_of_sqlite_have_classes() {
        for (code, expected) in [
            (5, Some(Deadlock)),
            (517, Some(Deadlock)),
            (13, Some(Unavailable)),
            (2067, Some(Invalid)),
            (23, Some(Auth)),
            (1, None),
        ] {
            assert_eq!(sqlite(code), expected, "{code}");
        }
    }
}
