//! Every store passes the same suite: one visible test per case and store.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

macro_rules! suite {
    ($run:ident) => {
        solid_notify_conformance::suite!($run);
    };
}

test_support::on_each_store!(suite);
