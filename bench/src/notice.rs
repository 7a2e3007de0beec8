//! The notice that is sent by both sides: its parameter and its handler, which does nothing.

use anyhow::Result;

pub use bench_subject::Parameter;

/// The raw side's handler: reads the parameter, as the library does before it calls ours.
///
/// # Errors
/// Fails where it is no parameter of the bench.
pub fn handle(parameter: &str) -> Result<()> {
    std::hint::black_box(serde_json::from_str::<Parameter>(parameter)?);
    Ok(())
}
