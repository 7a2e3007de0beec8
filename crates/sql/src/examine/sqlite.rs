//! The checks of SQLite: the file, and how connections of this process write it.

use solid_notify_core::finding::Finding;

use crate::examine::check::Check;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "version",
        sql: "SELECT sqlite_version()",
        // Older ones are refused by every connection.
        judge: |version| Finding::fine("version", format!("SQLite {version}")),
    },
    Check {
        name: "journal_mode",
        sql: "SELECT journal_mode FROM pragma_journal_mode",
        judge: |mode| match mode {
            "wal" => Finding::fine("journal_mode", mode),
            "memory" | "off" => Finding::problem(
                "journal_mode",
                mode,
                "a crash in the middle of a transaction can destroy the file, or the database is in memory and ends with the process",
                "use a file, and PRAGMA journal_mode = WAL",
            ),
            mode => Finding::warning(
                "journal_mode",
                mode,
                "readers and the writer wait for each other",
                "PRAGMA journal_mode = WAL; it needs a local disk and the right to write to the folder",
            ),
        },
    },
    Check {
        name: "synchronous",
        sql: "SELECT cast(synchronous AS text) FROM pragma_synchronous",
        judge: |value| match value {
            "0" => Finding::problem(
                "synchronous",
                "off",
                "a power failure can destroy the file",
                "PRAGMA synchronous = FULL in every connection of the application",
            ),
            "1" => Finding::warning(
                "synchronous",
                "normal",
                "a power failure can lose the last commits: orders with their notices",
                "PRAGMA synchronous = FULL in every connection of the application, if that matters",
            ),
            _ => Finding::fine("synchronous", "full"),
        },
    },
    Check {
        name: "bloat",
        sql: "SELECT cast(CASE WHEN p.page_count > 25000 THEN 100 * f.freelist_count / p.page_count ELSE 0 END AS text)
              FROM pragma_freelist_count f, pragma_page_count p",
        judge: |percent| match percent.parse::<u64>().unwrap_or(0) {
            percent if percent > 50 => Finding::warning(
                "bloat",
                format!("{percent} % of the file are free"),
                "the file does not shrink by itself",
                "VACUUM, at a quiet time",
            ),
            percent => Finding::fine("bloat", format!("{percent} % of the file are free")),
        },
    },
];
