//! The channel `mail` while a mail server restarts and hangs. It has a server of its own.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use solid_notify::NotifyDef;
use solid_notify::channels::{Mail, Mailer};
use test_servers::servers::{Ending, Server, exim};
use tokio::task::spawn_blocking;

use crate::brokers::{Sending, signal};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn private_exim_that_restarts_and_hangs_loses_no_mail() {
    let mut server = spawn_blocking(exim::start).await.unwrap().unwrap();
    let sending = Sending::start(Mail::with(mailer(&server)), "no URL").await;
    let config = json!({ "to": ["a@notify.test"], "subject": "order <{{ param }}>", "text": "Hello" });
    let definition = NotifyDef::new("order").handler("mail").handler_config(config.to_string());
    let definition = definition.retry_interval("200ms").max_retry_times(1000).timeout("5s");
    sending.outbox.define_if_missing(definition).await.unwrap();
    sending.sweeper.idle().await;
    for disturbance in 0..2 {
        let mut ids = sending.add_numbered("order", disturbance * 100, 60).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        if disturbance == 0 {
            server = spawn_blocking(move || {
                server.restart(Ending::Kill).unwrap();
                server
            })
            .await
            .unwrap();
        } else {
            signal(&server, "STOP");
            ids.extend(sending.add_numbered("order", 200, 20).await);
            // Longer than a time-out.
            tokio::time::sleep(Duration::from_secs(6)).await;
            signal(&server, "CONT");
        }
        sending.all_succeed(&ids).await;
    }
    let mut subjects = BTreeSet::new();
    // What is delivered, and what the server has taken and still has to deliver.
    for folder in ["mails/new", "spool/input"] {
        collect(&server.directory().join(folder), &mut subjects);
    }
    let expected = (0..60).chain(100..160).chain(200..220).map(|number| format!("order <{number}>"));
    assert_eq!(subjects, expected.collect(), "each notice arrived");
    sending.sweeper.shutdown().await;
}

fn mailer(server: &Server) -> Mailer {
    let certificate = exim::variables(server).into_iter().find(|(name, _)| *name == "SMTP_CERTIFICATE").unwrap().1;
    let builder = Mailer::from_url(server.url()).unwrap().root_certificate(std::fs::read(certificate).unwrap());
    builder.from("shop@notify.test").build().unwrap()
}

/// Adds the subjects of the mails in a folder and below.
fn collect(folder: &Path, subjects: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => collect(&entry.path(), subjects),
            false => {
                let text = String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap_or_default()).into_owned();
                let subject = text.lines().find_map(|line| line.split_once("Subject: "));
                subjects.extend(subject.map(|(_, subject)| subject.to_owned()));
            }
        }
    }
}
