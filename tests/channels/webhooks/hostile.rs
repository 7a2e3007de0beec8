//! Receivers that misbehave: each attempt ends within its time-out, with the class of what happened, in bounded memory.

use std::time::Duration;

use serde_json::{Value, json};
use solid_notify::{NoticeRecord, NotifyDef, Status};
use test_support::raw::{Raw, read_request, write_for_ever};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::webhooks::sender::{Sender, failure, response, secret};

/// What a hostile receiver may take of this process at most, in bytes: far less than what it sends.
const BOUND: u64 = 64 * 1024 * 1024;

/// The memory of this process in bytes.
fn memory() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Sends one notice with this configuration. The memory also grows by what other tests of this process take meanwhile, so one of some
/// attempts must stay within the bound.
pub async fn sent_in_bounded_memory(sender: &Sender, config: Value) -> NoticeRecord {
    let mut grown = Vec::new();
    while grown.len() < 10 {
        let before = memory();
        let ended = sender.send(config.clone(), &json!(1)).await;
        grown.push(memory().saturating_sub(before));
        if grown.last().is_some_and(|grown| *grown < BOUND) {
            return ended;
        }
    }
    panic!("the memory grew by {grown:?} bytes");
}

/// Sends one notice to a receiver that serves its connections so.
async fn sent<F: Future<Output = ()> + Send + 'static>(
    serve: impl Fn(TcpStream) -> F + Send + 'static,
) -> NoticeRecord {
    sent_within("50s", serve).await
}

/// The same with this time-out.
async fn sent_within<F: Future<Output = ()> + Send + 'static>(
    timeout: &str,
    serve: impl Fn(TcpStream) -> F + Send + 'static,
) -> NoticeRecord {
    let (sender, receiver) = (Sender::local().await, Raw::serving(serve).await);
    let ended = sent_in_bounded_memory(&sender, json!({ "url": receiver.url(), "timeout": timeout })).await;
    sender.close().await;
    ended
}

/// Answers with these bytes and closes the connection.
async fn answered(bytes: &'static [u8]) -> NoticeRecord {
    sent(move |mut stream| async move {
        read_request(&mut stream).await;
        let _ = stream.write_all(bytes).await;
    })
    .await
}

#[tokio::test]
async fn silent_receiver_ends_by_the_timeout() {
    let ended = sent_within("1s", |stream| async move {
        std::future::pending::<()>().await;
        drop(stream);
    })
    .await;
    let (class, message) = failure(&ended);
    assert!(class == "timeout" && message.contains("`timeout` of `handler_config`, 1s"), "{class} {message}");
}

#[tokio::test]
async fn slow_headers_end_by_the_timeout() {
    let ended = sent_within("1s", |mut stream| async move {
        read_request(&mut stream).await;
        for byte in b"HTTP/1.1 200 OK\r\nx-slow: 1111111111111111111111111111111111111111".iter().cycle() {
            if stream.write_all(&[*byte]).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    assert_eq!(failure(&ended).0, "timeout");
}

/// Answers with a status, and then with a byte each half second.
async fn drip(mut stream: TcpStream, status: &str) {
    read_request(&mut stream).await;
    let _ = stream.write_all(format!("HTTP/1.1 {status}\r\ncontent-length: 100000\r\n\r\n").as_bytes()).await;
    while stream.write_all(b"x").await.is_ok() {
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

#[tokio::test]
async fn status_counts_where_the_body_is_slower_than_the_timeout() {
    for (status, expected) in [("200 OK", Status::Succeeded), ("422 No", Status::DeadLetter)] {
        let ended = sent_within("3s", move |stream| drip(stream, status)).await;
        let (kept, body) = response(&ended);
        assert_eq!((ended.status, kept), (expected, &status[..3]), "{ended:?}");
        assert!(body.is_some_and(|body| body.starts_with('x')), "{ended:?}");
    }
}

#[tokio::test]
async fn status_counts_where_the_timeout_of_the_row_is_the_shorter_one() {
    let (sender, receiver) = (Sender::local().await, Raw::serving(|stream| drip(stream, "200 OK")).await);
    sender.define_as(NotifyDef::new("hook").timeout("2s"), &json!({ "url": receiver.url(), "timeout": "50s" })).await;
    let ended = sender.attempt("hook", &json!(1)).await;
    assert_eq!((ended.status, response(&ended).0), (Status::Succeeded, "200"), "{ended:?}");
    sender.close().await;
}

#[tokio::test]
async fn slow_answer_of_a_token_endpoint_ends_by_the_timeout() {
    for head in ["HTTP/1.1 200 OK\r\nx-slow: ", "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n"] {
        let (sender, files) = (Sender::local().await, tempfile::tempdir().unwrap());
        let tokens = Raw::serving(move |mut stream| async move {
            read_request(&mut stream).await;
            let _ = stream.write_all(head.as_bytes()).await;
            while stream.write_all(b" ").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await;
        let secret = secret(&files, "client", "s3cret");
        let client = json!({ "token_url": tokens.url(), "client_id": "shop", "client_secret": secret });
        // The receiver is never reached.
        let config = json!({ "url": "http://127.0.0.1:1/", "auth": { "oauth2": client }, "timeout": "1s" });
        let ended = sender.send(config, &json!(1)).await;
        assert_eq!(failure(&ended).0, "timeout", "{ended:?}");
        sender.close().await;
    }
}

#[tokio::test]
async fn endless_body_is_cut_and_the_status_counts() {
    for (status, expected) in [("200 OK", Status::Succeeded), ("500 No", Status::Failed)] {
        let ended = sent(move |mut stream| async move {
            read_request(&mut stream).await;
            let _ = stream.write_all(format!("HTTP/1.1 {status}\r\n\r\n").as_bytes()).await;
            write_for_ever(&mut stream, &[b'x'; 64 * 1024]).await;
        })
        .await;
        let (kept, body) = response(&ended);
        assert_eq!((ended.status, kept), (expected, &status[..3]));
        assert!(body.unwrap().starts_with("xxx") && body.unwrap().len() <= 1024);
    }
}

#[tokio::test]
async fn broken_responses_are_of_the_class_network() {
    let cases: [(&str, &'static [u8]); 6] = [
        ("nothing", b""),
        ("half a header", b"HTTP/1.1 200 OK\r\ncontent-le"),
        ("a length that is none", b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n"),
        ("two lengths", b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nx"),
        ("another protocol", b"SSH-2.0-OpenSSH_9.2p1\r\n"),
        ("garbage", &[0xff; 2000]),
    ];
    for (what, bytes) in cases {
        let ended = answered(bytes).await;
        let (class, message) = failure(&ended);
        assert_eq!(class, "network", "{what}: {message}");
        assert!(message.starts_with("the receiver did not answer"), "{what}: {message}");
    }
}

#[tokio::test]
async fn status_counts_where_the_body_breaks_off() {
    let cases: [(&[u8], &str); 3] = [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort", "short"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffffffff\r\nx", ""),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab", "ab"),
    ];
    for (bytes, kept) in cases {
        let ended = answered(bytes).await;
        assert_eq!(ended.status, Status::Succeeded, "{ended:?}");
        assert_eq!((response(&ended).0, response(&ended).1.unwrap_or_default()), ("200", kept));
    }
}

#[tokio::test]
async fn reset_before_the_status_is_of_the_class_network() {
    let ended = sent(|mut stream| async move {
        read_request(&mut stream).await;
        // Closing with unread input resets the connection; so does this.
        let _ = stream.set_zero_linger();
    })
    .await;
    assert_eq!(failure(&ended).0, "network", "{ended:?}");
}

#[tokio::test]
async fn refused_connection_is_of_the_class_network() {
    let sender = Sender::local().await;
    // A port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let failed = sender.send(json!({ "url": format!("http://{free}/path?key=in-the-url") }), &json!(1)).await;
    let (class, message) = failure(&failed);
    assert!(class == "network" && !message.contains("in-the-url"), "{class} {message}");
    sender.close().await;
}

#[tokio::test]
async fn unknown_host_is_of_the_class_network() {
    let sender = Sender::local().await;
    let failed = sender.send(json!({ "url": "http://no-such-host.invalid/" , "timeout": "50s" }), &json!(1)).await;
    assert_eq!(failure(&failed).0, "network", "{failed:?}");
    sender.close().await;
}

#[tokio::test]
async fn header_of_a_megabyte_and_a_million_headers_are_refused() {
    for flood in [vec![b'x'; 1024 * 1024], b"a: b\r\n".repeat(200_000)] {
        let ended = sent(move |mut stream| {
            let flood = flood.clone();
            async move {
                read_request(&mut stream).await;
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nx-long: ").await;
                write_for_ever(&mut stream, &flood).await;
            }
        })
        .await;
        assert_eq!(failure(&ended).0, "network", "{ended:?}");
    }
}

/// A real bomb: 500 kB of gzip that become 80 MB of zeros. By hand, because each symbol of it is the same: a block of fixed codes, a zero, and
/// 310,000 times "repeat the last byte 258 times".
fn bomb() -> Vec<u8> {
    let mut bits = vec![true, true, false];
    // A literal zero; the codes begin with their highest bit.
    bits.extend([false, false, true, true, false, false, false, false]);
    for _ in 0..310_000 {
        bits.extend([true, true, false, false, false, true, false, true, false, false, false, false, false]);
    }
    // The end of the block.
    bits.extend([false; 7]);
    let byte = |bits: &[bool]| bits.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit));
    let head = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    head.into_iter().chain(bits.chunks(8).map(byte)).collect()
}

#[tokio::test]
async fn compressed_bomb_is_not_unpacked() {
    let bomb = bomb();
    let (sender, receiver) = (
        Sender::local().await,
        Raw::serving(move |mut stream| {
            let bomb = bomb.clone();
            async move {
                read_request(&mut stream).await;
                let head =
                    format!("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n", bomb.len());
                let _ = stream.write_all(head.as_bytes()).await;
                let _ = stream.write_all(&bomb).await;
            }
        })
        .await,
    );
    // A client that unpacks gets the zeros, so the bomb is one.
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut unpacked = client.get(receiver.url()).send().await.unwrap();
    let chunk = unpacked.chunk().await.unwrap().unwrap();
    assert!(chunk.len() > 100 && chunk.iter().all(|byte| *byte == 0), "{chunk:?}");
    drop(unpacked);
    let config = json!({ "url": receiver.url(), "max_response_bytes": 1024 * 1024 });
    let ended = sent_in_bounded_memory(&sender, config).await;
    assert_eq!(ended.status, Status::Succeeded, "{ended:?}");
    assert!(response(&ended).1.unwrap().starts_with('\u{FFFD}') || response(&ended).1.unwrap().contains("\u{FFFD}"));
    sender.close().await;
}

#[tokio::test]
async fn early_answer_to_a_long_request_counts() {
    let (sender, receiver) = (
        Sender::local().await,
        Raw::serving(|mut stream| async move {
            // It answers without reading the whole request, and leaves the connection open.
            let _ = stream.write_all(b"HTTP/1.1 413 Too Long\r\ncontent-length: 0\r\n\r\n").await;
            std::future::pending::<()>().await;
        })
        .await,
    );
    let failed = sender.send(json!({ "url": receiver.url() }), &json!("x".repeat(900_000))).await;
    assert!(["invalid", "network", "timeout"].contains(&failure(&failed).0), "{failed:?}");
    sender.close().await;
}
