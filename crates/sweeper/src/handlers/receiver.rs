//! The receiver of a notice, where it is one of many: its circuit is in the memory of this node ([`crate::circuits`]).

use std::time::Duration;

use solid_notify_core::limit::TargetSign;

use super::failure::Failure;
use super::handler::{Facts, Notice};

impl<T> Notice<T> {
    /// Says that the receiver of this notice is one of many, and which one: its circuit breaker then counts for it alone, in the memory of this
    /// node. For channels, before they connect.
    ///
    /// # Errors
    /// The circuit of this receiver is open: the attempt is handed back.
    #[doc(hidden)]
    pub fn is_for_one_of_many(&self, receiver: &str) -> Result<(), Failure> {
        self.facts.circuit.begin(&self.facts.claimed, receiver).map_err(Failure::circuit_open)
    }
}

impl Facts {
    /// Counts the outcome for the receiver, if it is one of many. Returns whether it is.
    pub(crate) fn count_for_receiver(&self, sign: TargetSign, lasted: Duration) -> bool {
        // The name of a receiver is made from the parameter.
        let shows_receiver = !self.encrypted && self.row.mask.is_none();
        self.circuit.end(&self.claimed, &self.row, shows_receiver, sign, lasted)
    }
}
