//! The mail server of the examples `payslip` and `approval`: one that is running, by `SMTP_URL`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use solid_notify::channels::Mailer;

/// How to reach the server, and where it delivers, if that is known.
pub struct MailServer {
    url: String,
    certificate: Option<Vec<u8>>,
    mails: Option<PathBuf>,
    recipient: Option<String>,
}

impl MailServer {
    /// Reads `SMTP_URL`, and `SMTP_CERTIFICATE`, `SMTP_MAILS` and `MAIL_TO` where they are set.
    pub fn from_environment() -> Result<Self> {
        let url = std::env::var("SMTP_URL").context(
            "SMTP_URL is not set: set it to the URL of a mail server, such as smtp://user:password@host:587?tls=required, and MAIL_TO \
             to your address; or `cargo xtask servers --only mail` starts a server and prints what to set",
        )?;
        let certificate = std::env::var_os("SMTP_CERTIFICATE").map(std::fs::read).transpose();
        let certificate = certificate.context("reading the file of SMTP_CERTIFICATE")?;
        let mails = std::env::var_os("SMTP_MAILS").map(PathBuf::from);
        Ok(Self { url, certificate, mails, recipient: std::env::var("MAIL_TO").ok() })
    }

    /// Returns what sends through the server in this name, unless `MAIL_TO` is set: a public server wants a sender of its own.
    pub fn mailer(&self, from: &str) -> Result<Mailer> {
        let mailer = Mailer::from_url(&self.url)?.from(self.recipient.as_deref().unwrap_or(from));
        Ok(match &self.certificate {
            Some(certificate) => mailer.root_certificate(certificate.clone()),
            None => mailer,
        }
        .build()?)
    }

    /// Returns `MAIL_TO`, or an address of this run at the private server.
    pub fn address(&self, name: &str) -> String {
        self.recipient.clone().unwrap_or_else(|| format!("{name}-{}@notify.test", std::process::id()))
    }

    /// Waits for the mail to an address of the private server, and returns it as it was delivered. `None`: the folder is not known.
    pub async fn delivered(&self, address: &str) -> Result<Option<String>> {
        let Some(folder) = &self.mails else { return Ok(None) };
        for _ in 0..600 {
            for file in std::fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
                let mail = String::from_utf8_lossy(&std::fs::read(file?.path())?).into_owned();
                if mail.contains(&format!("Envelope-to: {address}\n")) {
                    return Ok(Some(mail));
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        bail!("no mail to {address} in {}", folder.display())
    }
}
