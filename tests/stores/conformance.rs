//! Every store passes the same suite: one visible test per case and store.

macro_rules! suite {
    ($run:ident) => {
        solid_notify_testkit::conformance_suite!($run);
    };
}

solid_notify_tests::on_each_store!(suite);
