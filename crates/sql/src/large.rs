//! Large parameters, which claims and looks leave in the store.

use solid_notify_core::notice::ClaimedNotice;

use crate::connections::Share;
use crate::dialect::Dialect;
use crate::dialect::row::{one_number, one_text};
use crate::sql::claim::{ParamBytes, ParamText};

pub(crate) async fn bytes<DB: Dialect>(on: &Share<DB>, claimed: &ClaimedNotice) -> sqlx::Result<Option<usize>> {
    let bytes = one_number::<DB>(&on.read(&ParamBytes { id: claimed.id, fence: claimed.fence }).await?)?;
    Ok(bytes.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)))
}

pub(crate) async fn text<DB: Dialect>(on: &Share<DB>, claimed: &ClaimedNotice) -> sqlx::Result<Option<String>> {
    one_text::<DB>(&on.read(&ParamText { id: claimed.id, fence: claimed.fence }).await?)
}
