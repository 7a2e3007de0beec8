//! The file of `serve`: its keys, their defaults and their meaning. [`super::reading`] knows how a file is read.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderName;
use solid_notify::ack::TokenKeys;
use solid_notify::definition::SecretRef;
use tracing_subscriber::filter::{LevelFilter, Targets};
use url::Url;

use super::channels;
use super::param_keys::ParamKeyRef;
use super::reading::{Problem, Reader, Section, not_blank, whole};
use crate::contexts::{SCHEMES, names_a_store, with_password};
use crate::secret::{Secret, read_secret};
use crate::sending::Sending;
use crate::times;

/// Where probes, metrics and acks are, if nothing else is said.
pub(crate) const LISTEN: &str = "127.0.0.1:8080";

/// How long attempts may go on after SIGTERM. Handing back the rest takes up to 10 s more, and platforms kill after 30 s.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(15);

/// How many attempts run at the same time.
const RUNNING: RangeInclusive<usize> = 1..=100_000;

/// A valid file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Config {
    pub(crate) listen: SocketAddr,
    pub(crate) log: Log,
    /// By name, in the order of the alphabet.
    pub(crate) databases: BTreeMap<String, Arc<Database>>,
}

/// What is logged, and how.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Log {
    pub(crate) filter: Targets,
    pub(crate) json: bool,
}

impl Default for Log {
    fn default() -> Self {
        Self { filter: Targets::new().with_default(LevelFilter::INFO), json: false }
    }
}

/// A store, and everything that its sweeper needs. A reload restarts the databases whose value has changed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Database {
    /// With its password.
    pub(crate) url: Secret,
    pub(crate) migrate: bool,
    /// The first one signs tokens, all are accepted.
    pub(crate) token_keys: Vec<Secret>,
    /// The first one encrypts, all decrypt.
    pub(crate) param_keys: Vec<ParamKeyRef>,
    pub(crate) sweeper: Sweeper,
    pub(crate) sending: Sending,
}

/// Settings of every sweeper, and of its acks.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sweeper {
    pub(crate) node: Option<String>,
    pub(crate) max_running: Option<usize>,
    pub(crate) poll_interval: Option<Duration>,
    pub(crate) shutdown_grace: Duration,
    pub(crate) base_url: Option<String>,
    /// The header in which a proxy puts the address of a receiver.
    pub(crate) peer_header: Option<HeaderName>,
}

/// What options and variables say; they come before the file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Overrides {
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) node: Option<String>,
    pub(crate) log: Option<Targets>,
    /// The only database, if the file has none.
    pub(crate) url: Option<String>,
    /// Where the password of that database is.
    pub(crate) own_secret: Option<SecretRef>,
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// All its problems.
    pub(crate) fn read(text: &str, overrides: &Overrides) -> Result<Self, Vec<Problem>> {
        let reader = Reader::new(text);
        let document = reader.document();
        let config = if reader.is_clean() { read(Section::root(&reader, &document), overrides) } else { None };
        let problems = reader.into_problems();
        if let (Some(config), true) = (config, problems.is_empty()) { Ok(config) } else { Err(problems) }
    }
}

/// Reads all keys. Every problem is noted, so the value is only used if there is none.
fn read(mut root: Section<'_, '_>, overrides: &Overrides) -> Option<Config> {
    let mut http = root.section("http");
    let listen = http.text("listen", |text| {
        text.parse().map_err(|_| format!("expected an address with a port, such as {LISTEN:?}"))
    });
    let base_url = http.text("base_url", |text| match Url::parse(text) {
        Ok(url) if ["http", "https"].contains(&url.scheme()) => Ok(text.to_owned()),
        _ => Err("expected a URL such as \"https://notify.example.org\"".to_owned()),
    });
    let peer_header = http.text("peer_header", |text| {
        text.parse().map_err(|_| "expected the name of a header, such as \"x-real-ip\"".to_owned())
    });
    http.end();

    let mut log = root.section("log");
    let filter = log.text("filter", filter);
    let format = log.text("format", |text| match text {
        "text" => Ok(false),
        "json" => Ok(true),
        _ => Err("expected \"text\" or \"json\"".to_owned()),
    });
    log.end();

    let mut sweeper = root.section("sweeper");
    let settings = Sweeper {
        node: overrides.node.clone().or_else(|| sweeper.text("node", not_blank)),
        max_running: sweeper.number("max_running", RUNNING),
        poll_interval: sweeper.text("poll_interval", duration),
        shutdown_grace: sweeper.text("shutdown_grace", times::duration).unwrap_or(SHUTDOWN_GRACE),
        base_url,
        peer_header,
    };
    // It is known also where an option comes before it.
    let _ = sweeper.text("node", not_blank);
    sweeper.end();

    let sending = Arc::new(channels::sending(&mut root, overrides.own_secret.as_ref()));
    let databases: Vec<_> = root.sections("databases");
    let mut read: BTreeMap<String, Arc<Database>> = BTreeMap::new();
    let none = databases.is_empty();
    for (name, section) in databases {
        if let Some(database) = database(&name, section, &settings, &sending) {
            read.insert(name, Arc::new(database));
        }
    }
    match &overrides.url {
        Some(url) if none => {
            let database = Database {
                url: Secret::new(url.clone()),
                migrate: false,
                token_keys: Vec::new(),
                param_keys: Vec::new(),
                sweeper: settings,
                sending: (*sending).clone(),
            };
            read.insert("default".to_owned(), Arc::new(database));
        }
        None if none => root.wrong_table("it names no database: add a table [databases.shop] with a url"),
        _ => {}
    }
    root.end();
    let default = Log::default();
    Some(Config {
        listen: overrides.listen.or(listen).or_else(|| LISTEN.parse().ok())?,
        log: Log {
            filter: overrides.log.clone().or(filter).unwrap_or(default.filter),
            json: format.unwrap_or(default.json),
        },
        databases: read,
    })
}

/// Reads a store. `None`: it is switched off, or has problems.
fn database(name: &str, mut section: Section<'_, '_>, sweeper: &Sweeper, sending: &Sending) -> Option<Database> {
    if !section.is_present() {
        return None;
    }
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)) {
        section.wrong_table("the name is a part of URLs, so it has letters, digits, - and _ only");
    }
    if RESERVED.contains(&name) {
        section.wrong_table("the name is the path of another route: choose another one");
    }
    let password = section.secret("password");
    let url = section.text("url", |text| {
        // A reference holds a URL with its password.
        let url =
            if text.starts_with("env:") || text.starts_with("file:") { read_secret(text)? } else { Secret::new(text) };
        with_its_password(url, password.as_ref())
    });
    section.require("url", "url = \"postgres://user@host/database\"");
    let token_keys = section.texts("token_keys", |reference| {
        let key = read_secret(reference)?;
        TokenKeys::new(key.value().as_bytes()).map(|_| key).map_err(whole)
    });
    let param_keys = section.texts("param_keys", ParamKeyRef::read);
    let migrate = section.flag("migrate").unwrap_or(false);
    let enabled = section.flag("enabled").unwrap_or(true);
    section.end();
    let database =
        Database { url: url?, migrate, token_keys, param_keys, sweeper: sweeper.clone(), sending: sending.clone() };
    enabled.then_some(database)
}

/// First segments of paths that are no names of databases.
const RESERVED: [&str; 5] = ["ack", "livez", "metrics", "nack", "readyz"];

/// Puts a password into the URL of a store.
fn with_its_password(url: Secret, password: Option<&Secret>) -> Result<Secret, String> {
    if !names_a_store(url.value()) {
        return Err(format!(
            "expected a URL that begins with one of {}",
            SCHEMES.map(|it| format!("{it}:")).join(", ")
        ));
    }
    let Some(password) = password else { return Ok(url) };
    with_password(url.value(), password.value()).map(Secret::new)
}

fn duration(text: &str) -> Result<Duration, String> {
    times::duration(text).and_then(|duration| match duration.is_zero() {
        true => Err("expected more than nothing, such as \"1s\"".to_owned()),
        false => Ok(duration),
    })
}

/// Accepts what a filter of logs can be.
pub(crate) fn filter(text: &str) -> Result<Targets, String> {
    text.parse().map_err(|error| format!("{error}; expected \"info\" or \"info,sqlx=warn\""))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The example of the book has every key.
    const EXAMPLE: &str = include_str!("../../tests/serve/every_key.toml");

    fn problems(text: &str) -> Vec<String> {
        let read = Config::read(text, &Overrides::default());
        read.err().unwrap_or_default().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn options_come_before_the_file() {
        let text = "[http]\nlisten = '127.0.0.1:1'\n[log]\nfilter = 'warn'\n[sweeper]\nnode = 'a'\n[databases.x]\nurl = 'sqlite:x'";
        let file = Config::read(text, &Overrides::default()).unwrap();
        let node = |config: &Config| config.databases["x"].sweeper.node.clone().unwrap();
        assert_eq!((file.listen.port(), file.log.filter.to_string().as_str(), node(&file).as_str()), (1, "warn", "a"));
        let overrides = Overrides {
            listen: "127.0.0.1:2".parse().ok(),
            node: Some("b".to_owned()),
            log: Some(filter("debug").unwrap()),
            ..Overrides::default()
        };
        let read = Config::read(text, &overrides).unwrap();
        assert_eq!((read.listen.port(), read.log.filter.to_string().as_str(), node(&read).as_str()), (2, "debug", "b"));
        let url = Overrides { url: Some("sqlite:y".to_owned()), ..Overrides::default() };
        assert_eq!(Config::read("", &url).unwrap().databases["default"].url.value(), "sqlite:y");
    }

    #[test]
    fn every_problem_has_a_place_and_says_what_would_be_right() {
        for (text, expected) in [
            ("", "line 1, column 1: the file: it names no database"),
            ("a = ", "line 1, column"),
            ("[databases.a]\nurl = 'sqlite:a'\n[htpp]", "line 3, column 2: htpp: unknown; did you mean http?"),
            ("[databases]\na = 1", "line 2, column 1: databases.a: expected a table [databases.a], found: integer"),
            ("[databases.a]", "line 1, column 12: databases.a: url is missing: add url = \"postgres://"),
            ("[databases.a]\nurl = 'x:y'", "line 2, column 7: databases.a.url: expected a URL that begins with one of"),
            ("[databases.ack]\nurl = 'sqlite:a'", "databases.ack: the name is the path of another route"),
            ("[databases.'a/b']\nurl = 'sqlite:a'", "databases.a/b: the name is a part of URLs"),
            (
                "[databases.a]\nurl = 'sqlite:a'\npassword = 'env:PATH'",
                "databases.a.url: a URL of this scheme has no password",
            ),
            ("[databases.a]\nurl = 'sqlite:a'\nparam_keys = ['env:PATH']", "expected an id and a reference"),
            ("[sweeper]\npoll_interval = '0s'", "sweeper.poll_interval: expected more than nothing"),
            ("[http]\npeer_header = 'x real ip'", "http.peer_header: expected the name of a header"),
            ("[http]\nbase_url = 'ftp://x'", "http.base_url: expected a URL such as"),
            ("[alerts]\ndefault_chats = ['ops']", "alerts.default_chats: there is no table [alerts.chats.ops]"),
            ("[alerts]\ndefault_email = ['a@b.org']", "alerts.default_email: mails need a server"),
            ("[alerts.chats.a]\nservice = 'slack'", "alerts.chats.a: url is missing"),
            ("[alerts.chats.a]\nservice = 'slack'\nurl = 'env:PATH'\nkeyword = 'x'", "neither secret nor keyword"),
            ("[mail]\nattachments_from = '/no/such'", "mail.attachments_from: there is no such folder"),
        ] {
            let found = problems(text).join("\n");
            assert!(found.contains(expected), "{text}: {found}");
        }
    }

    #[test]
    fn a_literal_secret_is_refused_and_not_shown() {
        for key in ["password", "token_keys", "param_keys"] {
            let value = if key == "password" { "'hunter2'" } else { "['hunter2']" };
            let found = problems(&format!("[databases.a]\nurl = 'sqlite:a'\n{key} = {value}"));
            assert!(found.len() == 1 && !found[0].contains("hunter2"), "{found:?}");
        }
        let shown =
            format!("{:?}", Config::read("[databases.a]\nurl = 'mysql://u:hunter2@h/x'", &Overrides::default()));
        assert!(shown.contains("Config") && !shown.contains("hunter2"), "{shown}");
    }

    proptest! {
        /// Bytes of a good file are replaced, doubled and deleted. The result is valid, or each problem has its place.
        #[test]
        fn spoilt_files_have_problems_with_places(edits in prop::collection::vec((any::<prop::sample::Index>(), 0..3_u8, any::<char>()), 1..6)) {
            let mut text: Vec<char> = EXAMPLE.chars().collect();
            for (place, edit, letter) in edits {
                let at = place.index(text.len());
                match edit {
                    0 => text[at] = letter,
                    1 => text.insert(at, letter),
                    _ => _ = text.remove(at),
                }
            }
            let text: String = text.into_iter().collect();
            if let Err(found) = Config::read(&text, &Overrides::default()) {
                prop_assert!(!found.is_empty());
                for problem in found {
                    prop_assert!(problem.line <= text.lines().count() + 1 && problem.to_string().starts_with("line "));
                }
            }
        }
    }
}
