//! A payslip by mail, with its file as an attachment, through a real mail server.
//!
//! ```text
//! SMTP_URL=smtp://notify:not-a-secret@127.0.0.1:2525?tls=required cargo run --example payslip --features payslip
//! ```
//!
//! `cargo xtask servers --only mail` starts a private mail server and prints its URL, the file with its certificate (`SMTP_CERTIFICATE`) and
//! the folder with the delivered mails (`SMTP_MAILS`). With these the example reads the mail as it was delivered.
//!
//! The program contains no code for mails: the row names the sender, the texts and the attachment. The file of the second employee is not
//! there yet, so that notice becomes a dead letter, and an operator retries it when the file has come.

#[path = "mail_server/mod.rs"]
mod mail_server;

use anyhow::{Context, Result, ensure};
use mail_server::MailServer;
use serde_json::json;
use solid_notify::channels::{ChannelExt, Mail};
use solid_notify::testkit::TestSweeper;
use solid_notify::{NotifyDef, Outbox, OutboxExt, Status, add_notice};
use sqlx::sqlite::SqlitePoolOptions;

const PDF: &[u8] = b"%PDF-1.4\n% payslip 2026-11 of 4711\n%%EOF\n";
/// The same in Base64, as it stands in the mail.
const PDF_IN_MAIL: &str = "JVBERi0xLjQKJSBwYXlzbGlwIDIwMjYtMTEgb2YgNDcxMQolJUVPRgo=";

#[tokio::main]
async fn main() -> Result<()> {
    let server = MailServer::from_environment()?;
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("4711.pdf"), PDF)?;

    let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    let outbox = Outbox::new(pool.clone());
    outbox.migrate().await?;
    let config = json!({
        "to": ["{{ param.name }} <{{ param.email }}>"],
        "subject": "Your payslip of {{ param.month }}",
        "text": "Dear {{ param.name }}, your payslip is attached.",
        "attachments": [{
            "name": "payslip-{{ param.month }}.pdf",
            "content_type": "application/pdf",
            "file": "{{ param.file }}",
        }],
    });
    let definition = NotifyDef::new("payslip").handler("mail").handler_config(config.to_string());
    outbox.define_if_missing(definition).await?;
    // Files of attachments are below this folder.
    let mail = Mail::with(server.mailer("payroll@notify.test")?).attachments_from(folder.path());
    let sweeper = TestSweeper::start(outbox.sweeper().channel(mail)).await?;

    let (jane, john) = (server.address("jane"), server.address("john"));
    let mut tx = outbox.begin().await?;
    let of =
        |name: &str, email: &str, file: &str| json!({ "name": name, "email": email, "month": "2026-11", "file": file });
    let first = add_notice(&mut tx, "payslip", of("Jane", &jane, "4711.pdf")).await?.id();
    let second = add_notice(&mut tx, "payslip", of("John", &john, "4712.pdf")).await?.id();
    tx.commit().await?;
    sweeper.drain().await;

    let sent = outbox.find(first).await?.context("the notice of Jane")?;
    ensure!(sent.status == Status::Succeeded, "{sent:?}");
    println!("Jane: her payslip was accepted by the mail server");
    let missing = outbox.find(second).await?.context("the notice of John")?;
    ensure!(missing.status == Status::DeadLetter && missing.last_class.as_deref() == Some("not_found"), "{missing:?}");
    println!("John: a dead letter, because his file does not exist");

    std::fs::write(folder.path().join("4712.pdf"), PDF)?;
    ensure!(outbox.operator("alice").retry(second).await?.is_applied());
    sweeper.drain().await;
    let sent = outbox.find(second).await?.context("the notice of John")?;
    ensure!(sent.status == Status::Succeeded, "{sent:?}");
    println!("John: his payslip was accepted after alice retried it");
    for address in [&jane, &john] {
        if let Some(mail) = server.delivered(address).await? {
            ensure!(mail.contains("Subject: Your payslip of 2026-11"), "{mail}");
            ensure!(mail.contains("payslip-2026-11.pdf") && mail.contains(PDF_IN_MAIL), "{mail}");
        }
    }
    sweeper.shutdown().await;
    Ok(())
}
