//! The texts of all statements, for docs/sql and for tests of the query plans: those of the `.sql` files, then those of the topics that still
//! declare them in Rust.

use crate::dialect::kind::Kind;

/// Returns the name and the text of every statement of a dialect.
pub(crate) fn texts(kind: Kind) -> Vec<(&'static str, String)> {
    let of_files = crate::sql::ALL.iter();
    let of_files =
        of_files.filter_map(|(name, texts)| Some((*name, texts[kind as usize].as_ref()?.numbered.to_owned())));
    let of_topics = [
        crate::add::statements::AddStatements::of(kind).texts(),
        crate::add::known_ids::KnownIdStatements::of(kind).texts(),
        crate::limits::LimitStatements::of(kind).texts(),
        crate::settle::statements::SettleStatements::of(kind).texts(),
        crate::settle::pass_on::PassOnStatements::of(kind).texts(),
        crate::shortcuts::insert_bare::BareInsertStatements::of(kind).texts(),
        crate::shortcuts::insert_known::KnownInsertStatements::of(kind).texts(),
        crate::shortcuts::archive_bare::BareArchiveStatements::of(kind).texts(),
        crate::shortcuts::settle_at_once::AtOnceStatements::of(kind).texts(),
        crate::shortcuts::settle_bare::BareSettleStatements::of(kind).texts(),
        crate::inbox::statements::InboxStatements::of(kind).texts(),
        crate::alerts::AlertStatements::of(kind).texts(),
        crate::definitions::DefinitionStatements::of(kind).texts(),
        crate::definitions::tick::TickStatements::of(kind).texts(),
        crate::definitions::versions::VersionStatements::of(kind).texts(),
        crate::nodes::NodeStatements::of(kind).texts(),
        crate::series::statements::SeriesStatements::of(kind).texts(),
        crate::record::RecordStatements::of(kind).texts(),
        crate::repair::RepairStatements::of(kind).texts(),
        crate::operate::list::ListStatements::of(kind).texts(),
        crate::operate::narrow::NarrowStatements::of(kind).texts(),
        crate::operate::groups::GroupStatements::of(kind).texts(),
        crate::operate::counts::CountStatements::of(kind).texts(),
        crate::operate::retries::RetryStatements::of(kind).texts(),
        crate::operate::verbs::VerbStatements::of(kind).texts(),
        crate::own::OwnStatements::of(kind).texts(),
        crate::operate::acts::ActStatements::of(kind).texts(),
        crate::operate::purge::PurgeStatements::of(kind).texts(),
        crate::operate::switch::SwitchStatements::of(kind).texts(),
        crate::audit::AuditStatements::of(kind).texts(),
    ]
    .concat();
    of_files.chain(of_topics).collect()
}

#[cfg(test)]
mod tests {
    use solid_notify_core::notice::NEVER;
    use solid_notify_core::store::{CRASH_LOOP, LARGE_PARAM};

    use super::*;
    use crate::build::{Dialect, parse};

    #[test]
    fn constants_of_the_macros_are_those_of_rust() {
        let file = parse::parse("macros.sql", include_str!("dialect/macros.sql")).unwrap();
        let value = |name: &str, dialect| {
            let of = file.macros.iter().find(|one| one.name == name).unwrap();
            of.sql.of(dialect).unwrap().trim().to_owned()
        };
        for dialect in Dialect::ALL {
            assert_eq!(value("never_ms", dialect), NEVER.to_string());
            assert_eq!(value("crash_loop", dialect), CRASH_LOOP.to_string());
            assert_eq!(value("large_param", dialect), LARGE_PARAM.to_string());
        }
    }

    #[test]
    fn no_statement_of_a_dialect_is_empty() {
        for kind in [Kind::Postgres, Kind::MySql, Kind::Sqlite] {
            let texts = texts(kind);
            assert!(texts.len() > 100, "{}", texts.len());
            assert!(texts.iter().all(|(_, text)| !text.trim().is_empty()), "{texts:?}");
        }
    }
}
