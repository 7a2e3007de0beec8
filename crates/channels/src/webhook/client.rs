//! The HTTP clients of webhooks: for all definitions without certificates of their own, and for each set of certificates.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Deserialize;
use solid_notify_core::definition::{ExposeSecret, SecretRef};
use solid_notify_sweeper::Failure;

use super::fields::SecretShape;
use crate::http::{Client, Keep, Network};
use crate::secrets::Secrets;
use crate::tls::{self, HAS_TLS, WITHOUT_TLS};

/// Certificates that a definition names.
#[derive(Clone, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TlsFiles {
    /// The client's certificate with its chain, PEM. With `key` the receiver recognises the sender by it.
    #[serde(default)]
    #[schemars(with = "Option<SecretShape>")]
    certificate: Option<Reference>,
    /// The private key of `certificate`, PEM.
    #[serde(default)]
    #[schemars(with = "Option<SecretShape>")]
    key: Option<Reference>,
    /// A file with more certificates of authorities, PEM, beside those of the operating system, for the receiver and the endpoint of tokens. The
    /// program must let rows use it, as a secret.
    ca_file: Option<PathBuf>,
}

/// A [`SecretRef`] as part of a key.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(super) struct Reference(pub(super) SecretRef);

impl Hash for Reference {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.to_string().hash(state);
    }
}

impl TlsFiles {
    /// Returns all files, as references.
    pub(super) fn secrets(&self) -> impl Iterator<Item = SecretRef> {
        let certificate = [&self.certificate, &self.key].into_iter().flatten().map(|part| part.0.clone());
        certificate.chain(self.ca_file.as_ref().map(SecretRef::file))
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if !HAS_TLS {
            return Err(format!("tls: {WITHOUT_TLS}"));
        }
        match (&self.certificate, &self.key, &self.ca_file) {
            (Some(_), None, _) => Err("tls: `certificate` needs its `key`".to_owned()),
            (None, Some(_), _) => Err("tls: `key` needs its `certificate`".to_owned()),
            (None, None, None) => Err("tls: it is empty; expected `certificate` with `key`, or `ca_file`".to_owned()),
            (_, _, Some(file)) if !file.is_absolute() => Err("tls.ca_file: expected an absolute path".to_owned()),
            _ => Ok(()),
        }
    }
}

/// Clients that differ only in how many connections they keep. Each is made when it is needed first, because most programs need one.
#[derive(Default)]
pub(super) struct Clients {
    by_keep: [OnceLock<Client>; 3],
    /// Why none could be made, and when. Reading the same certificates again in each attempt would cost as much as a success.
    problem: Mutex<Option<(Instant, String)>>,
}

/// How long a problem is kept: it may have been one of the process.
const PROBLEM_KEPT: Duration = Duration::from_secs(30);

impl Clients {
    /// Begins with the client that keeps many connections.
    pub(super) fn with(many: Client) -> Self {
        let clients = Self::default();
        let _ = clients.of(Keep::Many).set(many);
        clients
    }

    fn of(&self, keep: Keep) -> &OnceLock<Client> {
        let [many, few, none] = &self.by_keep;
        match keep {
            Keep::Many => many,
            Keep::Few => few,
            Keep::None => none,
        }
    }

    /// Returns one of them, which `make` makes unless it is there.
    ///
    /// # Errors
    /// That of `make`, or of a call of it shortly before.
    pub(super) fn get(&self, keep: Keep, make: impl FnOnce() -> Result<Client, String>) -> Result<Client, Failure> {
        if let Some(client) = self.of(keep).get() {
            return Ok(client.clone());
        }
        let mut problem = self.problem.lock();
        if let Some((_, problem)) = problem.as_ref().filter(|(since, _)| since.elapsed() < PROBLEM_KEPT) {
            return Err(Failure::retry(problem.clone()));
        }
        match make() {
            Ok(client) => Ok(self.of(keep).get_or_init(|| client).clone()),
            Err(made) => {
                *problem = Some((Instant::now(), made.clone()));
                Err(Failure::retry(made))
            }
        }
    }
}

/// The clients of a set of certificates, and a hash of their content.
#[derive(Default)]
pub(super) struct TlsClient(Mutex<(u64, Arc<Clients>)>);

impl TlsClient {
    /// Returns the client that uses them: a new one when their content has changed.
    ///
    /// # Errors
    /// A file that is no PEM. No error contains a private key.
    pub(super) fn get(
        &self,
        (network, keep): (&Network, Keep),
        files: &TlsFiles,
        secrets: &Secrets<'_>,
    ) -> Result<Client, Failure> {
        let mut identity = Vec::new();
        for part in [&files.certificate, &files.key].into_iter().flatten() {
            identity.extend_from_slice(secrets.get(&part.0)?.expose_secret().as_bytes());
            identity.push(b'\n');
        }
        let authorities = match &files.ca_file {
            Some(file) => Some(secrets.get(&SecretRef::file(file))?.expose_secret().as_bytes()),
            None => None,
        };
        let mut hasher = DefaultHasher::new();
        (&identity, &authorities).hash(&mut hasher);
        let content = hasher.finish();
        let clients = {
            let mut kept = self.0.lock();
            if kept.0 != content {
                *kept = (content, Arc::default());
            }
            Arc::clone(&kept.1)
        };
        clients.get(keep, || {
            let tls = tls::config(tls::Certificates { identity: &identity, authorities });
            Ok(network.client(keep, tls.map_err(|problem| format!("handler_config: {problem}"))?))
        })
    }
}
