//! Which databases and brokers a run is about, and whether mail is. Where their servers come from is left to `provide`.

use std::fmt;

use crate::clients::{self, Client};
use crate::servers::{exim, mariadb, mysql, nats, pgbouncer, postgres, rabbitmq, redis};
use crate::{deploy, receivers, services};
use clap::ValueEnum;
use clap::builder::PossibleValue;

/// A database that the workspace's tests know; or a broker or mail, whose servers are provided in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Database {
    /// SQLite, within the tests.
    Sqlite,
    /// PostgreSQL.
    Postgres,
    /// MariaDB.
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
    /// A broker: for the channel `amqp`.
    Rabbitmq,
    /// A broker: for the channel `nats`.
    Nats,
    /// The example receivers in Python and Node.js. The tests start them.
    Receivers,
    /// The example services in Python, Node.js, PHP and Java. The tests start them.
    Services,
    /// What checks the files for systemd, Docker and Kubernetes. The tests start it.
    Deploy,
}

impl Database {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Sqlite,
        Self::Postgres,
        Self::Mariadb,
        Self::Mysql,
        Self::Pgbouncer,
        Self::Mail,
        Self::Redis,
        Self::RedisCluster,
        Self::Rabbitmq,
        Self::Nats,
        Self::Receivers,
        Self::Services,
        Self::Deploy,
    ];

    /// The name, as `--only` has it. A component of the path of each test that needs the server is this name, or ends with `_` and it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::Mariadb => "mariadb",
            Self::Mysql => "mysql",
            Self::Pgbouncer => "pgbouncer",
            Self::Mail => "mail",
            Self::Redis => "redis",
            Self::RedisCluster => "redis_cluster",
            Self::Rabbitmq => "rabbitmq",
            Self::Nats => "nats",
            Self::Receivers => "receivers",
            Self::Services => "services",
            Self::Deploy => "deploy",
        }
    }

    /// The variable with the server's URL. SQLite has no server; PgBouncer, the receivers, the services and the checkers are started by
    /// tests.
    pub fn url_variable(self) -> Option<&'static str> {
        match self {
            Self::Sqlite | Self::Pgbouncer | Self::Receivers | Self::Services | Self::Deploy => None,
            Self::Postgres => Some("POSTGRES_URL"),
            Self::Mariadb => Some("MARIADB_URL"),
            Self::Mysql => Some("MYSQL_URL"),
            Self::Mail => Some(exim::URL),
            Self::Redis => Some("REDIS_URL"),
            Self::RedisCluster => Some("REDIS_CLUSTER_URL"),
            Self::Rabbitmq => Some("AMQP_URL"),
            Self::Nats => Some("NATS_URL"),
        }
    }

    /// What to install so that a private server can be started.
    pub fn how_to_install(self) -> Option<&'static str> {
        match self {
            Self::Postgres => Some(postgres::HOW_TO_INSTALL),
            Self::Mariadb => Some(mariadb::HOW_TO_INSTALL),
            Self::Mail => Some(exim::HOW_TO_INSTALL),
            Self::Mysql => Some(mysql::HOW_TO_INSTALL),
            Self::Pgbouncer => Some(pgbouncer::HOW_TO_INSTALL),
            Self::Redis | Self::RedisCluster => Some(redis::HOW_TO_INSTALL),
            Self::Rabbitmq => Some(rabbitmq::HOW_TO_INSTALL),
            Self::Nats => Some(nats::HOW_TO_INSTALL),
            Self::Receivers => Some(receivers::HOW_TO_INSTALL),
            Self::Services => Some(services::HOW_TO_INSTALL),
            Self::Deploy => Some(deploy::HOW_TO_INSTALL),
            Self::Sqlite => None,
        }
    }

    /// The packages of Debian and Ubuntu to install where these programs are missing. MySQL's cannot be installed beside MariaDB's, and
    /// PgBouncer is too old in some releases.
    pub fn server_packages(self) -> Vec<&'static str> {
        match self {
            Self::Postgres => vec!["postgresql"],
            Self::Mariadb => vec!["mariadb-server"],
            Self::Mail => vec!["exim4-daemon-light", "openssl"],
            Self::Redis | Self::RedisCluster => vec!["redis-server"],
            Self::Rabbitmq => vec!["rabbitmq-server"],
            Self::Nats => vec!["nats-server"],
            Self::Receivers => receivers::missing_packages(),
            Self::Services => services::missing_packages(),
            Self::Deploy => deploy::missing_packages(),
            Self::Sqlite | Self::Mysql | Self::Pgbouncer => Vec::new(),
        }
    }

    /// Whether there is an image to make a container of.
    pub fn has_image(self) -> bool {
        matches!(self, Self::Postgres | Self::Mariadb | Self::Mysql | Self::Redis | Self::Rabbitmq | Self::Nats)
    }

    /// The program that people type SQL into.
    pub fn client(self) -> Option<&'static Client> {
        match self {
            Self::Sqlite => Some(&clients::SQLITE3),
            Self::Postgres => Some(&clients::PSQL),
            Self::Mariadb => Some(&clients::MARIADB),
            Self::Mysql => Some(&clients::MYSQL),
            Self::Pgbouncer
            | Self::Mail
            | Self::Redis
            | Self::RedisCluster
            | Self::Rabbitmq
            | Self::Nats
            | Self::Receivers
            | Self::Services
            | Self::Deploy => None,
        }
    }
}

impl ValueEnum for Database {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()))
    }
}

impl fmt::Display for Database {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// Every database, either chosen or left out for a reason that the run prints.
#[derive(Debug, PartialEq, Eq)]
pub struct Selection {
    /// What the run tests.
    pub chosen: Vec<Database>,
    /// What the run leaves out, with the reason.
    pub left_out: Vec<(Database, &'static str)>,
}

impl Selection {
    /// Chooses the databases named by `--only`. When none are named, all are chosen.
    pub fn new(only: &[Database]) -> Self {
        let is_chosen = |database: &Database| only.is_empty() || only.contains(database);
        let (chosen, left_out): (Vec<_>, Vec<_>) = Database::ALL.into_iter().partition(is_chosen);
        Self { chosen, left_out: left_out.into_iter().map(|database| (database, "not named by --only")).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_databases_are_chosen_without_names() {
        let selection = Selection::new(&[]);
        assert_eq!((selection.chosen.len(), selection.left_out.len()), (13, 0));
    }

    #[test]
    fn databases_that_are_not_named_are_left_out_with_a_reason() {
        let selection = Selection::new(&[Database::Postgres, Database::Sqlite]);
        assert_eq!(selection.chosen, [Database::Sqlite, Database::Postgres]);
        assert_eq!(selection.left_out.first(), Some(&(Database::Mariadb, "not named by --only")));
        assert_eq!(selection.left_out.len(), 11);
    }
}
