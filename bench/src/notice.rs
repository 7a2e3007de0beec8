//! The notice that is sent by both sides: its parameter and its handler, which does nothing.

use anyhow::Result;
use serde::{Deserialize, Serialize};

/// A parameter of about sixty bytes of JSON.
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

/// The raw side's handler: reads the parameter, as the library does before it calls ours.
///
/// # Errors
/// Fails where it is no parameter of the bench.
pub fn handle(parameter: &str) -> Result<()> {
    std::hint::black_box(serde_json::from_str::<Parameter>(parameter)?);
    Ok(())
}
