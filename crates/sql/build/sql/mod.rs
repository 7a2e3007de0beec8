//! The `.sql` files: `parse.rs` reads them, `render.rs` makes the text of a statement for a dialect, `write.rs` makes the Rust.

pub mod parse;
pub mod render;
pub mod write;

/// A database family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    Postgres,
    MySql,
    Sqlite,
}

impl Dialect {
    pub const ALL: [Self; 3] = [Self::Postgres, Self::MySql, Self::Sqlite];

    pub fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::MySql => "mysql",
            Self::Sqlite => "sqlite",
        }
    }

    /// Reads `postgres, sqlite`.
    fn list(names: &str) -> Option<Vec<Self>> {
        let named = |name: &str| Self::ALL.into_iter().find(|dialect| dialect.name() == name.trim());
        names.split(',').map(named).collect()
    }
}
