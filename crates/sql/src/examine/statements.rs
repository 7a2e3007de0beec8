//! Which checks and catalogues a database has.

use crate::dialect::kind::Kind;
use crate::examine::check::Check;
use crate::examine::{mysql, postgres, sqlite};

/// Returns the checks of the settings of a database.
pub(crate) fn checks(kind: Kind) -> &'static [Check] {
    match kind {
        Kind::Postgres => postgres::CHECKS,
        Kind::MySql => mysql::CHECKS,
        Kind::Sqlite => sqlite::CHECKS,
    }
}

/// Returns whether there are poolers in front of such servers.
pub(crate) fn may_be_pooled(kind: Kind) -> bool {
    kind == Kind::Postgres
}

#[cfg(test)]
mod tests {
    use solid_notify_core::finding::Severity::{self, Fine, Problem, Warning};

    use super::*;

    fn judged(kind: Kind, name: &str, text: &str) -> Severity {
        let found: Vec<&Check> = checks(kind).iter().filter(|check| check.name == name).collect();
        assert_eq!(found.len(), 1, "{name}");
        (found[0].judge)(text).severity
    }

    /// Settings that tests of a shared server cannot change.
    #[test]
    fn settings_are_judged_by_what_they_break() {
        for (kind, name, text, severity) in [
            (Kind::Postgres, "tls", "", Warning),
            (Kind::Postgres, "tls", "TLSv1.3", Fine),
            (Kind::Postgres, "fsync", "on, full_page_writes on", Fine),
            (Kind::Postgres, "fsync", "on, full_page_writes off", Problem),
            (Kind::Postgres, "synchronous_commit", "remote_apply", Fine),
            (Kind::Postgres, "oldest_transaction", "300", Fine),
            (Kind::Postgres, "oldest_transaction", "301", Warning),
            (Kind::Postgres, "bloat", "250000", Warning),
            (Kind::MySql, "tls", "", Warning),
            (Kind::MySql, "innodb_flush_log_at_trx_commit", "1", Fine),
            (Kind::MySql, "innodb_flush_log_at_trx_commit", "2", Problem),
            (Kind::MySql, "sync_binlog", "1 0", Warning),
            (Kind::MySql, "sync_binlog", "1 1", Fine),
            (Kind::MySql, "sync_binlog", "0 0", Fine),
            (Kind::MySql, "binlog_format", "1 MIXED", Warning),
            (Kind::MySql, "binlog_format", "1 ROW", Fine),
            (Kind::MySql, "binlog_format", "0 MIXED", Fine),
            (Kind::MySql, "isolation", "SERIALIZABLE", Warning),
            (Kind::MySql, "oldest_transaction", "301", Warning),
            (Kind::MySql, "bloat", "2000", Warning),
            (Kind::Sqlite, "journal_mode", "delete", Warning),
            (Kind::Sqlite, "synchronous", "1", Warning),
            (Kind::Sqlite, "bloat", "51", Warning),
            (Kind::Sqlite, "bloat", "50", Fine),
        ] {
            assert_eq!(judged(kind, name, text), severity, "{kind:?} {name} {text:?}");
        }
    }
}
