//! All statements of the store, made once for each dialect: the parts that the topics declare.
//!
//! A statement stands beside the calls that run it. `$1` of every statement is the hand-turned clock (null: the database's clock). A
//! comment over a statement gives the reason for its form. Small differences between the dialects are functions in
//! [`crate::dialect::kind`]. A statement whose whole form differs is written out for each dialect.

use crate::ack::AckStatements;
use crate::add::statements::AddStatements;
use crate::alerts::AlertStatements;
use crate::claim::blocked::BlockedStatements;
use crate::claim::due::DueStatements;
use crate::claim::leases::LeaseStatements;
use crate::claim::limits::LimitStatements;
use crate::claim::statements::ClaimStatements;
use crate::definitions::DefinitionStatements;
use crate::definitions::tick::TickStatements;
use crate::definitions::versions::VersionStatements;
use crate::dialect::kind::Kind;
use crate::nodes::NodeStatements;
use crate::operate::audit::AuditStatements;
use crate::operate::counts::CountStatements;
use crate::operate::list::ListStatements;
use crate::operate::purge::PurgeStatements;
use crate::operate::retries::RetryStatements;
use crate::operate::verbs::VerbStatements;
use crate::record::RecordStatements;
use crate::settle::statements::SettleStatements;
use crate::shortcuts::ShortcutStatements;

/// Declares the statements of a topic: those of every dialect, in brackets those that some dialects lack, then the parts.
macro_rules! statements {
    ($of:ident: $($name:ident,)* $([$($lacking:ident,)+])? $(; $part:ident: $part_of:ty)*) => {
        /// The statements of one topic and one dialect.
        pub struct $of {
            $(pub(crate) $name: crate::dialect::statement::Statement,)*
            $($(pub(crate) $lacking: Option<crate::dialect::statement::Statement>,)+)?
            $(pub(crate) $part: $part_of,)*
        }

        impl $of {
            /// Returns the name and the text of each statement, for tests of the query plans.
            pub(crate) fn texts(&self) -> Vec<(&'static str, String)> {
                let own: Vec<(&'static str, String)> = vec![$((stringify!($name), self.$name.text().to_owned()),)*];
                $($(
                    let lacking = self.$lacking.iter().map(|found| (stringify!($lacking), found.text().to_owned()));
                    let own = own.into_iter().chain(lacking).collect::<Vec<_>>();
                )+)?
                $(let own = [own, self.$part.texts()].concat();)*
                own
            }
        }
    };
}
pub(crate) use statements;

/// Declares the parts of [`Statements`], each with its `new`.
macro_rules! parts {
    ($($part:ident: $of:ident,)+) => {
        statements! { Statements: $(; $part: $of)+ }

        impl Statements {
            pub(crate) fn new(kind: Kind) -> Self {
                Self { $($part: $of::new(kind),)+ }
            }
        }
    };
}

parts! {
    add: AddStatements,
    claim: ClaimStatements,
    due: DueStatements,
    leases: LeaseStatements,
    blocked: BlockedStatements,
    limits: LimitStatements,
    settle: SettleStatements,
    shortcuts: ShortcutStatements,
    ack: AckStatements,
    alerts: AlertStatements,
    definitions: DefinitionStatements,
    tick: TickStatements,
    versions: VersionStatements,
    nodes: NodeStatements,
    record: RecordStatements,
    list: ListStatements,
    counts: CountStatements,
    retries: RetryStatements,
    verbs: VerbStatements,
    purge: PurgeStatements,
    audit: AuditStatements,
}
