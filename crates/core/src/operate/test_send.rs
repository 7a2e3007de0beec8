//! [`Operator::test_send`]: one marked notice of a definition, for an operator who wants to see a delivery.

use serde::Serialize;

use super::definitions::DefRef;
use super::operator::Operator;
use crate::add::NewNotice;
use crate::built_in::is_built_in;
use crate::error::{Error, Result};

impl Operator {
    /// Adds a notice of a definition that is marked as a test, due at once, and writes an audit entry, in one transaction. Returns its
    /// id. The definition may be a target.
    ///
    /// The notice is sent by the rules of the definition: its handler, retries, limits, windows, acks, alerts, and targets, which get a
    /// test, too. So it waits while the definition or everything is paused. Handlers see the mark
    /// (`Notice::is_test`), and channels show it to the receiver. Its tag is [`TEST_TAG`](crate::test_mark::TEST_TAG).
    ///
    /// ```
    /// # async fn example(outbox: solid_notify_core::AnyOutbox) -> Result<(), Box<dyn std::error::Error>> {
    /// let alice = outbox.operator("alice");
    /// let id = alice.test_send("order_paid", serde_json::json!({ "order": 7, "shop": "north" })).await?;
    /// println!("{}", alice.explain(id).await?); // it was delivered; its tag is "notify:test"
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::UnknownDefinition`]; [`Error::Invalid`] for a definition that is deleted or built in;
    /// [`Error::InvalidNotice`] for a parameter that could not be added; [`Error::Encryption`] without a cipher; those of the store.
    pub async fn test_send(&self, definition: impl Into<DefRef>, param: impl Serialize) -> Result<i64> {
        let row = self.definition(definition).await?;
        let refused = |why: &str| {
            let problem = format!("the definition {:?} {why}", row.name);
            Error::Invalid { what: "a test", problem }
        };
        if row.delete_time.is_some() {
            return Err(refused("is deleted; name one that is not"));
        }
        if is_built_in(&row.name) {
            return Err(refused("is built in, and its notices are work of the library; name one of the application"));
        }
        let notice = NewNotice::new(row.name.as_str(), param)?;
        notice.check()?;
        let notice = match row.encrypt_param {
            true => notice.encrypted(row.id, self.outbox.engine().param_cipher())?,
            false => notice,
        };
        let id = self.stores().operate.add_test(row.id, notice.param_json(), &self.who).await?;
        self.outbox.wake();
        Ok(id)
    }
}
