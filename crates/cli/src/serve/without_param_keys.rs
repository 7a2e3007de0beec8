//! A program without the feature `full` refuses keys of encrypted parameters. `param_keys.rs` has the same items with a cipher.

use solid_notify::AnyOutbox;

/// There is none.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ParamKeyRef {}

impl ParamKeyRef {
    pub(super) fn read(_: &str) -> Result<Self, String> {
        Err("this program was built without a cipher: build it with the cargo feature `full`".to_owned())
    }
}

pub(super) fn use_keys(_: &AnyOutbox, _: &[ParamKeyRef]) -> Result<(), String> {
    Ok(())
}
