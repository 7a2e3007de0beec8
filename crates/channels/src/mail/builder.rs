//! [`MailerBuilder`]: the settings of a [`Mailer`], by calls or by a URL.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use solid_notify_core::definition::SecretString;
use url::{Host, Url};

use super::message::one_line;
use super::settings::{Security, Settings};
use super::{Mailer, mailbox};
use crate::address::AllowedNetworks;
use crate::error::ChannelError;

/// Shorter than 30 s, the default `timeout` of a definition. So the error names the server that did not answer, and the
/// deliveries by other channels are stored.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Builds a mailer: [`Mailer::starttls`], [`Mailer::tls`], [`Mailer::plaintext`] or [`Mailer::from_url`].
#[derive(Clone)]
pub struct MailerBuilder {
    host: String,
    port: u16,
    networks: Option<AllowedNetworks>,
    security: Security,
    credentials: Option<Credentials>,
    password: Option<SecretString>,
    from: Option<String>,
    from_name: Option<String>,
    hello: Option<String>,
    root_certificates: Vec<Vec<u8>>,
    timeout: Duration,
}

impl Mailer {
    /// Uses a server that begins in plain text and switches to encryption (STARTTLS), on port 587. Sending fails if the
    /// server does not offer it.
    pub fn starttls(host: &str) -> MailerBuilder {
        MailerBuilder::new(host, Security::StartTls)
    }

    /// Uses a server that encrypts from the first byte, on port 465.
    pub fn tls(host: &str) -> MailerBuilder {
        MailerBuilder::new(host, Security::Implicit)
    }

    /// Uses a server in plain text, on port 25, for a relay on the same machine. Any host in between can read the mails,
    /// and the password if there is one.
    pub fn plaintext(host: &str) -> MailerBuilder {
        MailerBuilder::new(host, Security::Plaintext)
    }

    /// Uses a server by its URL: `smtps://user:password@host:465`, `smtp://user:password@host:587?tls=required`, or in plain text
    /// `smtp://host:25?tls=none`. User and password are percent-encoded. `hello=shop.example.org` is the name of [`MailerBuilder::hello`].
    ///
    /// # Errors
    /// Returns what is wrong with the URL, without repeating the password.
    pub fn from_url(url: &str) -> Result<MailerBuilder, ChannelError> {
        MailerBuilder::parse(url)
    }
}

impl MailerBuilder {
    fn new(host: &str, security: Security) -> Self {
        let port = match security {
            Security::StartTls => 587,
            Security::Implicit => 465,
            Security::Plaintext => 25,
        };
        Self {
            host: host.to_owned(),
            port,
            networks: None,
            security,
            credentials: None,
            password: None,
            from: None,
            from_name: None,
            hello: None,
            root_certificates: Vec::new(),
            timeout: TIMEOUT,
        }
    }

    fn parse(url: &str) -> Result<Self, ChannelError> {
        // The URL holds a password, so no message repeats more of it than its scheme and its option.
        let parsed =
            Url::parse(url).map_err(|error| ChannelError::setup_failed("the URL of the mail server", error))?;
        let host = match parsed.host() {
            Some(Host::Domain(name)) => name.to_owned(),
            Some(Host::Ipv4(address)) => address.to_string(),
            Some(Host::Ipv6(address)) => address.to_string(),
            None => return Err(ChannelError::setup("the URL of the mail server names no host")),
        };
        let option =
            |wanted| parsed.query_pairs().find(|(name, _)| name == wanted).map(|(_, value)| value.into_owned());
        let (tls, hello) = (option("tls"), option("hello"));
        let security = match (parsed.scheme(), tls.as_deref()) {
            ("smtps", None) => Security::Implicit,
            // Without an option encryption is required: "encrypt if the server offers it" would not be secure.
            ("smtp", None | Some("required")) => Security::StartTls,
            ("smtp", Some("none")) => Security::Plaintext,
            _ => {
                let forms = "smtps://…, smtp://…?tls=required or smtp://…?tls=none";
                return Err(ChannelError::setup(format!("the URL of the mail server has none of the forms {forms}")));
            }
        };
        let mut builder = Self::new(&host, security);
        builder.hello = hello;
        if let Some(port) = parsed.port() {
            builder.port = port;
        }
        let decoded = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8().map(String::from);
        let unreadable = |error| ChannelError::setup_failed("the account in the URL of the mail server", error);
        if let Some(password) = parsed.password() {
            let user = decoded(parsed.username()).map_err(unreadable)?;
            builder = builder.credentials(user, decoded(password).map_err(unreadable)?);
        } else if !parsed.username().is_empty() {
            return Err(ChannelError::setup("the URL of the mail server has an account without a password"));
        }
        Ok(builder)
    }

    /// Sets the port, if it is not the usual one (587, 465 and 25).
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Sets the account on the server.
    pub fn credentials(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        let password = password.into();
        self.credentials = Some(Credentials::new(user.into(), password.clone()));
        self.password = Some(password.into());
        self
    }

    /// Sets the sender: `alerts@example.com`, or `Alerts <alerts@example.com>`. It is required.
    pub fn from(mut self, address: impl Into<String>) -> Self {
        self.from = Some(address.into());
        self
    }

    /// Sets the sender's name, in any script.
    pub fn from_name(mut self, name: impl Into<String>) -> Self {
        self.from_name = Some(name.into());
        self
    }

    /// Sets the name with which the mailer says hello (EHLO): the full name of this host, or its address as `[192.0.2.1]`. The default is
    /// the name that the host has for itself, which some servers refuse.
    pub fn hello(mut self, name: impl Into<String>) -> Self {
        self.hello = Some(name.into());
        self
    }

    /// Trusts this certificate as well, in PEM, for instance that of a company's own authority. The operating system's
    /// certificates are trusted in any case.
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.root_certificates.push(pem.into());
        self
    }

    /// Sets how long the whole conversation with the server may take: 20 s by default. Keep it below the `timeout` of the
    /// definition `notify.alert`.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Connects to public addresses and these networks only, because a row names the server.
    pub(super) fn limited_to(mut self, networks: AllowedNetworks) -> Self {
        self.networks = Some(networks);
        self
    }

    /// Builds the mailer. It does not connect to the server; [`Mailer::check`] does.
    ///
    /// # Errors
    /// Returns which setting is missing or invalid.
    pub fn build(self) -> Result<Mailer, ChannelError> {
        let from = self
            .from
            .ok_or_else(|| ChannelError::setup("the mailer has no sender address: set one with `.from(..)`"))?;
        let mut from = mailbox(&from, "the sender of the mailer").map_err(|error| {
            ChannelError::setup_failed(format!("cannot read the sender `{from}` as a mail address"), error)
        })?;
        from.name = self.from_name.or(from.name).map(|name| one_line(&name));
        let hello = self.hello.as_deref().map_or_else(|| Ok(ClientId::default()), client_id)?;
        let tls = match self.security {
            Security::Plaintext => None,
            Security::StartTls | Security::Implicit => {
                let mut tls = TlsParameters::builder(self.host.clone());
                for pem in &self.root_certificates {
                    let certificate = Certificate::from_pem(pem)
                        .map_err(|error| ChannelError::setup_failed("the mailer's root certificate", error))?;
                    tls = tls.add_root_certificate(certificate);
                }
                let tls = tls.build().map_err(|error| ChannelError::setup_failed("the mailer's encryption", error))?;
                Some(tls)
            }
        };
        let settings = Settings {
            host: self.host,
            port: self.port,
            networks: self.networks,
            security: self.security,
            tls,
            credentials: self.credentials,
            password: self.password,
            from,
            hello,
            timeout: self.timeout,
        };
        Ok(Mailer { settings: Arc::new(settings) })
    }
}

/// Reads the name for EHLO. What it must not contain would end the command.
fn client_id(name: &str) -> Result<ClientId, ChannelError> {
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let address = address.and_then(|address| address.trim_start_matches("IPv6:").parse().ok());
    match address {
        Some(IpAddr::V4(address)) => return Ok(ClientId::Ipv4(address)),
        Some(IpAddr::V6(address)) => return Ok(ClientId::Ipv6(address)),
        None => {}
    }
    let is_host =
        |label: &str| !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if name.len() > 255 || !name.split('.').all(is_host) {
        let right = "write the full name of the host such as \"shop.example.org\", or its address as \"[192.0.2.1]\"";
        return Err(ChannelError::setup(format!("the name {name:?} of the mailer's `hello` is no host name: {right}")));
    }
    Ok(ClientId::Domain(name.to_owned()))
}

impl fmt::Debug for MailerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MailerBuilder")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("security", &self.security)
            .field("from", &self.from)
            .field("from_name", &self.from_name)
            .field("hello", &self.hello)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message_of(url: &str) -> String {
        let error = MailerBuilder::parse(url).map(|_| ()).unwrap_err();
        let mut text = error.to_string();
        if let Some(source) = std::error::Error::source(&error) {
            text.push_str(&format!(": {source}"));
        }
        text
    }

    #[test]
    fn a_url_says_host_port_security_and_account() {
        let cases = [
            ("smtps://mail.example", 465, Security::Implicit, false),
            ("smtps://user:p%40ss@mail.example:4650", 4650, Security::Implicit, true),
            ("smtp://mail.example?tls=required", 587, Security::StartTls, false),
            ("smtp://user:pass@mail.example:2525/?tls=required", 2525, Security::StartTls, true),
            ("smtp://mail.example?tls=none", 25, Security::Plaintext, false),
        ];
        for (url, port, security, account) in cases {
            let builder = MailerBuilder::parse(url).unwrap();
            assert_eq!(
                (builder.host.as_str(), builder.port, builder.security),
                ("mail.example", port, security),
                "{url}"
            );
            assert_eq!(builder.credentials.is_some(), account, "{url}");
        }
        let decoded = MailerBuilder::parse("smtps://user:p%40ss@mail.example").unwrap();
        assert_eq!(decoded.credentials, Some(Credentials::new("user".to_owned(), "p@ss".to_owned())));
    }

    #[test]
    fn a_url_that_says_nothing_of_encryption_requires_it() {
        assert_eq!(MailerBuilder::parse("smtp://mail.example").unwrap().security, Security::StartTls);
    }

    #[test]
    fn a_url_that_cannot_be_meant_is_refused_without_repeating_its_password() {
        for url in [
            "smtp://user:hunter2@mail.example?tls=opportunistic",
            "http://user:hunter2@mail.example",
            "hunter2@mail.example",
            "smtp://user:hunter2@mail.example:notaport",
            "user:hunter2@mail.example",
        ] {
            assert!(!message_of(url).contains("hunter2"), "{url}: {}", message_of(url));
        }
        assert!(message_of("smtp://user@mail.example").contains("without a password"));
    }

    #[test]
    fn name_in_hello_is_a_host_or_an_address() {
        let hello = |url: &str| {
            let built = MailerBuilder::parse(url).unwrap().from("a@example.com").build();
            built.map(|mailer| mailer.settings.hello.to_string()).map_err(|error| error.to_string())
        };
        assert_eq!(hello("smtp://mail.example?hello=shop.example.org").as_deref(), Ok("shop.example.org"));
        assert_eq!(hello("smtp://mail.example?tls=none&hello=[192.0.2.1]").as_deref(), Ok("[192.0.2.1]"));
        assert_eq!(hello("smtps://user:p@mail.example?hello=[IPv6:::1]").as_deref(), Ok("[IPv6:::1]"));
        for wrong in ["", "a%0D%0AMAIL", "a%20b", "a..b", "[x]"] {
            let error = hello(&format!("smtp://mail.example?hello={wrong}")).unwrap_err();
            assert!(error.contains("`hello` is no host name"), "{error}");
        }
    }

    #[test]
    fn a_mailer_shows_no_password() {
        let builder = Mailer::starttls("mail.example").credentials("user", "hunter2").from("a@example.com");
        assert!(!format!("{builder:?}").contains("hunter2"));
        assert!(!format!("{:?}", builder.build().unwrap()).contains("hunter2"));
    }

    #[test]
    fn mailer_without_a_sender_is_refused() {
        let missing = Mailer::tls("mail.example").build().map(|_| ()).unwrap_err();
        assert!(missing.to_string().contains(".from("), "{missing}");
        let wrong = Mailer::tls("mail.example").from("no-address").build().map(|_| ()).unwrap_err();
        assert!(wrong.to_string().contains("`no-address`"), "{wrong}");
    }
}
