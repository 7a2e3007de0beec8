//! Servers that are slow, silent or absent: a mailer's own time-out, and errors that name the server.

use std::io::{BufRead, BufReader, Write};
use std::time::Duration;

use solid_notify::Status;
use solid_notify::channels::{AlertChannels, Mailer, Slack};

use crate::desk::{Desk, alert, error, known_types};
use crate::receiver::Receiver;

#[tokio::test]
async fn a_silent_mail_server_is_given_up_and_what_the_chat_took_is_remembered() {
    // It accepts connections and never sends a byte.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let mailer = Mailer::plaintext("127.0.0.1").port(port).from("a@example.com").timeout(Duration::from_millis(300));
    let receiver = Receiver::accepting("ok").await;
    let alerts = AlertChannels::builder()
        .mail(mailer.build().unwrap())
        .chat("ops", Slack::new(receiver.url("/ops")))
        .build()
        .unwrap();
    let desk = Desk::with(alerts).await;
    let failed = desk.send(&alert("sync", &["ops@example.com"], &["ops"]), Status::Failed).await;
    // The default would be twenty seconds.
    let told = format!(
        "the mail to ops@example.com was not handed over to the mail server 127.0.0.1:{port}: it took longer than 300ms"
    );
    assert_eq!(error(&failed), told);
    assert_eq!(desk.causes.all(), [["io"]]);
    assert_eq!(failed.description.as_deref(), Some("delivered to: ops"));
    desk.close().await;
}

#[tokio::test]
async fn a_mail_server_that_is_not_there_is_named_with_the_cause() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mailer = Mailer::starttls("127.0.0.1").port(free.port()).from("a@example.com").build().unwrap();
    let error = mailer.check().await.unwrap_err();
    assert!(error.to_string().contains(&free.to_string()), "{error}");
    assert_eq!(known_types(&error), ["io"]);
}

#[tokio::test]
async fn mail_server_that_ignores_quit_delays_no_alert() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut answers = stream.try_clone().unwrap();
        answers.write_all(b"220 here\r\n").unwrap();
        let mut in_mail = false;
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let answer = match line.as_str() {
                "DATA" => "354 go on",
                "." => "250 taken",
                "QUIT" => continue,
                _ if in_mail => continue,
                _ => "250 fine",
            };
            in_mail = answer.starts_with("354") || (in_mail && line != ".");
            answers.write_all(format!("{answer}\r\n").as_bytes()).unwrap();
        }
    });
    let mailer = Mailer::plaintext("127.0.0.1").port(port).from("a@example.com").timeout(Duration::from_secs(600));
    let desk = Desk::with(AlertChannels::builder().mail(mailer.build().unwrap()).build().unwrap()).await;
    let done = desk.send(&alert("sync", &["ops@example.com"], &[]), Status::Succeeded).await;
    assert_eq!(done.description.as_deref(), Some("delivered to: ops@example.com"));
    desk.close().await;
    server.join().unwrap();
}
