//! The stores, call by call: transactions, keys, locks, the schema, damaged tables, query plans,
//! connections.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod authority;
mod blocked;
mod book;
mod by_hand;
mod connect;
mod connections;
mod damage;
mod encryption;
mod error_classes;
mod examine;
mod hanging;
mod inbox;
mod keys;
mod locks;
mod migrations;
mod plain_sql;
mod plans;
mod pooler;
mod restore;
mod roles;
mod transactions;
mod unchecked;
mod versions;
mod views;
