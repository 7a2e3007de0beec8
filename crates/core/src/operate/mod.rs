//! [`Operator`], the handle for people: reading notices, verbs, bulk changes, previews of edits, and definitions as a whole.
//!
//! [`crate::store::BrowseStore`] and [`crate::store::OperateStore`] are what it needs of a store.

mod act;
mod act_handle;
mod act_verb;
mod alerts;
mod apply;
mod audit;
mod bulk;
mod circuits;
mod decided;
mod definitions;
mod edit_preview;
mod examine;
mod explain;
mod explain_context;
mod explanation;
mod filter;
mod filter_json;
mod groups;
mod listing;
mod operator;
mod part;
mod plan;
mod retime;
mod retry;
mod series;
mod test_send;

pub use crate::limit::Rate;
pub use act::{ActClaim, ActRun, AfterStep, BulkAct, BulkDone, BulkOrder, Cursor};
pub use act_handle::{BulkHandle, BulkProgress};
pub use act_verb::ActVerb;
pub use alerts::OpenAlert;
pub use audit::{AuditFilter, AuditPage};
pub use bulk::{Bulk, Preview};
pub use circuits::Circuit;
pub use definitions::DefRef;
pub use edit_preview::{EditPreview, HandlerChange, InFlight, IntervalChange, NextStep, preview};
pub use explain::Why;
pub use explain_context::{ExplainContext, Explained};
pub use explanation::Explanation;
pub use filter::{Filter, MOST_IDS, NO_CLASS};
pub use groups::ErrorGroup;
pub use listing::{ClassCount, Counted, Page};
pub use operator::Operator;
pub use plan::{Applied, DefinitionsPlan, PlannedChange};
pub use series::SeriesPoint;
