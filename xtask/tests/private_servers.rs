//! Tests of private servers: they respond, keep their data over a crash, and leave nothing behind.
//!
//! These tests need the installed programs and fail without them, naming what to install. `cargo
//! xtask test` installs them where it can. Their modules have the names of the servers, because the task filters a deselected server's
//! tests out by them.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use test_servers::servers::{
    Durability, Ending, Server, exim, mariadb, mysql, nats, postgres, rabbitmq, redis, unstable,
};

mod on_postgres {
    use super::*;

    #[test]
    fn private_postgres_answers_keeps_its_data_and_leaves_nothing_behind() -> Result<()> {
        let server = postgres::start()?;
        assert_eq!(server.url(), format!("postgres://postgres@127.0.0.1:{}/notify", server.port()));
        server_answers_keeps_its_data_and_leaves_nothing_behind(server)
    }

    #[test]
    fn private_postgres_has_the_settings_that_its_durability_names() -> Result<()> {
        let fast = postgres::start()?;
        assert_eq!(fast.query("SHOW fsync")?, "off");
        assert_eq!(fast.query("SHOW synchronous_commit")?, "on");
        assert_eq!(fast.query("SHOW max_connections")?, "300");
        assert_eq!(fast.query("SHOW max_prepared_transactions")?, "10");
        let durable = postgres::start_with(Durability::Default)?;
        assert_eq!(durable.query("SHOW fsync")?, "on");
        Ok(())
    }

    #[test]
    fn private_postgres_ends_with_a_process_that_is_killed() -> Result<()> {
        ends_with_a_process_that_is_killed("postgres")
    }
}

mod on_mariadb {
    use super::*;

    #[test]
    fn private_mariadb_answers_keeps_its_data_and_leaves_nothing_behind() -> Result<()> {
        let server = mariadb::start()?;
        assert_eq!(server.url(), format!("mysql://root@127.0.0.1:{}/notify", server.port()));
        server_answers_keeps_its_data_and_leaves_nothing_behind(server)
    }

    #[test]
    fn private_mariadb_has_the_settings_that_its_durability_names() -> Result<()> {
        let fast = mariadb::start()?;
        assert_eq!(fast.query("SELECT @@innodb_flush_log_at_trx_commit")?, "2");
        assert_eq!(fast.query("SELECT @@max_connections")?, "300");
        let durable = mariadb::start_with(Durability::Default)?;
        assert_eq!(durable.query("SELECT @@innodb_flush_log_at_trx_commit")?, "1");
        Ok(())
    }

    #[test]
    fn private_mariadb_ends_with_a_process_that_is_killed() -> Result<()> {
        ends_with_a_process_that_is_killed("mariadb")
    }
}

mod on_mysql {
    use super::*;

    #[test]
    fn private_mysql_answers_keeps_its_data_and_leaves_nothing_behind() -> Result<()> {
        let server = mysql::start()?;
        assert_eq!(server.url(), format!("mysql://root@127.0.0.1:{}/notify?ssl-mode=disabled", server.port()));
        server_answers_keeps_its_data_and_leaves_nothing_behind(server)
    }

    #[test]
    fn private_mysql_has_the_settings_that_its_durability_names() -> Result<()> {
        let fast = mysql::start()?;
        let settings = "SELECT concat_ws(',', @@innodb_flush_log_at_trx_commit, @@sync_binlog, @@log_bin)";
        assert_eq!(fast.query(settings)?, "2,0,1");
        assert_eq!(fast.query("SELECT @@max_connections")?, "300");
        let durable = mysql::start_with(Durability::Default)?;
        assert_eq!(durable.query(settings)?, "1,1,1");
        Ok(())
    }

    #[test]
    fn private_mysql_ends_with_a_process_that_is_killed() -> Result<()> {
        ends_with_a_process_that_is_killed("mysql")
    }
}

mod on_mail {
    use super::*;

    #[test]
    fn private_mail_ends_with_a_process_that_is_killed() -> Result<()> {
        ends_with_a_process_that_is_killed("mail")
    }

    #[test]
    fn private_mail_listens_in_three_ways_restarts_and_cleans_up() -> Result<()> {
        let mut server = exim::start()?;
        let (directory, port) = (server.directory().to_owned(), server.port());
        assert!(server.query("SELECT 1").is_err(), "it is no database");
        let variables = exim::variables(&server);
        for (name, address) in variables.iter().filter(|(name, _)| name.ends_with("URL")) {
            let place = address.rsplit('@').next().and_then(|rest| rest.split('?').next()).context("no address")?;
            TcpStream::connect(place).with_context(|| format!("{name} at {place}"))?;
        }
        let certificate = variables.iter().find(|(name, _)| *name == "SMTP_CERTIFICATE").context("no certificate")?;
        assert!(std::fs::read_to_string(&certificate.1)?.starts_with("-----BEGIN CERTIFICATE-----"));
        server.restart(Ending::Graceful)?;
        server.restart(Ending::Kill)?;
        server.stop()?;
        nothing_is_left(&directory, port)
    }
}

mod on_redis {
    use super::*;

    #[test]
    fn private_redis_ends_with_a_process_that_is_killed() -> Result<()> {
        ends_with_a_process_that_is_killed("redis")
    }

    #[test]
    fn private_redis_comes_back_and_leaves_nothing_behind() -> Result<()> {
        let mut server = redis::start()?;
        let (directory, port) = (server.directory().to_owned(), server.port());
        assert!(server.query("SELECT 1").is_err(), "it knows no SQL");
        server.restart(Ending::Graceful)?;
        server.restart(Ending::Kill)?;
        TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        server.stop()?;
        nothing_is_left(&directory, port)
    }
}

mod on_redis_cluster {
    use super::*;

    #[test]
    fn private_redis_cluster_is_complete_and_a_node_of_it_comes_back() -> Result<()> {
        let mut cluster = redis::start_cluster()?;
        assert_eq!(cluster.url().split(',').count(), 3);
        let places: Vec<(PathBuf, u16)> =
            cluster.nodes().iter().map(|node| (node.directory().to_owned(), node.port())).collect();
        cluster.nodes()[1].restart(Ending::Kill)?;
        drop(cluster);
        places.iter().try_for_each(|(directory, port)| nothing_is_left(directory, *port))
    }
}

mod on_rabbitmq {
    use super::*;

    #[test]
    fn private_rabbitmq_comes_back_and_leaves_nothing_behind() -> Result<()> {
        broker_comes_back_and_leaves_nothing_behind(rabbitmq::start()?)
    }

    #[test]
    fn private_rabbitmq_ends_with_a_process_that_is_killed() -> Result<()> {
        ends_with_a_process_that_is_killed("rabbitmq")
    }
}

mod on_nats {
    use super::*;

    #[test]
    fn private_nats_comes_back_and_leaves_nothing_behind() -> Result<()> {
        broker_comes_back_and_leaves_nothing_behind(nats::start()?)
    }

    #[test]
    fn private_nats_ends_with_a_process_that_is_killed() -> Result<()> {
        ends_with_a_process_that_is_killed("nats")
    }
}

fn broker_comes_back_and_leaves_nothing_behind(mut server: Server) -> Result<()> {
    let (directory, port) = (server.directory().to_owned(), server.port());
    server.restart(Ending::Graceful)?;
    server.restart(Ending::Kill)?;
    TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    server.stop()?;
    nothing_is_left(&directory, port)
}

fn server_answers_keeps_its_data_and_leaves_nothing_behind(mut server: Server) -> Result<()> {
    let (url, directory) = (server.url().to_owned(), server.directory().to_owned());
    server.query("CREATE TABLE kept (number INT PRIMARY KEY)")?;
    server.query("INSERT INTO kept VALUES (1)")?;

    server.restart(Ending::Graceful)?;
    assert_eq!(server.query("SELECT number FROM kept")?, "1");

    // At once after the commit, so that a log kept in the server's memory would be lost.
    server.query("INSERT INTO kept VALUES (2)")?;
    server.restart(Ending::Kill)?;
    assert_eq!(server.query("SELECT number FROM kept ORDER BY number")?, "1\n2");
    assert_eq!(server.url(), url);

    server.shut_down(Ending::Kill)?;
    assert!(server.process().is_none());
    assert!(server.query("SELECT 1").is_err());
    let stranger = TcpListener::bind((Ipv4Addr::LOCALHOST, server.port()))?;
    let refusal = server.start_again().err().context("the port was taken, yet the server started")?;
    assert!(refusal.to_string().starts_with("another program took port"), "{refusal:#}");
    drop(stranger);
    server.start_again()?;
    assert_eq!(server.query("SELECT count(*) FROM kept")?, "2");

    let port = server.port();
    server.stop()?;
    nothing_is_left(&directory, port)
}

/// Starts the `servers` task, kills it by SIGKILL, and expects that its server ends, too.
fn ends_with_a_process_that_is_killed(database: &str) -> Result<()> {
    let temporary = tempfile::tempdir()?;
    // Servers that run as another account must be able to enter it.
    std::fs::set_permissions(temporary.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let mut task = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["servers", "--only", database])
        .env_remove("POSTGRES_URL")
        .env_remove("MARIADB_URL")
        .env_remove("MYSQL_URL")
        .env_remove("SMTP_URL")
        .env_remove("REDIS_URL")
        .env_remove("AMQP_URL")
        .env_remove("NATS_URL")
        .env("TMPDIR", temporary.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut output = std::io::BufReader::new(task.stdout.take().context("no pipe")?);
    let mut line = String::new();
    std::io::BufRead::read_line(&mut output, &mut line)?;
    let port = line.rsplit(':').next().and_then(|rest| rest.split(['/', '?', '\'']).next()?.parse().ok());
    let port: u16 = port.with_context(|| format!("no URL in «{line}»"))?;
    // A server with a root of its own has its directory there.
    let within = unstable::folder().map(|root| root.join("tmp"));
    let of_this_server = |directory: &PathBuf| {
        directory.starts_with(temporary.path())
            || processes_naming(directory).iter().any(|line| line.contains(&port.to_string()))
    };
    let directories: Vec<PathBuf> = [Some(temporary.path().to_owned()), within]
        .iter()
        .flatten()
        .flat_map(std::fs::read_dir)
        .flat_map(|entries| entries.flatten().map(|entry| entry.path()))
        .filter(of_this_server)
        .collect();
    let [directory] = directories.as_slice() else { anyhow::bail!("one directory expected: {directories:?}") };
    TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;

    task.kill()?;
    task.wait()?;
    nothing_is_left(directory, port)
}

/// No directory, no listener, and on Linux no process that still names the directory. The watchdog works on its own, so this waits for
/// it; the deadline only ends a test that hangs.
fn nothing_is_left(directory: &Path, port: u16) -> Result<()> {
    let begin = Instant::now();
    loop {
        let listening = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok();
        let processes = processes_naming(directory);
        if !directory.exists() && !listening && processes.is_empty() {
            return Ok(());
        }
        let state = format!("directory: {}, listening: {listening}, processes: {processes:?}", directory.exists());
        ensure!(begin.elapsed() < Duration::from_secs(60), "something is left: {state}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// By its last name, which is unique: a server with a root of its own sees another path.
fn processes_naming(directory: &Path) -> Vec<String> {
    let directory = directory.file_name().unwrap_or_default().to_string_lossy();
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(&*directory))
        .collect()
}
