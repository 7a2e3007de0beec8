//! The parameter of each notice: about sixty bytes of JSON, as in the workloads of the bench.

use serde::{Deserialize, Serialize};

/// An order that is booked.
#[derive(Debug, Serialize, Deserialize)]
pub struct Parameter {
    order: i64,
    state: String,
    customer: i64,
    sum: String,
}

impl Parameter {
    /// Returns the parameter of an order.
    pub fn new(order: i64) -> Self {
        Self { order, state: "booked".to_owned(), customer: 4711, sum: "129.90".to_owned() }
    }
}
