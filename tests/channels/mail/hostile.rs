//! A mail server that sends without an end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use solid_notify::Status;
use solid_notify::channels::{Mail, Mailer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::configured::Configured;
use crate::webhooks::certificates::{Authority, server_config};

/// What the sockets of both sides may hold, generously.
const BUFFERS: usize = 16 * 1024 * 1024;

/// Answers as long as `fair` says, and then sends one line without an end. Counts what it could send.
async fn flood(stream: impl AsyncRead + AsyncWrite + Unpin, fair: usize, sent: &AtomicUsize) -> std::io::Result<()> {
    let (mut read, mut write) = tokio::io::split(stream);
    for answer in ["220 here\r\n", "250-here\r\n250 STARTTLS\r\n"].into_iter().take(fair) {
        write.write_all(answer.as_bytes()).await?;
        let _ = read.read(&mut [0; 1024]).await?;
    }
    write.write_all(b"250 ").await?;
    let chunk = vec![b'x'; 64 * 1024];
    loop {
        write.write_all(&chunk).await?;
        sent.fetch_add(chunk.len(), Ordering::Relaxed);
        assert!(sent.load(Ordering::Relaxed) < BUFFERS, "the client reads on and on");
    }
}

#[tokio::test]
async fn line_without_an_end_ends_the_attempt() {
    let authority = Authority::new();
    let acceptor = TlsAcceptor::from(Arc::new(server_config(&authority.issue("localhost"), None)));
    for (encrypted, fair) in [(false, 0), (false, 1), (false, 2), (true, 0), (true, 1)] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sent, acceptor) = (Arc::new(AtomicUsize::new(0)), acceptor.clone());
        let counter = Arc::clone(&sent);
        let server = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let ended = match encrypted {
                    true => flood(acceptor.accept(stream).await.unwrap(), fair, &counter).await,
                    false => flood(stream, fair, &counter).await,
                };
                assert!(ended.is_err());
            }
        });
        let mailer = if encrypted { Mailer::tls("localhost") } else { Mailer::plaintext("localhost") };
        let mailer = mailer.port(port).root_certificate(authority.pem()).timeout(Duration::from_secs(50));
        let mail = Mail::with(mailer.from("a@x.org").build().unwrap());
        let configured = Configured::with(mail, &json!({ "to": ["b@x.org"], "subject": "x", "text": "x" })).await;
        let failed = configured.send(&json!(1), Status::Failed).await;
        let message = &failed.errors.last().unwrap().message;
        assert_eq!(failed.last_class.as_deref(), Some("network"), "{message}");
        assert!(message.contains("more than 65536 bytes"), "{encrypted} {fair}: {message}");
        assert!(!server.is_finished());
        server.abort();
        configured.close().await;
    }
}
