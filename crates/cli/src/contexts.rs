//! The file of contexts: named stores, one of them chosen. A password is a reference to a variable or a file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use solid_notify::definition::{ExposeSecret, SecretRef};
use url::Url;

use crate::exit::{Exit, Failure, Outcome};
use crate::global::{Global, variable};
use crate::{ask, output, read};

/// All contexts, as the file has them.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Contexts {
    /// The chosen one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) current: Option<String>,
    /// By name.
    #[serde(default)]
    pub(crate) contexts: BTreeMap<String, Context>,
}

/// A store with a name.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Context {
    /// Its URL, without a password where `password` has one.
    pub(crate) url: String,
    /// Where its password is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) password: Option<SecretRef>,
    /// Whether the program asks before each change.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) production: bool,
    /// Whether the program refuses changes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) read_only: bool,
}

/// Where the store of a command is, and what the context allows.
#[derive(Clone)]
pub(crate) struct Chosen {
    /// The URL with its password.
    pub(crate) url: String,
    /// Where its password is, if not in the command line. No row may use that.
    pub(crate) own_secret: Option<SecretRef>,
    /// The name of the context, if it is one.
    pub(crate) name: Option<String>,
    pub(crate) production: bool,
    pub(crate) read_only: bool,
}

impl Chosen {
    /// Fails if the context allows no change, or asks if it is a production context. `what` completes "This will …". `yes`: the command line has
    /// answered.
    pub(crate) fn change(&self, what: &str, yes: bool) -> Outcome<()> {
        self.writable()?;
        match &self.name {
            Some(name) if self.production => {
                ask::confirm(&format!("this will {what} in the production context {name:?}. Continue?"), yes)
            }
            _ => Ok(()),
        }
    }

    /// Fails if the context allows no change.
    pub(crate) fn writable(&self) -> Outcome<()> {
        match &self.name {
            Some(name) if self.read_only => {
                Err(Failure::new(Exit::NotConfirmed, format!("the context {name:?} is read-only: nothing was changed"))
                    .next("use another context, or set read_only = false in the file of contexts"))
            }
            _ => Ok(()),
        }
    }
}

impl Context {
    /// Returns the URL with its password.
    fn full_url(&self, name: &str) -> Outcome<String> {
        let Some(reference) = &self.password else { return Ok(self.url.clone()) };
        let wrong = |problem: String| Failure::invalid(format!("context {name:?}: {problem}"));
        let secret = reference.read_unrestricted().map_err(|error| wrong(error.to_string()))?;
        with_password(&self.url, secret.expose_secret().trim_end_matches(['\r', '\n'])).map_err(wrong)
    }
}

/// The schemes of stores.
pub(crate) const SCHEMES: [&str; 7] = ["postgres", "postgresql", "mysql", "mariadb", "sqlite", "redis", "rediss"];

/// Returns true if the scheme of the URL is that of a store.
pub(crate) fn names_a_store(url: &str) -> bool {
    url.split_once(':').is_some_and(|(scheme, _)| SCHEMES.contains(&scheme))
}

/// Puts a password into the URL of a store; of a Redis Cluster into that of each node. The error contains neither.
pub(crate) fn with_password(url: &str, password: &str) -> Result<String, String> {
    // `Url` leaves a percent sign as it is, which the drivers decode, and a comma, which divides the nodes of a cluster.
    let encoded: String = password.bytes().map(encoded).collect();
    let with = |url: &str| {
        let mut url = Url::parse(url).map_err(|error| format!("its URL cannot be read: {error}"))?;
        url.set_password(Some(&encoded)).map_err(|()| "a URL of this scheme has no password".to_owned())?;
        Ok(String::from(url))
    };
    match url.starts_with("redis") {
        true => Ok(url.split(',').map(|node| with(node.trim())).collect::<Result<Vec<_>, String>>()?.join(",")),
        false => with(url),
    }
}

fn encoded(byte: u8) -> String {
    if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") }
}

/// Returns the URL for people: without a password. Text without a known scheme may be a part of a password.
pub(crate) fn shown(url: &str) -> String {
    match Url::parse(url) {
        _ if !names_a_store(url) => "***".to_owned(),
        Ok(mut parsed) if parsed.password().is_some() => match parsed.set_password(Some("***")) {
            Ok(()) => parsed.into(),
            Err(()) => "***".to_owned(),
        },
        Ok(_) => url.to_owned(),
        // Lists of nodes are no URLs. What stands before an @ may be a password.
        Err(_) => url.rsplit_once('@').map_or_else(|| url.to_owned(), |(_, host)| format!("***@{host}")),
    }
}

/// Returns true if the URL contains a password.
pub(crate) fn has_password(url: &str) -> bool {
    Url::parse(url).map_or_else(|_| url.contains('@'), |url| url.password().is_some())
}

impl Contexts {
    /// Returns the path of the file.
    pub(crate) fn path(global: &Global) -> Outcome<PathBuf> {
        if let Some(path) = global.contexts.clone().or_else(|| variable("SOLID_NOTIFY_CONTEXTS").map(PathBuf::from)) {
            return Ok(path);
        }
        let settings = variable("XDG_CONFIG_HOME").or_else(|| variable("APPDATA")).map(PathBuf::from);
        let settings = settings.or_else(|| variable("HOME").map(|home| Path::new(&home).join(".config")));
        settings.map(|folder| folder.join("solid-notify").join("contexts.toml")).ok_or_else(|| {
            Failure::invalid("the folder of settings is unknown, because HOME is not set")
                .next("name the file: --contexts FILE")
        })
    }

    /// Reads the file. A missing one has no contexts.
    pub(crate) fn read(path: &Path) -> Outcome<Self> {
        if !path.exists() {
            return Ok(Self::default());
        }
        let text = read::text(path)?;
        #[cfg(unix)]
        if let Ok(metadata) = std::fs::metadata(path) {
            use std::os::unix::fs::PermissionsExt;
            if metadata.permissions().mode() & 0o077 != 0 {
                output::warn(format!("other users can read {0}; chmod 600 {0}", path.display()));
            }
        }
        toml::from_str(&text).map_err(|error| {
            let error = error.to_string();
            Failure::invalid(format!("the file of contexts {} cannot be read:\n{}", path.display(), error.trim_end()))
        })
    }

    /// Writes the file, readable by its owner only. A reader sees the old or the new one, never a part.
    pub(crate) fn write(&self, path: &Path) -> Outcome<()> {
        let failed = |error: std::io::Error| {
            Failure::new(Exit::Failed, format!("cannot write the file of contexts {}: {error}", path.display()))
        };
        let text = toml::to_string(self)
            .map_err(|error| Failure::new(Exit::Failed, format!("cannot write the contexts as TOML: {error}")))?;
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        let new = path.with_extension(format!("new.{}", std::process::id()));
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let written = options.open(&new).and_then(|mut file| {
            std::io::Write::write_all(&mut file, text.as_bytes())?;
            file.sync_all()
        });
        let renamed = written.and_then(|()| std::fs::rename(&new, path));
        renamed.map_err(|error| {
            // What remains of the new file is useless.
            let _ = std::fs::remove_file(&new);
            failed(error)
        })
    }

    /// Returns a context by its name.
    pub(crate) fn get(&self, name: &str) -> Outcome<&Context> {
        self.contexts.get(name).ok_or_else(|| {
            Failure::new(Exit::NotFound, format!("there is no context {name:?}"))
                .next("`solid-notify context list` lists them, `solid-notify context add` adds one")
        })
    }
}

/// Returns the store that a command is for: `--url`, `--context`, then the variables, then the chosen context.
pub(crate) fn chosen(global: &Global) -> Outcome<Chosen> {
    let by_url = |url: String, own_secret| Chosen { url, own_secret, name: None, production: false, read_only: false };
    if let Some(url) = &global.url {
        return Ok(by_url(url.clone(), None));
    }
    let mut name = global.context.clone();
    if name.is_none() {
        if let Some(url) = variable("SOLID_NOTIFY_URL") {
            return Ok(by_url(url, "env:SOLID_NOTIFY_URL".parse().ok()));
        }
        name = variable("SOLID_NOTIFY_CONTEXT");
    }
    let contexts = Contexts::read(&Contexts::path(global)?)?;
    let Some(name) = name.or_else(|| contexts.current.clone()) else {
        return Err(Failure::usage("no store is named").next(
            "give --url sqlite://notify.db?mode=rwc (or postgres://, mysql://, redis://), set SOLID_NOTIFY_URL, or choose a context: `solid-notify context add`",
        ));
    };
    let context = contexts.get(&name)?;
    let (production, read_only) = (context.production, context.read_only);
    let own_secret = context.password.clone();
    Ok(Chosen { url: context.full_url(&name)?, own_secret, name: Some(name), production, read_only })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn password_is_encoded_for_each_node() {
        for (password, encoded) in [
            ("ab%41cd", "ab%2541cd"),
            ("100%", "100%25"),
            ("a,b", "a%2Cb"),
            ("p@:/?#[] +ü", "p%40%3A%2F%3F%23%5B%5D%20%2B%C3%BC"),
        ] {
            let url = |host: &str| format!("{host}:{encoded}@");
            for user in ["postgres://ops", "mysql://ops", "redis://"] {
                let given = format!("{user}@[::1]:1/x?y=z").replace("redis://@", "redis://");
                let expected = format!("{}[::1]:1/x?y=z", url(user));
                assert_eq!(with_password(&given, password).unwrap(), expected);
            }
            let nodes = with_password("redis://a:1, rediss://ops@b:2?prefix=x", password).unwrap();
            assert_eq!(nodes, format!("{}a:1,{}b:2?prefix=x", url("redis://"), url("rediss://ops")));
        }
        assert!(with_password("sqlite:x.db", "x").is_err());
    }

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(shown("postgres://app:hunter2@db/shop"), "postgres://app:***@db/shop");
        assert_eq!(shown("postgres://app@db/shop"), "postgres://app@db/shop");
        assert_eq!(shown("sqlite://shop.db?mode=rwc"), "sqlite://shop.db?mode=rwc");
        assert_eq!(shown("redis://:hunter2@[/x"), "***@[/x");
        assert_eq!((shown("hunter2"), shown("hunter2:x")), ("***".to_owned(), "***".to_owned()));
        assert!(has_password("mysql://a:b@h/x") && !has_password("mysql://a@h/x"));
    }

    #[test]
    fn written_contexts_are_read_again_by_their_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/contexts.toml");
        assert!(Contexts::read(&path).unwrap().contexts.is_empty());
        let password = Some("env:A".parse().unwrap());
        let shop = Context { url: "mysql://a@h/x".to_owned(), password, production: true, read_only: false };
        let written = Contexts { current: Some("shop".to_owned()), contexts: [("shop".to_owned(), shop)].into() };
        for _ in 0..2 {
            written.write(&path).unwrap();
            let read = Contexts::read(&path).unwrap();
            assert_eq!(toml::to_string(&read).unwrap(), toml::to_string(&written).unwrap());
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        assert_eq!(std::fs::read_dir(folder.path().join("new")).unwrap().count(), 1, "no file is left over");
    }

    #[test]
    fn wrong_files_are_refused_and_a_plain_password_is_not_shown() {
        for (text, expected) in [
            ("[contexts.a]\nurl = 'x'\nprodution = true", "unknown field `prodution`"),
            ("[contexts.a]\nurl = 'x'\npassword = 'hunter2'", "expected a reference to a secret"),
            ("[contexts.a]", "missing field `url`"),
        ] {
            let error = toml::from_str::<Contexts>(text).unwrap_err();
            assert!(error.message().contains(expected) && !error.message().contains("hunter2"), "{error}");
        }
    }
}
