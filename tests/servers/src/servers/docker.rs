//! Servers of databases and brokers from the official container images, for machines without the programs.
//!
//! They cannot restart, because `--rm` and a port chosen by Docker prevent it. A test that restarts its server needs
//! installed programs.

use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::watchdog::Watchdog;
use super::{nats, rabbitmq};

/// A running container. Dropping it stops and removes it.
pub struct Container {
    id: String,
    image: &'static str,
    url: String,
    watchdog: Watchdog,
}

/// True if Docker is installed and its service responds.
#[must_use]
pub fn is_available() -> bool {
    // Without a service, some versions of `docker info` succeed and print an empty version.
    docker(&["info", "--format", "{{.ServerVersion}}"]).is_ok_and(|version| !version.is_empty())
}

/// Starts PostgreSQL: superuser `postgres` without a password, database `notify`.
///
/// # Errors
/// Fails when Docker cannot run the image, or when the server does not answer in time, with the end
/// of its log.
pub fn postgres() -> Result<Container> {
    let environment = ["-e", "POSTGRES_HOST_AUTH_METHOD=trust", "-e", "POSTGRES_DB=notify"];
    let settings = "-c fsync=off -c full_page_writes=off \
        -c max_connections=300 -c max_prepared_transactions=10";
    let mut container = Container::run("postgres:17", 5432, &environment, settings)?;
    container.url = format!("postgres://postgres@127.0.0.1:{}/notify", container.port(5432)?);
    // TCP on purpose: while the image sets itself up, a first server answers on the socket only.
    container.wait_until_it_answers("psql -h 127.0.0.1 -U postgres -d notify -c")?;
    Ok(container)
}

/// Starts MariaDB: `root` without a password over TCP, database `notify`.
///
/// # Errors
/// As in [`postgres`].
pub fn mariadb() -> Result<Container> {
    let environment =
        ["-e", "MARIADB_ALLOW_EMPTY_ROOT_PASSWORD=1", "-e", "MARIADB_ROOT_HOST=%", "-e", "MARIADB_DATABASE=notify"];
    let settings = "--skip-name-resolve --max-connections=300 \
        --innodb-buffer-pool-size=128M --innodb-flush-log-at-trx-commit=2";
    let mut container = Container::run("mariadb:11", 3306, &environment, settings)?;
    container.url = format!("mysql://root@127.0.0.1:{}/notify?ssl-mode=disabled", container.port(3306)?);
    container.wait_until_it_answers("mariadb --protocol=tcp -h 127.0.0.1 -u root -D notify -e")?;
    Ok(container)
}

/// Starts MySQL: `root` without a password over TCP, database `notify`.
///
/// # Errors
/// As in [`postgres`].
pub fn mysql() -> Result<Container> {
    let environment = ["-e", "MYSQL_ALLOW_EMPTY_PASSWORD=1", "-e", "MYSQL_ROOT_HOST=%", "-e", "MYSQL_DATABASE=notify"];
    let settings = "--skip-name-resolve --max-connections=300 \
        --innodb-buffer-pool-size=128M --innodb-flush-log-at-trx-commit=2 --sync-binlog=0";
    let mut container = Container::run("mysql:8.4", 3306, &environment, settings)?;
    container.url = format!("mysql://root@127.0.0.1:{}/notify?ssl-mode=disabled", container.port(3306)?);
    // TCP on purpose, as in [`postgres`].
    container.wait_until_it_answers("mysql --protocol=tcp -h 127.0.0.1 -u root -D notify -e")?;
    Ok(container)
}

/// Starts one Redis server.
///
/// # Errors
/// As in [`postgres`].
pub fn redis() -> Result<Container> {
    let settings = "redis-server --save  --appendonly no";
    let mut container = Container::run("redis:7", 6379, &[], settings)?;
    container.url = format!("redis://127.0.0.1:{}", container.port(6379)?);
    container.wait_until_it_answers("redis-cli EVAL return(1) 0")?;
    Ok(container)
}

/// Starts RabbitMQ: account `notify`, virtual host `/`.
///
/// # Errors
/// As in [`postgres`].
pub fn rabbitmq() -> Result<Container> {
    // The account `guest` may sign in from the container alone.
    let environment = ["-e", "RABBITMQ_DEFAULT_USER=notify", "-e", "RABBITMQ_DEFAULT_PASS=not-a-secret"];
    let mut container = Container::run("rabbitmq:4", 5672, &environment, "")?;
    let port = container.port(5672)?;
    container.url = format!("amqp://notify:not-a-secret@127.0.0.1:{port}/%2f");
    container.wait_until(|| rabbitmq::greeting(port))?;
    Ok(container)
}

/// Starts NATS with JetStream.
///
/// # Errors
/// As in [`postgres`].
pub fn nats() -> Result<Container> {
    let mut container = Container::run("nats:2", 4222, &[], "--jetstream")?;
    let port = container.port(4222)?;
    container.url = format!("nats://127.0.0.1:{port}");
    container.wait_until(|| nats::greeting(port))?;
    Ok(container)
}

impl Container {
    /// The URL of the empty database `notify`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The image's name and version.
    #[must_use]
    pub fn image(&self) -> &'static str {
        self.image
    }

    fn run(image: &'static str, port: u16, environment: &[&str], settings: &str) -> Result<Self> {
        let publish = format!("127.0.0.1::{port}");
        let mut arguments = vec!["run", "--detach", "--rm", "-p", &publish];
        arguments.extend(environment);
        arguments.push(image);
        arguments.extend(settings.split(' ').filter(|setting| !setting.is_empty()));
        let id = docker(&arguments)?;
        let watchdog = Watchdog::over_container(&id)?;
        Ok(Self { id, image, url: String::new(), watchdog })
    }

    /// The port of 127.0.0.1 that Docker chose, from lines such as `127.0.0.1:49153`.
    fn port(&self, inside: u16) -> Result<u16> {
        let lines = docker(&["port", &self.id, &format!("{inside}/tcp")])?;
        let port = lines.lines().next().and_then(|line| line.rsplit(':').next()?.parse().ok());
        port.with_context(|| format!("docker names no port of {}: {lines}", self.image))
    }

    fn wait_until_it_answers(&self, client: &str) -> Result<()> {
        let mut arguments = vec!["exec", self.id.as_str()];
        arguments.extend(client.split(' '));
        arguments.push("SELECT 1");
        self.wait_until(|| docker(&arguments))
    }

    fn wait_until(&self, ask: impl Fn() -> Result<String>) -> Result<()> {
        let begin = Instant::now();
        while let Err(error) = ask() {
            if begin.elapsed() > Duration::from_secs(120) {
                let log = docker(&["logs", "--tail", "25", &self.id]).unwrap_or_default();
                bail!("{} did not answer in time ({error:#}); its log ends with:\n{log}", self.image);
            }
            sleep(Duration::from_millis(200));
        }
        Ok(())
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        if let Err(error) = docker(&["stop", &self.id]).and_then(|_| self.watchdog.dismiss()) {
            eprintln!("stopping the container {} of {} failed: {error:#}", self.id, self.image);
        }
    }
}

/// Runs `docker`, returning what it prints.
fn docker(arguments: &[&str]) -> Result<String> {
    let output = Command::new("docker").args(arguments).stdin(Stdio::null()).output().context("cannot run docker")?;
    ensure!(output.status.success(), "docker {}: {}", arguments[0], String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
