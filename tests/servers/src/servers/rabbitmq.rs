//! A private RabbitMQ from installed programs: account `guest`, virtual host `/`.
//!
//! Only the special parts of RabbitMQ are here; [`Server`] starts it, waits and stops it. Each node has its own name, directory and ports.
//! All nodes of a machine share `epmd`, the name service of Erlang. It stays when the node has ended, because other nodes may use it.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use super::Server;
use super::engine::Engine;
use super::place::{Place, free_port};
use super::programs::{find, versioned_folders};

/// The programs to install so that [`start`] works.
pub const HOW_TO_INSTALL: &str = "RabbitMQ's server, `rabbitmq-server` (Debian and Ubuntu: `apt-get install rabbitmq-server`; \
    Fedora: `dnf install rabbitmq-server`; Homebrew: `brew install rabbitmq`)";

/// The settings file in the server's directory. A test may change it before it restarts the server.
const SETTINGS: &str = "rabbitmq.conf";

/// The limit keeps a full disk of a developer's machine from blocking the tests. The log has no connections, because each check makes one.
const DEFAULT_SETTINGS: &str =
    "disk_free_limit.absolute = 10MB\nlog.console = true\nlog.file = false\nlog.connection.level = error\n";

/// Starts a server.
///
/// # Errors
/// Fails when the program is not installed, naming what to install, and when the server does not answer in time, with the end of
/// its log.
pub fn start() -> Result<Server> {
    let program = program().with_context(|| format!("no RabbitMQ is installed: install {HOW_TO_INSTALL}"))?;
    Server::start(Box::new(RabbitMq { program }), &["rabbitmq", "nobody"])
}

/// Sets how much disk space must be free, such as `10MB`, until the server starts again. With less it takes no messages. RabbitMQ 3.10 knows no
/// unit beyond `GB`.
///
/// # Errors
/// What `rabbitmqctl` prints.
pub fn set_disk_free_limit(server: &Server, limit: &str) -> Result<()> {
    control(server, &["set_disk_free_limit", limit])
}

/// Creates accounts that may do everything, by pairs of name and password.
///
/// # Errors
/// What `rabbitmqctl` prints.
pub fn create_accounts(server: &Server, accounts: &[(String, String)]) -> Result<()> {
    // One call of Erlang for all: each start of `rabbitmqctl` takes a second or more. A list of bytes needs no escapes.
    let bytes = |text: &str| format!("<<{}>>", text.bytes().map(|byte| byte.to_string()).collect::<Vec<_>>().join(","));
    let create = accounts.iter().map(|(name, password)| {
        let name = bytes(name);
        format!(
            "ok = rabbit_auth_backend_internal:add_user({name}, {}, <<\"tests\">>), ok = rabbit_auth_backend_internal:set_permissions(\
             {name}, <<\"/\">>, <<\".*\">>, <<\".*\">>, <<\".*\">>, <<\"tests\">>)",
            bytes(password)
        )
    });
    control(server, &["eval", &format!("{}.", create.collect::<Vec<_>>().join(", "))])
}

fn control(server: &Server, arguments: &[&str]) -> Result<()> {
    let printed = Command::new(server.programs().join("rabbitmqctl"))
        .args(["--node", &format!("{}@localhost", node(server.port()))])
        .args(arguments)
        // The account's file with the secret of Erlang is there.
        .env("HOME", server.directory())
        .env("RABBITMQ_CONF_ENV_FILE", server.directory().join(VARIABLES))
        .output()
        .context("cannot run rabbitmqctl")?;
    let text = format!("{}{}", String::from_utf8_lossy(&printed.stdout), String::from_utf8_lossy(&printed.stderr));
    ensure!(printed.status.success(), "rabbitmqctl {}: {text}", arguments.join(" "));
    Ok(())
}

/// True if [`start`] would find the program.
#[must_use]
pub fn is_installed() -> bool {
    program().is_some()
}

/// Finds the script that becomes the server. Those in `PATH` start another account's shell, which would get our signals.
fn program() -> Option<PathBuf> {
    let mut folders = vec![PathBuf::from("/usr/lib/rabbitmq/bin")];
    for parent in ["/opt/homebrew/opt", "/usr/local/opt"] {
        folders.push(Path::new(parent).join("rabbitmq/sbin"));
    }
    folders.extend(
        versioned_folders("/usr/lib/rabbitmq/lib", "rabbitmq_server")
            .iter()
            .filter_map(|bin| bin.parent().map(|version| version.join("sbin"))),
    );
    find(&folders, &["rabbitmq-server"])
}

struct RabbitMq {
    program: PathBuf,
}

impl Engine for RabbitMq {
    fn name(&self) -> &'static str {
        "RabbitMQ"
    }

    fn programs(&self) -> &Path {
        self.program.parent().unwrap_or(&self.program)
    }

    fn url(&self, port: u16) -> String {
        format!("amqp://guest:guest@127.0.0.1:{port}/%2f")
    }

    fn initialise(&self, place: &Place) -> Result<Command> {
        fs::write(place.directory().join(SETTINGS), DEFAULT_SETTINGS).context("cannot write RabbitMQ's settings")?;
        // The machine's own file of variables would name another node.
        fs::write(place.directory().join(VARIABLES), "").context("cannot write RabbitMQ's variables")?;
        let mut command = place.command(Path::new("mkdir"));
        command.arg(place.data());
        Ok(command)
    }

    fn serve(&self, place: &Place, port: u16) -> Command {
        let home = place.home();
        let mut command = place.command(&self.program);
        let distribution = free_port().unwrap_or_else(|_| port.wrapping_add(1));
        command
            .env("HOME", &home)
            .env("RABBITMQ_CONF_ENV_FILE", home.join(VARIABLES))
            .env("RABBITMQ_CONFIG_FILE", home.join(SETTINGS))
            .env("RABBITMQ_NODENAME", format!("{}@localhost", node(port)))
            .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
            .env("RABBITMQ_NODE_PORT", port.to_string())
            .env("RABBITMQ_DIST_PORT", distribution.to_string())
            .env("RABBITMQ_MNESIA_BASE", place.data())
            .env("RABBITMQ_LOG_BASE", place.data())
            .env("RABBITMQ_LOGS", "-")
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", home.join("plugins"))
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            .env("ERL_FLAGS", "-kernel inet_dist_use_interface {127,0,0,1}");
        command
    }

    fn check_session(&self, _place: &Place, port: u16) -> Result<()> {
        // The greeting contains the name of the node, which no other server has. The host in it may be another name of this machine.
        ensure!(greeting(port)?.contains(&format!("{}@", node(port))), "another program answers");
        Ok(())
    }

    fn graceful(&self) -> Signal {
        Signal::TERM
    }

    fn discard(&self) -> (Signal, &'static str) {
        (Signal::KILL, "KILL")
    }
}

const VARIABLES: &str = "rabbitmq-env.conf";

fn node(port: u16) -> String {
    format!("notify-{port}")
}

/// Returns what the server on this port of 127.0.0.1 says to a client: the frame `connection.start`, as far as it is text.
pub(super) fn greeting(port: u16) -> Result<String> {
    let limit = Duration::from_secs(5);
    let mut stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), limit)?;
    stream.set_read_timeout(Some(limit))?;
    stream.write_all(b"AMQP\x00\x00\x09\x01")?;
    // Type, channel, length of the frame.
    let mut head = [0; 7];
    stream.read_exact(&mut head)?;
    let length = u64::from(u32::from_be_bytes([head[3], head[4], head[5], head[6]]));
    let mut frame = Vec::new();
    stream.take(length.min(100_000)).read_to_end(&mut frame)?;
    ensure!(head[0] == 1 && frame.starts_with(&[0, 10, 0, 10]), "its first bytes are not those of an AMQP server");
    Ok(String::from_utf8_lossy(&frame).into_owned())
}
