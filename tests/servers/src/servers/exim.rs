//! A private mail server, Exim from installed programs: it takes mail from the account `notify`, and from those that a test adds, and delivers
//! each into a file.
//!
//! It listens on three ports: at the first one it begins in plain text and encrypts on demand (STARTTLS), at the next one it
//! encrypts from the first byte on, at the third one it never does. Its certificate is its own. Only what is special to Exim is
//! here; [`Server`] starts it, waits and stops it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::process::Signal;

use super::Server;
use super::engine::Engine;
use super::place::Place;
use super::programs::{find, usual_folders};

/// The programs to install so that [`start`] works.
pub const HOW_TO_INSTALL: &str = "the mail server `exim4` or `exim`, and `openssl` \
    (Debian and Ubuntu: `apt-get install exim4-daemon-light openssl`; Fedora: `dnf install exim openssl`; \
    Homebrew: `brew install exim`)";

/// The URL of the port with STARTTLS.
pub const URL: &str = "SMTP_URL";

/// Starts a server.
///
/// # Errors
/// Fails when the programs are not installed, naming what to install, and when the server does not answer in time, with the end
/// of its log.
pub fn start() -> Result<Server> {
    let programs =
        Programs::find().with_context(|| format!("no mail server is installed: install {HOW_TO_INSTALL}"))?;
    Server::start(Box::new(Exim { programs }), &["Debian-exim", "exim", "mail", "nobody"])
}

/// True if [`start`] would find the programs.
#[must_use]
pub fn is_installed() -> bool {
    Programs::find().is_some()
}

/// The variables that describe a server to tests: its URLs, the file with its certificate, and the folder with the delivered
/// mails, one file for each mail and recipient.
#[must_use]
pub fn variables(server: &Server) -> Vec<(&'static str, String)> {
    let at = |folder: &str| server.directory().join(folder).display().to_string();
    let account = format!("{USER}:{PASSWORD}@127.0.0.1");
    vec![
        (URL, server.url().to_owned()),
        ("SMTPS_URL", format!("smtps://{account}:{}", server.port() + 1)),
        ("SMTP_PLAINTEXT_URL", format!("smtp://{account}:{}?tls=none", server.port() + 2)),
        ("SMTP_CERTIFICATE", at(CERTIFICATE)),
        ("SMTP_MAILS", at("mails/new")),
    ]
}

/// Lets accounts send mail, by pairs of name and password, in place of those of an earlier call.
///
/// # Errors
/// Fails when the file cannot be written.
pub fn set_accounts(server: &Server, accounts: &[(&str, &str)]) -> Result<()> {
    let line = |(name, password): &(&str, &str)| format!("{name}: {}\n", STANDARD.encode(password));
    let lines: String = accounts.iter().map(line).collect();
    fs::write(server.directory().join(ACCOUNTS), lines).context("cannot write Exim's accounts")
}

/// The file with accounts and their passwords in Base64, so that none of their characters means anything to Exim.
const ACCOUNTS: &str = "accounts";
const USER: &str = "notify";
const PASSWORD: &str = "not-a-secret";
const CERTIFICATE: &str = "certificate.pem";

struct Exim {
    programs: Programs,
}

struct Programs {
    exim: PathBuf,
    openssl: PathBuf,
}

impl Programs {
    fn find() -> Option<Self> {
        let folders = usual_folders();
        Some(Self { exim: find(&folders, &["exim4", "exim"])?, openssl: find(&folders, &["openssl"])? })
    }
}

impl Engine for Exim {
    fn name(&self) -> &'static str {
        "Exim"
    }

    fn programs(&self) -> &Path {
        self.programs.exim.parent().unwrap_or(&self.programs.exim)
    }

    fn url(&self, port: u16) -> String {
        format!("smtp://{USER}:{PASSWORD}@127.0.0.1:{port}?tls=required")
    }

    fn initialise(&self, place: &Place) -> Result<Command> {
        let (settings, request) = (place.directory().join("exim.conf"), place.directory().join("openssl.conf"));
        fs::write(settings, configuration(place, &self.programs.exim)).context("cannot write Exim's configuration")?;
        fs::write(&request, CERTIFICATE_REQUEST).context("cannot write the request of the certificate")?;
        fs::write(place.directory().join(ACCOUNTS), "").context("cannot write Exim's accounts")?;
        let mut command = place.command(&self.programs.openssl);
        command.args(["req", "-x509", "-nodes", "-newkey", "rsa:2048", "-days", "30", "-config"]).arg(request);
        command.args(["-keyout", "key.pem", "-out", CERTIFICATE]);
        Ok(command)
    }

    fn serve(&self, place: &Place, port: u16) -> Command {
        let mut command = place.command(&self.programs.exim);
        command.arg("-bdf").arg("-C").arg(place.directory().join("exim.conf"));
        command
            .args(["FIRST", "SECOND", "THIRD"].iter().zip(port..).map(|(name, port)| format!("-D{name}_PORT={port}")));
        command
    }

    fn check_session(&self, place: &Place, port: u16) -> Result<()> {
        let limit = Duration::from_secs(5);
        let stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), limit)?;
        stream.set_read_timeout(Some(limit))?;
        let mut greeting = String::new();
        BufReader::new(stream).read_line(&mut greeting)?;
        // Its first line has the name of its directory, which no other server has.
        ensure!(
            greeting.contains(&*place.directory().to_string_lossy()),
            "another program answers: {}",
            greeting.trim()
        );
        Ok(())
    }

    fn graceful(&self) -> Signal {
        // An orderly end leaves the processes that still serve a client, and each would make the removed directory anew, to
        // write its log. So all are killed at once.
        Signal::KILL
    }

    fn discard(&self) -> (Signal, &'static str) {
        (Signal::KILL, "KILL")
    }
}

/// Not an authority, since clients do not trust one as a server; in its own name, so that it can be trusted by itself.
const CERTIFICATE_REQUEST: &str = "\
[req]
distinguished_name = name
x509_extensions = server
prompt = no
[name]
CN = a private mail server of a test run
[server]
basicConstraints = critical, CA:FALSE
subjectAltName = IP:127.0.0.1, DNS:localhost
";

/// Exim as an ordinary account: it delivers without changing to another one, and everything that it writes is in its directory.
/// Debian's own configuration is not read.
fn configuration(place: &Place, program: &Path) -> String {
    let (directory, program) = (place.directory().display(), program.display());
    let (user, group) = place.owner();
    format!(
        r#"exim_path = {program}
# Who may start the server.
exim_user = {user}
exim_group = {group}
deliver_drop_privilege
spool_directory = {directory}/spool
log_file_path = {directory}/%slog
pid_file_path = {directory}/pid
keep_environment =
primary_hostname = notify.test
smtp_banner = {directory}
local_interfaces = 127.0.0.1
daemon_smtp_ports = FIRST_PORT : SECOND_PORT : THIRD_PORT
# A process that serves the last client of an ended server may hold the port for a moment. If another program has it,
# the caller starts the server on another port.
daemon_startup_retries = 2
daemon_startup_sleep = 1s
tls_on_connect_ports = SECOND_PORT
tls_advertise_hosts = ${{if eq{{$received_port}}{{THIRD_PORT}}{{}}{{*}}}}
tls_certificate = {directory}/{CERTIFICATE}
tls_privatekey = {directory}/key.pem
# No questions to name servers, which may not answer.
host_lookup =
rfc1413_query_timeout = 0s
smtp_accept_max = 200
acl_smtp_rcpt = recipient
acl_smtp_data = mail

begin acl
recipient:
  deny
    local_parts = missing
    message = no such mailbox
  accept
    authenticated = *
  deny
    message = authentication is required
mail:
  accept

begin routers
all:
  driver = accept
  transport = file

begin transports
file:
  driver = appendfile
  maildir_format
  directory = {directory}/mails
  directory_mode = 0755
  mode = 0644
  envelope_to_add

begin authenticators
plain:
  driver = plaintext
  public_name = PLAIN
  server_prompts = :
  server_condition = ${{if or{{{{and{{{{eq{{$auth2}}{{{USER}}}}}{{eq{{$auth3}}{{{PASSWORD}}}}}}}}}{{eq{{${{base64:$auth3}}}}{{${{lookup{{$auth2}}lsearch{{{directory}/{ACCOUNTS}}}{{$value}}{{none}}}}}}}}}}}}
  server_set_id = $auth2
"#
    )
}
