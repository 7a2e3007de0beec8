//! Another session holds locks: the statements of the store do not wait for them, and sweepers go on with all other work.

mod statements;
mod sweepers;
