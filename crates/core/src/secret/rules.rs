//! [`SecretRules`]: which variables and files the rows of definitions may use as secrets.

use std::ffi::OsString;
use std::fmt;
use std::net::IpAddr;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use super::SecretString;
use super::file::read_below;
use super::reference::{FILE_LIMIT, SecretError, SecretRef, Source};

/// The beginning of the variables that rows may use by default.
const VARIABLES: &str = "NOTIFY_SECRET_";
/// The folder whose files rows may use by default, where the service manager has given none.
const FOLDER: &str = "/run/secrets/solid-notify";
/// The variable in which systemd names the folder of a service's credentials.
const CREDENTIALS: &str = "CREDENTIALS_DIRECTORY";

/// Which variables and files the rows of definitions may name as secrets: what the program allows, by
/// [`AnyOutbox::use_secret_rules`](crate::AnyOutbox::use_secret_rules). A person who may edit rows chooses where a secret is sent, so a row must not
/// reach what else the process can read.
///
/// By default these are the variables `NOTIFY_SECRET_*`, and the files below `$CREDENTIALS_DIRECTORY`, or without it below
/// `/run/secrets/solid-notify`.
///
/// ```
/// use solid_notify_core::definition::{SecretRule, SecretRules};
///
/// let payments = SecretRule::new("file:/etc/shop/payments/")?.definitions(["pay/*"]).hosts(["api.pay.example"]);
/// let rules = SecretRules::default().allow(SecretRule::new("env:ERP_*")?).allow(payments);
/// # Ok::<(), solid_notify_core::secret::WrongSecretPattern>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretRules {
    rules: Vec<SecretRule>,
    /// What rows never get.
    own: Vec<SecretRef>,
}

impl Default for SecretRules {
    fn default() -> Self {
        Self::by_default(std::env::var_os(CREDENTIALS))
    }
}

impl SecretRules {
    /// `credentials`: the folder that the service manager has given. A text that names no folder counts for none.
    fn by_default(credentials: Option<OsString>) -> Self {
        let given = credentials.map(PathBuf::from).filter(|folder| is_plain(folder));
        let folder = given.unwrap_or_else(|| FOLDER.into());
        let rule = |what| SecretRule { is_default: true, ..SecretRule::from(what) };
        Self::none().allow(rule(What::Variables(VARIABLES.to_owned()))).allow(rule(What::Folder(folder)))
    }

    /// Allows rows no secret at all.
    pub fn none() -> Self {
        Self { rules: Vec::new(), own: Vec::new() }
    }

    /// Allows what a rule says, beside what is allowed already. What a rule allows for some definitions or hosts only, the default no longer allows for
    /// the others.
    #[must_use]
    pub fn allow(mut self, rule: SecretRule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Keeps a secret of the program itself, such as the password of its database, from rows, also where a rule allows it.
    #[must_use]
    pub fn keep(mut self, own: SecretRef) -> Self {
        self.own.push(own);
        self
    }

    /// Checks that the row of a definition may use a secret. No file is touched.
    ///
    /// # Errors
    /// [`SecretError`] names the reference and how to allow it.
    pub fn check(&self, definition: &str, reference: &SecretRef, to: Destination<'_>) -> Result<(), SecretError> {
        self.allowing(definition, reference, to).map(drop)
    }

    /// Returns the rules by which a row may use a secret: at least one.
    pub(crate) fn allowing(
        &self,
        definition: &str,
        reference: &SecretRef,
        to: Destination<'_>,
    ) -> Result<Vec<SecretRule>, SecretError> {
        if self.own.contains(reference) {
            return Err(reference.failed("it is a secret of the program itself, which no row may use"));
        }
        let is_limited = self.rules.iter().any(|rule| rule.is_limited() && rule.what.has(reference));
        let of_definition = |rule: &&SecretRule| {
            rule.what.has(reference)
                && any(&rule.definitions, |pattern| is_named(pattern, definition))
                && !(rule.is_default && is_limited)
        };
        let mut found: Vec<SecretRule> = self.rules.iter().filter(of_definition).cloned().collect();
        if found.is_empty() {
            return Err(reference.failed(format!(
                "the program does not let rows of {definition:?} use it; to allow it: in Rust `outbox.use_secret_rules(…)`, in the file of \
                 `solid-notify serve` a table [secrets.NAME] with allow = [\"{reference}\"], for `solid-notify run` \
                 --allow-secret {reference}"
            )));
        }
        found.retain(|rule| rule.lets_to(to));
        match to {
            _ if !found.is_empty() => Ok(found),
            Destination::Host(host) => Err(reference.failed(format!(
                "the program lets rows of {definition:?} use it for other hosts, and not for {host:?}; to allow it, add the host: in Rust \
                 `SecretRule::hosts`, in the file of `solid-notify serve` to `hosts` of the table [secrets.NAME] that has {reference} in allow"
            ))),
            _ => Err(reference.failed(format!(
                "the program lets rows of {definition:?} use it for some hosts only: read it by `notice.secret_for(…)`"
            ))),
        }
    }

    /// Reads a secret that these rules allow. Blocks as long as the file system does.
    pub(crate) fn read(&self, reference: &SecretRef, allowing: &[SecretRule]) -> Result<SecretString, SecretError> {
        let Source::File(path) = &reference.0 else { return reference.read_unrestricted() };
        let failed = |error: std::io::Error| reference.failed(error);
        // A link must not lead to a file that the program keeps.
        let real = path.canonicalize().map_err(failed)?;
        let is_own =
            |own: &SecretRef| matches!(&own.0, Source::File(path) if path.canonicalize().is_ok_and(|own| own == real));
        if self.own.iter().any(is_own) {
            return Err(reference.failed("it is a secret of the program itself, which no row may use"));
        }
        // By another path, a file that a rule limits would be the default's.
        let is_limited = || self.rules.iter().any(|rule| rule.is_limited() && rule.what.is_at(&real));
        if allowing.iter().all(|rule| rule.is_default) && is_limited() {
            return Err(reference.failed(
                "the program limits the file to which it leads to some definitions or hosts: name the file as the rule does",
            ));
        }
        for rule in allowing {
            let (What::File(place) | What::Folder(place)) = &rule.what else { continue };
            if let Some(content) = read_below(place, &real, FILE_LIMIT).map_err(failed)? {
                return reference.of_content(content);
            }
        }
        Err(reference.failed(
            "it is a link that leads out of the folder that the program allows; to allow it, name the file where it ends, and allow that one: in Rust \
             `outbox.use_secret_rules(…)`, in the file of `solid-notify serve` a table [secrets.NAME] with allow = [\"file:/path\"], for \
             `solid-notify run` --allow-secret file:/path",
        ))
    }
}

/// For which receiver a secret is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination<'a> {
    /// It is known later, and checked then.
    Later,
    /// It is not known.
    Unknown,
    /// The host of the receiver.
    Host(&'a str),
}

/// A text is no pattern of secrets. The error does not contain it, because it may be the secret itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected \"env:NAME\", \"env:PREFIX_*\", \"file:/path\", or \"file:/folder/\" for all files below it")]
pub struct WrongSecretPattern;

/// A variable or files that rows may use, with the definitions and hosts for which they may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretRule {
    what: What,
    definitions: Vec<String>,
    hosts: Vec<String>,
    is_default: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    Variable(String),
    /// Those that begin with this.
    Variables(String),
    File(PathBuf),
    /// Those below it.
    Folder(PathBuf),
}

impl SecretRule {
    /// Allows the variable `env:NAME`, those that begin as `env:PREFIX_*` says, the file `file:/path`, or all files below `file:/folder/`.
    ///
    /// # Errors
    /// [`WrongSecretPattern`] says what would be right.
    pub fn new(pattern: &str) -> Result<Self, WrongSecretPattern> {
        pattern.parse()
    }

    /// Allows it only for definitions with these names. `pay/*` are all targets of `pay`, `pay*` all names that begin so.
    #[must_use]
    pub fn definitions(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.definitions.extend(names.into_iter().map(Into::into));
        self
    }

    /// Allows it only in what is sent to these hosts: `api.example.org`, or `*.example.org` for all names below it.
    #[must_use]
    pub fn hosts(mut self, hosts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.hosts.extend(hosts.into_iter().map(|host| host.into().to_ascii_lowercase()));
        self
    }

    /// Returns whether the program has limited it to definitions or hosts.
    fn is_limited(&self) -> bool {
        !self.definitions.is_empty() || !self.hosts.is_empty()
    }

    fn lets_to(&self, to: Destination<'_>) -> bool {
        match to {
            Destination::Later => true,
            Destination::Unknown => self.hosts.is_empty(),
            Destination::Host(host) => any(&self.hosts, |pattern| is_host(pattern, &host.to_ascii_lowercase())),
        }
    }
}

impl FromStr for SecretRule {
    type Err = WrongSecretPattern;

    fn from_str(pattern: &str) -> Result<Self, WrongSecretPattern> {
        let what = match pattern.split_once(':').ok_or(WrongSecretPattern)? {
            ("env", prefix) if prefix.ends_with('*') => What::Variables(prefix.trim_end_matches('*').to_owned()),
            ("env", name) if !name.is_empty() => What::Variable(name.to_owned()),
            ("file", path) if is_plain(Path::new(path.trim_end_matches('*'))) => match path.trim_end_matches('*') {
                folder if folder.ends_with('/') => What::Folder(folder.into()),
                file if file == path => What::File(file.into()),
                _ => return Err(WrongSecretPattern),
            },
            _ => return Err(WrongSecretPattern),
        };
        Ok(what.into())
    }
}

impl From<What> for SecretRule {
    fn from(what: What) -> Self {
        Self { what, definitions: Vec::new(), hosts: Vec::new(), is_default: false }
    }
}

impl What {
    /// Returns whether this is the secret of a reference, or, of a file, may be.
    fn has(&self, reference: &SecretRef) -> bool {
        match (self, &reference.0) {
            (Self::Variable(allowed), Source::Env(name)) => allowed == name,
            (Self::Variables(prefix), Source::Env(name)) => name.starts_with(prefix.as_str()),
            (Self::File(allowed), Source::File(path)) => allowed == path,
            (Self::Folder(folder), Source::File(path)) => is_plain(path) && path.starts_with(folder) && path != folder,
            _ => false,
        }
    }

    /// Returns whether this is a file, or a folder above it, with its links followed.
    fn is_at(&self, real: &Path) -> bool {
        match self {
            Self::File(place) | Self::Folder(place) => place.canonicalize().is_ok_and(|place| real.starts_with(place)),
            Self::Variable(_) | Self::Variables(_) => false,
        }
    }
}

impl fmt::Display for SecretRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            What::Variable(name) => write!(f, "env:{name}"),
            What::Variables(prefix) => write!(f, "env:{prefix}*"),
            What::File(path) => write!(f, "file:{}", path.display()),
            What::Folder(folder) => write!(f, "file:{}/", folder.display().to_string().trim_end_matches('/')),
        }
    }
}

/// Returns whether a path is absolute and goes nowhere up.
fn is_plain(path: &Path) -> bool {
    path.is_absolute() && path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
}

/// Returns whether one of the patterns fits; no pattern at all fits everything.
fn any(patterns: &[String], fits: impl Fn(&str) -> bool) -> bool {
    patterns.is_empty() || patterns.iter().any(|pattern| fits(pattern))
}

fn is_named(pattern: &str, definition: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => definition.starts_with(beginning),
        None => definition == pattern,
    }
}

/// Compares addresses of IPv6 by their value, because a URL has them in brackets and the client of a broker has not.
fn is_host(pattern: &str, host: &str) -> bool {
    let address = |host: &str| {
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        inner.unwrap_or(host).parse::<IpAddr>().ok()
    };
    match pattern.strip_prefix('*') {
        Some(domain) => domain.starts_with('.') && host.len() > domain.len() && host.ends_with(domain),
        None => host == pattern || address(pattern).is_some_and(|pattern| address(host) == Some(pattern)),
    }
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
