//! The texts of all statements, topic by topic, for docs/sql and for tests of the query plans. The statements themselves stand with
//! their topics.

use crate::dialect::kind::Kind;

/// Returns the name and the text of every statement of a dialect.
pub(crate) fn texts(kind: Kind) -> Vec<(&'static str, String)> {
    [
        crate::add::statements::AddStatements::of(kind).texts(),
        crate::add::known_ids::KnownIdStatements::of(kind).texts(),
        crate::claim::statements::ClaimStatements::of(kind).texts(),
        crate::claim::due::DueStatements::of(kind).texts(),
        crate::claim::leases::LeaseStatements::of(kind).texts(),
        crate::large::LargeStatements::of(kind).texts(),
        crate::claim::quota::QuotaStatements::of(kind).texts(),
        crate::ordering::OrderingStatements::of(kind).texts(),
        crate::limits::LimitStatements::of(kind).texts(),
        crate::settle::statements::SettleStatements::of(kind).texts(),
        crate::settle::pass_on::PassOnStatements::of(kind).texts(),
        crate::shortcuts::insert_bare::BareInsertStatements::of(kind).texts(),
        crate::shortcuts::insert_known::KnownInsertStatements::of(kind).texts(),
        crate::shortcuts::fresh::FreshStatements::of(kind).texts(),
        crate::shortcuts::archive_bare::BareArchiveStatements::of(kind).texts(),
        crate::shortcuts::settle_at_once::AtOnceStatements::of(kind).texts(),
        crate::shortcuts::settle_bare::BareSettleStatements::of(kind).texts(),
        crate::ack::AckStatements::of(kind).texts(),
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
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_statement_of_a_dialect_is_empty() {
        for kind in [Kind::Postgres, Kind::MySql, Kind::Sqlite] {
            let texts = texts(kind);
            assert!(texts.len() > 100, "{}", texts.len());
            assert!(texts.iter().all(|(_, text)| !text.trim().is_empty()), "{texts:?}");
        }
    }
}
