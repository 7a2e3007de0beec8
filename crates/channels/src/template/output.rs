//! [`Bounded`]: the output of a rendering, with its limit.

use std::io;

use minijinja::value::Value;
use minijinja::{Environment, Error};

/// Takes what a rendering writes, up to a limit, so that a loop fills no memory before its steps run out.
pub(super) struct Bounded {
    bytes: Vec<u8>,
    limit: usize,
    is_full: bool,
}

impl Bounded {
    /// Takes at most this many bytes.
    pub(super) fn to(limit: usize) -> Self {
        Self { bytes: Vec::new(), limit, is_full: false }
    }

    /// Writes what a template makes of these values. Returns how many steps that took.
    pub(super) fn fill(
        &mut self,
        engine: &Environment<'_>,
        name: &str,
        source: &str,
        values: impl Into<Value>,
    ) -> Result<u64, Error> {
        let captured = engine.template_from_named_str(name, source)?.render_captured_to(values, self)?;
        Ok(captured.state().fuel_levels().map_or(0, |(used, _)| used))
    }

    /// Returns whether more was written than it takes.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Returns what was written.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.is_full |= bytes.len() > self.limit - self.bytes.len();
        if self.is_full {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
