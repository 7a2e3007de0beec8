//! The statements over `notify_def_version`, and those that find a definition's row for a version.

use crate::definitions::statements::select_definitions;
use crate::dialect::kind::Kind;
use crate::dialect::statement::Statement;
use crate::statements::statements;

statements! {
    VersionStatements:
    versions,
    last_versions,
    write_version,
    forget_versions,
    definition_by_id,
    lock_definition_if_free,
}

impl VersionStatements {
    pub(crate) fn new(kind: Kind) -> Self {
        let statement = |text: String| Statement::new(kind, &text);
        let read = format!(
            "SELECT v.def_id, v.version, {}, v.who, v.act, v.definition FROM notify_def_version v",
            kind.epoch("v.time")
        );
        let definition = select_definitions(kind);
        Self {
            versions: statement(format!(
                "{read} WHERE v.def_id = $2 AND v.version <= $3 ORDER BY v.version DESC LIMIT $4"
            )),
            // Read only after a row has changed, and then for all definitions, in one round trip.
            last_versions: statement(format!(
                "{read} JOIN (SELECT def_id, max(version) AS version FROM notify_def_version GROUP BY def_id) AS l
                 ON l.def_id = v.def_id AND l.version = v.version"
            )),
            write_version: statement(format!(
                "INSERT INTO notify_def_version (def_id, version, time, who, act, definition)
                 VALUES ($2, $3, {}, $4, $5, {})",
                kind.now(),
                kind.to_json("$6")
            )),
            forget_versions: statement("DELETE FROM notify_def_version WHERE def_id = $2".into()),
            definition_by_id: statement(format!("{definition} WHERE id = $2")),
            // A sweeper does not wait: the session that has locked the row is about to change it.
            lock_definition_if_free: statement(format!("{definition} WHERE id = $2{}", kind.lock_if_free())),
        }
    }
}
