//! The schema: the tables that migrations make, and migrating an existing schema.

mod again;
mod tables;
