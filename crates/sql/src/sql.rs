//! The statements of the `.sql` files: the build script has rendered them, and made a struct for each.

include!(concat!(env!("OUT_DIR"), "/statements.rs"));
