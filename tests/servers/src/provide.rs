//! Provides a server and a client program for every chosen database and broker, and for mail. It chooses how to get each, and starts the
//! servers in parallel.

use std::path::PathBuf;
use std::process::Command;
use std::thread;

use crate::clients::Client;
use crate::servers::docker::{self, Container};
use crate::servers::redis::Cluster;
use crate::servers::{Server, exim, mariadb, mysql, nats, pgbouncer, postgres, rabbitmq, redis, unstable};
use crate::{deploy, receivers, services};
use anyhow::{Context, Error, Result, anyhow, bail};

use crate::install;
use crate::reach::reach;
use crate::selection::{Database, Selection};
use crate::unpack;

/// The servers of a run. Dropping them stops those that were started here.
pub struct Provided {
    servers: Vec<(Database, Source)>,
    left_out: Vec<Database>,
}

/// Where a database comes from.
enum Source {
    /// SQLite runs within the tests.
    InProcess,
    /// The program is installed, and the tests start it.
    ByTests,
    /// A server that was running before.
    Given {
        url: String,
        place: String,
    },
    Private(Box<Server>),
    Container(Box<Container>),
    Cluster(Box<Cluster>),
}

/// Starts what is needed, in parallel, and prints a line for every database.
pub fn provide(selection: &Selection) -> Result<Provided> {
    for (database, reason) in &selection.left_out {
        eprintln!("{database:<9} not selected: {reason}");
    }
    let mut plans: Vec<Plan> = selection.chosen.iter().map(|database| Plan::new(*database)).collect();
    install_what_is_missing(&mut plans);
    unpack_what_is_missing(&mut plans);

    let sources: Vec<Result<Source>> = thread::scope(|scope| {
        let threads: Vec<_> =
            plans.iter().map(|plan| scope.spawn(|| plan.client().and_then(|_| plan.start()))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(anyhow!("starting it panicked"))))
            .collect()
    });

    let mut provided =
        Provided { servers: Vec::new(), left_out: selection.left_out.iter().map(|(database, _)| *database).collect() };
    let mut failures = Vec::new();
    for (plan, source) in plans.iter().zip(sources) {
        match source {
            Ok(source) => {
                eprintln!("{:<9} {}", plan.database, source.describe());
                provided.servers.push((plan.database, source));
            }
            Err(error) => {
                eprintln!("{:<9} failed", plan.database);
                failures.push(format!("{}: {error:#}", plan.database));
            }
        }
    }
    if failures.is_empty() { Ok(provided) } else { bail!("{}", failures.join("\n")) }
}

impl Provided {
    /// The variables that describe every server, and their values: most have only a URL.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let of_one = |(database, source): &(Database, Source)| match (database, source) {
            (Database::Mail, Source::Private(server)) => exim::variables(server),
            _ => database.url_variable().zip(source.url().map(str::to_owned)).into_iter().collect(),
        };
        self.servers.iter().flat_map(of_one).collect()
    }

    /// Sets the variables of the selected servers in the environment of the tests, and removes those of the others.
    pub fn describe_to(&self, command: &mut Command) {
        for variable in self.left_out.iter().filter_map(|database| database.url_variable()) {
            command.env_remove(variable);
        }
        command.envs(self.variables());
    }
}

impl Source {
    fn url(&self) -> Option<&str> {
        match self {
            Self::InProcess | Self::ByTests => None,
            Self::Given { url, .. } => Some(url),
            Self::Private(server) => Some(server.url()),
            Self::Container(container) => Some(container.url()),
            Self::Cluster(cluster) => Some(cluster.url()),
        }
    }

    fn describe(&self) -> String {
        match self {
            Self::InProcess => "runs within the tests, no server".to_owned(),
            Self::ByTests => "installed; the tests start their own".to_owned(),
            Self::Given { place, .. } => format!("the given server at {place}"),
            Self::Private(server) => {
                format!("private server on port {} from {}", server.port(), server.programs().display())
            }
            Self::Cluster(cluster) => {
                format!("private cluster at {} from {}", cluster.url(), cluster.programs().display())
            }
            Self::Container(container) => {
                format!("container of {} at {}", container.image(), container.url())
            }
        }
    }
}

/// The facts that decide how to provide a server.
#[derive(Clone, Copy, Debug, Default)]
struct Facts {
    url: bool,
    installed: bool,
    installable: bool,
    unpackable: bool,
    docker: bool,
}

/// A way to provide a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Url,
    Installed,
    Install,
    Unpack,
    Docker,
}

/// Returns the ways to try, in this order; none means that a person must install something. A server from a variable is never
/// replaced by another one, because a run on another server would prove nothing.
fn ways(facts: Facts) -> Vec<Way> {
    if facts.url {
        return vec![Way::Url];
    }
    if facts.installed {
        return vec![Way::Installed];
    }
    let others = [(facts.installable, Way::Install), (facts.unpackable, Way::Unpack), (facts.docker, Way::Docker)];
    others.into_iter().filter_map(|(possible, way)| possible.then_some(way)).collect()
}

/// How to provide one database.
struct Plan {
    database: Database,
    ways: Vec<Way>,
    /// The error that no client program is installed.
    client_is_missing: bool,
    /// Why the programs could not be installed.
    failure: Option<String>,
}

impl Plan {
    fn new(database: Database) -> Self {
        let mut facts = Facts { url: given_url(database).is_some(), ..Facts::default() };
        facts.installed = match database {
            Database::Postgres => postgres::is_installed(),
            Database::Mariadb => mariadb::is_installed(),
            Database::Mysql => mysql::is_installed(),
            Database::Pgbouncer => pgbouncer::is_installed(),
            Database::Mail => exim::is_installed(),
            Database::Redis | Database::RedisCluster => redis::is_installed(),
            Database::Rabbitmq => rabbitmq::is_installed(),
            Database::Nats => nats::is_installed(),
            Database::Receivers | Database::Services | Database::Deploy => database.server_packages().is_empty(),
            Database::Sqlite => false,
        };
        if !facts.url && !facts.installed && database.how_to_install().is_some() {
            let newest = unstable::is_wanted() && unstable_has(database);
            facts.unpackable =
                (newest || matches!(database, Database::Mysql | Database::Pgbouncer)) && unpack::is_possible();
            facts.installable = !newest && !database.server_packages().is_empty() && install::is_possible();
            facts.docker = database.has_image() && docker::is_available();
        }
        let client_is_missing = database.client().is_some_and(|client| client.find().is_err());
        Self { database, ways: ways(facts), client_is_missing, failure: None }
    }

    /// The packages that this database needs.
    fn packages(&self) -> impl Iterator<Item = &'static str> {
        let server = self.ways.first() == Some(&Way::Install);
        let server = if server { self.database.server_packages() } else { Vec::new() };
        let client = self.database.client().filter(|_| self.client_is_missing);
        server.into_iter().chain(client.map(|client| client.package))
    }

    fn start(&self) -> Result<Source> {
        let container = |container| Source::Container(Box::new(container));
        let private = |server| Source::Private(Box::new(server));
        match (self.database, self.ways.first()) {
            (Database::Sqlite, _) => Ok(Source::InProcess),
            (database, Some(Way::Url)) => given(database),
            (Database::Postgres, Some(Way::Installed)) => postgres::start().map(private),
            (Database::Mariadb, Some(Way::Installed)) => mariadb::start().map(private),
            (Database::Mysql, Some(Way::Installed)) => mysql::start().map(private),
            (Database::Pgbouncer, Some(Way::Installed)) => Ok(Source::ByTests),
            (Database::Receivers, Some(Way::Installed)) => {
                receivers::python().and(receivers::node()).map(|_| Source::ByTests)
            }
            (Database::Services, Some(Way::Installed)) => {
                services::python("with_psycopg.py").and(services::node("with_pg.js"))?;
                services::php().and(services::java()).map(|_| Source::ByTests)
            }
            (Database::Deploy, Some(Way::Installed)) => {
                deploy::systemd_analyze().and(deploy::checker("hadolint")).map(|_| Source::ByTests)
            }
            (Database::Mail, Some(Way::Installed)) => exim::start().map(private),
            (Database::Redis, Some(Way::Installed)) => redis::start().map(private),
            (Database::RedisCluster, Some(Way::Installed)) => {
                redis::start_cluster().map(|cluster| Source::Cluster(Box::new(cluster)))
            }
            (Database::Rabbitmq, Some(Way::Installed)) => rabbitmq::start().map(private),
            (Database::Nats, Some(Way::Installed)) => nats::start().map(private),
            (Database::Postgres, Some(Way::Docker)) => docker::postgres().map(container),
            (Database::Mariadb, Some(Way::Docker)) => docker::mariadb().map(container),
            (Database::Mysql, Some(Way::Docker)) => docker::mysql().map(container),
            (Database::Redis, Some(Way::Docker)) => docker::redis().map(container),
            (Database::Rabbitmq, Some(Way::Docker)) => docker::rabbitmq().map(container),
            (Database::Nats, Some(Way::Docker)) => docker::nats().map(container),
            (database, _) => Err(nothing_works(database, self.failure.as_deref())),
        }
    }

    /// Searches the client again after the installation.
    fn client(&self) -> Result<Option<PathBuf>> {
        self.database.client().map(Client::find).transpose().map_err(|error| {
            let failure = self.failure.as_deref().map(tried).unwrap_or_default();
            anyhow!("{error}{failure}; or leave it out with --only")
        })
    }
}

fn install_what_is_missing(plans: &mut [Plan]) {
    let mut plans: Vec<_> = plans
        .iter_mut()
        .map(|plan| (plan.packages().collect::<Vec<_>>(), plan))
        .filter(|(packages, _)| !packages.is_empty())
        .collect();
    if plans.is_empty() || !install::is_possible() {
        return;
    }
    let packages: Vec<&str> = plans.iter().flat_map(|(packages, _)| packages).copied().collect();
    let outcome = install::install(&packages);
    for (_, plan) in &mut plans {
        let server = plan.ways.first() == Some(&Way::Install);
        match &outcome {
            Ok(()) if server => plan.ways = vec![Way::Installed],
            Ok(()) => {}
            Err(error) => {
                if server {
                    plan.ways.remove(0);
                }
                plan.failure = Some(format!("{error:#}"));
            }
        }
    }
}

fn unpack_what_is_missing(plans: &mut [Plan]) {
    let mut waiting: Vec<&mut Plan> = plans.iter_mut().filter(|plan| plan.ways.first() == Some(&Way::Unpack)).collect();
    if waiting.is_empty() {
        return;
    }
    let outcome = unpack::unpack();
    for plan in &mut waiting {
        match &outcome {
            Ok(()) => plan.ways = vec![Way::Installed],
            Err(error) => {
                plan.ways.remove(0);
                plan.failure = Some(format!("{error:#}"));
            }
        }
    }
}

/// Whether the folder with the newest servers has one for this database.
fn unstable_has(database: Database) -> bool {
    matches!(database, Database::Postgres | Database::Mysql | Database::Redis | Database::RedisCluster)
}

fn given_url(database: Database) -> Option<String> {
    std::env::var(database.url_variable()?).ok().filter(|url| !url.is_empty())
}

fn given(database: Database) -> Result<Source> {
    let url = given_url(database).unwrap_or_default();
    let default_port = match database {
        Database::Postgres => 5432,
        Database::Mail => 587,
        Database::Redis | Database::RedisCluster => 6379,
        Database::Rabbitmq => 5672,
        Database::Nats => 4222,
        _ => 3306,
    };
    let variable = database.url_variable().unwrap_or_default();
    // Of a cluster any node will do.
    let first = url.split(',').next().unwrap_or_default();
    let place = reach(first, default_port).with_context(|| format!("the server of {variable} cannot be reached"))?;
    Ok(Source::Given { url, place })
}

fn tried(failure: &str) -> String {
    format!(" (that was tried: {failure})")
}

/// Returns an error that says what a person can do.
fn nothing_works(database: Database, failure: Option<&str>) -> Error {
    let variable = database.url_variable();
    let programs = database.how_to_install().unwrap_or_default();
    let failure = failure.map(tried).unwrap_or_default();
    anyhow!(
        "there is no server. Do one of these: install {programs}{failure}; \
         {}{}or leave it out with --only",
        if database.has_image() { "or start Docker; " } else { "" },
        variable.map(|variable| format!("or set {variable} to the URL of a running server; ")).unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_server_comes_first_then_programs_then_docker() {
        let cases: [([bool; 5], &[Way]); 10] = [
            // url, installed, installable, unpackable, docker
            ([true, true, true, true, true], &[Way::Url]),
            ([true, false, false, false, false], &[Way::Url]),
            ([false, true, true, true, true], &[Way::Installed]),
            ([false, true, false, false, false], &[Way::Installed]),
            ([false, false, true, false, true], &[Way::Install, Way::Docker]),
            ([false, false, true, false, false], &[Way::Install]),
            ([false, false, false, true, true], &[Way::Unpack, Way::Docker]),
            ([false, false, false, false, true], &[Way::Docker]),
            ([true, false, true, false, true], &[Way::Url]),
            ([false, false, false, false, false], &[]),
        ];
        for ([url, installed, installable, unpackable, docker], expected) in cases {
            let facts = Facts { url, installed, installable, unpackable, docker };
            assert_eq!(ways(facts), expected, "{facts:?}");
        }
    }

    #[test]
    fn without_any_way_the_message_says_what_to_install() {
        let plan = |database| Plan { database, ways: Vec::new(), client_is_missing: false, failure: None };
        for (database, words) in [
            (Database::Postgres, ["apt-get install postgresql", "brew install postgresql", "POSTGRES_URL"]),
            (Database::Mariadb, ["apt-get install mariadb-server", "brew install mariadb", "MARIADB_URL"]),
            (Database::Mysql, ["apt-get install mysql-server", "brew install mysql", "MYSQL_URL"]),
        ] {
            let message = plan(database).start().err().map(|error| error.to_string()).unwrap_or_default();
            for word in words.into_iter().chain(["Docker", "--only"]) {
                assert!(message.contains(word), "`{word}` is missing: {message}");
            }
        }
    }

    #[test]
    fn without_a_mail_server_the_message_names_no_docker() {
        let message = nothing_works(Database::Mail, None).to_string();
        let words = ["apt-get install exim4-daemon-light", "SMTP_URL", "--only"];
        assert!(words.iter().all(|word| message.contains(word)) && !message.contains("Docker"), "{message}");
    }

    #[test]
    fn a_missing_client_is_installed_with_the_server_or_alone() {
        let packages = |database, ways, client_is_missing| {
            Plan { database, ways, client_is_missing, failure: None }.packages().collect::<Vec<_>>()
        };
        let server = || vec![Way::Install];
        assert_eq!(packages(Database::Postgres, server(), true), ["postgresql", "postgresql-client"]);
        assert_eq!(packages(Database::Mariadb, server(), false), ["mariadb-server"]);
        assert_eq!(packages(Database::Mysql, vec![Way::Url], true), ["mariadb-client"]);
        assert_eq!(packages(Database::Sqlite, Vec::new(), true), ["sqlite3"]);
        assert!(packages(Database::Sqlite, Vec::new(), false).is_empty());
    }

    #[test]
    fn a_failed_installation_is_reported() {
        let message = nothing_works(Database::Postgres, Some("apt-get update failed")).to_string();
        assert!(message.contains("that was tried: apt-get update failed"), "{message}");
    }
}
