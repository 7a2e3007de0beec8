//! Which databases a run is about, and whether mail is. Where their servers come from is left to `provide`.

use std::fmt;

use anyhow::{Result, bail};
use xtask::clients::{self, Client};
use xtask::servers::{exim, mariadb, mysql, pgbouncer, postgres, redis};

/// A database that the workspace's tests know; or mail, whose server is provided in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Database {
    Sqlite,
    Postgres,
    Mariadb,
    /// MySQL. Its packages and MariaDB's exclude each other, so on Debian it is unpacked into a folder of its own.
    Mysql,
    /// A pooler of connections to PostgreSQL. The tests that need one start it.
    Pgbouncer,
    /// A mail server: for the tests of the channels.
    Mail,
    /// One Redis server.
    Redis,
    /// A Redis cluster of three masters.
    RedisCluster,
}

impl Database {
    pub(crate) const ALL: [Self; 8] = [
        Self::Sqlite,
        Self::Postgres,
        Self::Mariadb,
        Self::Mysql,
        Self::Pgbouncer,
        Self::Mail,
        Self::Redis,
        Self::RedisCluster,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::Mariadb => "mariadb",
            Self::Mysql => "mysql",
            Self::Pgbouncer => "pgbouncer",
            Self::Mail => "mail",
            Self::Redis => "redis",
            Self::RedisCluster => "redis_cluster",
        }
    }

    /// The variable with the server's URL. SQLite has no server, and PgBouncer is started by tests.
    pub(crate) fn url_variable(self) -> Option<&'static str> {
        match self {
            Self::Sqlite | Self::Pgbouncer => None,
            Self::Postgres => Some("POSTGRES_URL"),
            Self::Mariadb => Some("MARIADB_URL"),
            Self::Mysql => Some("MYSQL_URL"),
            Self::Mail => Some(exim::URL),
            Self::Redis => Some("REDIS_URL"),
            Self::RedisCluster => Some("REDIS_CLUSTER_URL"),
        }
    }

    /// What to install so that a private server can be started.
    pub(crate) fn how_to_install(self) -> Option<&'static str> {
        match self {
            Self::Postgres => Some(postgres::HOW_TO_INSTALL),
            Self::Mariadb => Some(mariadb::HOW_TO_INSTALL),
            Self::Mail => Some(exim::HOW_TO_INSTALL),
            Self::Mysql => Some(mysql::HOW_TO_INSTALL),
            Self::Pgbouncer => Some(pgbouncer::HOW_TO_INSTALL),
            Self::Redis | Self::RedisCluster => Some(redis::HOW_TO_INSTALL),
            Self::Sqlite => None,
        }
    }

    /// The packages of Debian and Ubuntu that have these programs. MySQL's cannot be installed beside MariaDB's, and
    /// PgBouncer is too old in some releases.
    pub(crate) fn server_packages(self) -> &'static [&'static str] {
        match self {
            Self::Postgres => &["postgresql"],
            Self::Mariadb => &["mariadb-server"],
            Self::Mail => &["exim4-daemon-light", "openssl"],
            Self::Redis | Self::RedisCluster => &["redis-server"],
            Self::Sqlite | Self::Mysql | Self::Pgbouncer => &[],
        }
    }

    /// Whether there is an image to make a container of.
    pub(crate) fn has_image(self) -> bool {
        matches!(self, Self::Postgres | Self::Mariadb | Self::Mysql | Self::Redis)
    }

    /// The program that people type SQL into.
    pub(crate) fn client(self) -> Option<&'static Client> {
        match self {
            Self::Sqlite => Some(&clients::SQLITE3),
            Self::Postgres => Some(&clients::PSQL),
            Self::Mariadb => Some(&clients::MARIADB),
            Self::Mysql => Some(&clients::MYSQL),
            Self::Pgbouncer | Self::Mail | Self::Redis | Self::RedisCluster => None,
        }
    }
}

impl fmt::Display for Database {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// Every database, either chosen or left out for a reason that the run prints.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Selection {
    pub(crate) chosen: Vec<Database>,
    pub(crate) left_out: Vec<(Database, &'static str)>,
}

impl Selection {
    /// Reads the list behind `--only`. Without it, all databases are chosen.
    pub(crate) fn new(only: Option<&str>) -> Result<Self> {
        let mut wanted = Vec::new();
        for name in only.unwrap_or_default().split(',').map(str::trim).filter(|name| !name.is_empty()) {
            match Database::ALL.into_iter().find(|database| database.name() == name) {
                Some(database) => wanted.push(database),
                None => {
                    bail!("`{name}` is none of sqlite, postgres, mariadb, mysql, pgbouncer, mail, redis, redis_cluster")
                }
            }
        }
        if only.is_some() && wanted.is_empty() {
            bail!("--only names no database");
        }
        let mut selection = Self { chosen: Vec::new(), left_out: Vec::new() };
        for database in Database::ALL {
            if only.is_some() && !wanted.contains(&database) {
                selection.left_out.push((database, "not named by --only"));
            } else {
                selection.chosen.push(database);
            }
        }
        Ok(selection)
    }

    /// The chosen names as the tests read them: `sqlite,postgres`.
    pub(crate) fn names(&self) -> String {
        self.chosen.iter().map(|database| database.name()).collect::<Vec<_>>().join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(only: Option<&str>) -> Result<String> {
        Selection::new(only).map(|selection| selection.names())
    }

    #[test]
    fn without_a_list_all_are_chosen() -> Result<()> {
        assert_eq!(names(None)?, "sqlite,postgres,mariadb,mysql,pgbouncer,mail,redis,redis_cluster");
        Ok(())
    }

    #[test]
    fn only_leaves_out_the_rest_and_says_so() -> Result<()> {
        let selection = Selection::new(Some("postgres, sqlite"))?;
        assert_eq!(selection.names(), "sqlite,postgres");
        let reason = "not named by --only";
        assert_eq!(
            selection.left_out,
            [
                Database::Mariadb,
                Database::Mysql,
                Database::Pgbouncer,
                Database::Mail,
                Database::Redis,
                Database::RedisCluster
            ]
            .map(|left| (left, reason))
        );
        Ok(())
    }

    #[test]
    fn a_list_that_cannot_be_meant_is_refused() {
        for only in ["", ",", "postgresql", "sqlite,oracle"] {
            assert!(names(Some(only)).is_err(), "{only}");
        }
    }
}
