//! `schema`: the tables and roles of each database, as scripts.

use clap::ValueEnum;
use solid_notify::Outbox;
use solid_notify::sql::Dialect;

use crate::contexts::chosen;
use crate::exit::{Exit, Failure, Outcome};
use crate::global::Global;
use crate::output::line;

/// The databases that have a schema.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Database {
    #[value(alias = "postgresql")]
    Postgres,
    /// MariaDB, too: `mariadb` is the same
    #[value(alias = "mariadb")]
    Mysql,
    Sqlite,
}

/// Prints the schema, for tools that migrate by themselves, or the roles of its tables. It connects to nothing.
pub(crate) fn schema(global: &Global, database: Option<Database>, roles: bool) -> Outcome {
    let database = match database {
        Some(database) => database,
        None => {
            let url = chosen(global)?.url;
            match url.split_once(':').map_or("", |(scheme, _)| scheme) {
                "postgres" | "postgresql" => Database::Postgres,
                "mysql" | "mariadb" => Database::Mysql,
                "sqlite" => Database::Sqlite,
                _ => {
                    return Err(Failure::usage("a store of this URL has no schema")
                        .next("name a database: `solid-notify schema postgres`"));
                }
            }
        }
    };
    line(&match database {
        Database::Postgres => script::<sqlx::Postgres>(roles)?,
        Database::Mysql => script::<sqlx::MySql>(roles)?,
        Database::Sqlite => script::<sqlx::Sqlite>(roles)?,
    })?;
    Ok(Exit::Done)
}

fn script<DB: Dialect>(roles: bool) -> Result<String, Failure> {
    let no_accounts = || Failure::usage("SQLite has no accounts").next("limit who may open its file");
    match roles {
        true => Outbox::<DB>::roles().map(str::to_owned).ok_or_else(no_accounts),
        false => Ok(Outbox::<DB>::schema()),
    }
}
