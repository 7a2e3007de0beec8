//! Heads, trailers and interim responses without an end, over HTTP/1 and HTTP/2: limits of the client end the attempt, in bounded memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use solid_notify::{NoticeRecord, Status};
use test_support::raw::{Raw, read_request};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;

use crate::webhooks::certificates::{Authority, server_config};
use crate::webhooks::hostile::sent_in_bounded_memory;
use crate::webhooks::sender::{Sender, failure};
use crate::webhooks::tls::{config, frame, read_request_of_http_2};

/// The type, the flags and the content of a frame of HTTP/2.
type Frame = (u8, u8, Vec<u8>);

/// What the client takes of a receiver, with what the sockets between them may hold, generously.
const TAKEN: usize = 24 * 1024 * 1024;

/// Writes this again and again for as long as the other side reads, and counts the bytes.
async fn write_for_ever(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8], written: &AtomicUsize) {
    while !bytes.is_empty() && stream.write_all(bytes).await.is_ok() {
        written.fetch_add(bytes.len(), Ordering::Relaxed);
    }
}

/// Sends a notice to a receiver that answers over HTTP/1 with `first`, and then with `again` without an end. Returns how many bytes it could
/// write, too.
async fn over_http_1(first: &'static [u8], again: Vec<u8>) -> (NoticeRecord, usize) {
    let (sender, written) = (Sender::local().await, Arc::<AtomicUsize>::default());
    let counter = Arc::clone(&written);
    let receiver = Raw::serving(move |mut stream| {
        let (again, counter) = (again.clone(), Arc::clone(&counter));
        async move {
            read_request(&mut stream).await;
            let _ = stream.write_all(first).await;
            write_for_ever(&mut stream, &again, &counter).await;
        }
    })
    .await;
    let ended = sent_in_bounded_memory(&sender, json!({ "url": receiver.url() })).await;
    sender.close().await;
    (ended, written.load(Ordering::Relaxed))
}

/// The same over HTTP/2. The frames are of the stream of the request.
async fn over_http_2(first: Vec<Frame>, again: Frame) -> (NoticeRecord, usize) {
    let (sender, files, authority) = (Sender::local().await, tempfile::tempdir().unwrap(), Authority::new());
    let mut tls = server_config(&authority.issue("localhost"), None);
    tls.alpn_protocols = vec![b"h2".to_vec()];
    let (acceptor, written) = (TlsAcceptor::from(Arc::new(tls)), Arc::<AtomicUsize>::default());
    let counter = Arc::clone(&written);
    let receiver = Raw::serving(move |stream| {
        let (acceptor, counter) = (acceptor.clone(), Arc::clone(&counter));
        let (first, again) = (first.clone(), again.clone());
        async move {
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            let Ok(id) = read_request_of_http_2(&mut stream).await else { return };
            let of = |kind| if kind == PING { 0 } else { id };
            let whole = |(kind, flags, content): &Frame| frame(*kind, *flags, of(*kind), content);
            let _ = stream.write_all(&first.iter().flat_map(whole).collect::<Vec<_>>()).await;
            write_for_ever(&mut stream, &whole(&again), &counter).await;
        }
    })
    .await;
    let ended = sent_in_bounded_memory(&sender, config(receiver.address.port(), &files, &authority)).await;
    sender.close().await;
    (ended, written.load(Ordering::Relaxed))
}

/// Types and flags of frames.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// A header of HTTP/2 that is in no table, with a value of this length.
fn header(length: usize) -> Vec<u8> {
    assert!((127..16_000).contains(&length), "two bytes have the length");
    let rest = length - 127;
    let length_bytes = [0x7f, 0x80 | u8::try_from(rest % 128).unwrap(), u8::try_from(rest / 128).unwrap()];
    [&[0, 1, b'a'][..], &length_bytes, &vec![b'x'; length]].concat()
}

/// The status 200, number 8 of the table of headers.
const OK: u8 = 0x88;

#[tokio::test]
async fn head_without_an_end_fails_by_a_limit_over_http_1() {
    for again in [vec![b'x'; 16 * 1024], b"a: b\r\n".repeat(1000)] {
        let (ended, written) = over_http_1(b"HTTP/1.1 200 OK\r\nx-long: ", again).await;
        assert!(failure(&ended).0 == "network" && written < TAKEN, "{written} {ended:?}");
    }
}

#[tokio::test]
async fn trailers_without_an_end_are_cut_by_a_limit_over_http_1() {
    let first = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n";
    for again in [b"a: b\r\n".repeat(1000), vec![b'x'; 16 * 1024]] {
        let (ended, written) = over_http_1(first, again).await;
        assert!(ended.status == Status::Succeeded && written < TAKEN, "{written} {ended:?}");
    }
}

#[tokio::test]
async fn interim_responses_without_an_end_fail_by_a_limit_over_http_1() {
    let long = format!("HTTP/1.1 103 Early Hints\r\nlink: </{}>\r\n\r\n", "x".repeat(1000));
    for again in [&*long, "HTTP/1.1 100 \r\n\r\n"] {
        let (ended, written) = over_http_1(b"", again.repeat(1000).into_bytes()).await;
        assert!(failure(&ended).0 == "network" && written < TAKEN, "{written} {ended:?}");
    }
}

#[tokio::test]
async fn head_with_an_end_fails_by_the_limit_of_its_length_over_http_1() {
    for (length, expected) in [(48_000, Status::Succeeded), (80_000, Status::Failed)] {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: 0\r\nx-long: {}\r\n\r\n", "x".repeat(length));
        let (ended, _) = over_http_1(head.leak().as_bytes(), Vec::new()).await;
        assert_eq!(ended.status, expected, "{length} bytes: {ended:?}");
    }
}

#[tokio::test]
async fn head_without_an_end_fails_by_a_limit_over_http_2() {
    let first = vec![(HEADERS, 0, vec![OK])];
    let (ended, written) = over_http_2(first, (CONTINUATION, 0, header(8000))).await;
    assert!(failure(&ended).0 == "network" && written < TAKEN, "{written} {ended:?}");
}

#[tokio::test]
async fn head_with_an_end_fails_by_the_limit_of_its_length_over_http_2() {
    let long = |count: usize| {
        let mut frames = vec![(HEADERS, END_STREAM, vec![OK])];
        frames.extend((1..count).map(|_| (CONTINUATION, 0, header(8000))));
        frames.push((CONTINUATION, END_HEADERS, header(8000)));
        frames
    };
    // What the receiver writes after its response are frames of an unknown type, which say nothing.
    let nothing = (0xfa, 0, vec![0; 8]);
    let (ended, _) = over_http_2(long(6), nothing.clone()).await;
    assert_eq!(ended.status, Status::Succeeded, "48,000 bytes are within the limit: {ended:?}");
    let (ended, _) = over_http_2(long(10), nothing).await;
    assert_eq!(failure(&ended).0, "network", "80,000 bytes: {ended:?}");
}

#[tokio::test]
async fn trailers_without_an_end_are_cut_by_a_limit_over_http_2() {
    let first = vec![(HEADERS, END_HEADERS, vec![OK]), (DATA, 0, b"x".to_vec()), (HEADERS, END_STREAM, header(200))];
    let (ended, written) = over_http_2(first, (CONTINUATION, 0, header(8000))).await;
    assert!(ended.status == Status::Succeeded && written < TAKEN, "{written} {ended:?}");
}

#[tokio::test]
async fn interim_responses_without_an_end_fail_by_a_limit_over_http_2() {
    // The status 103, by its number in the table of names.
    let status = [&[0x08, 3][..], b"103"].concat();
    for head in [[status.clone(), header(8000)].concat(), status] {
        let (ended, written) = over_http_2(Vec::new(), (HEADERS, END_HEADERS, head)).await;
        assert!(failure(&ended).0 == "network" && written < TAKEN, "{written} {ended:?}");
    }
}

/// A receiver that asks for answers to frames which concern no request.
#[tokio::test]
async fn pings_without_an_end_fail_by_a_limit_over_http_2() {
    let (ended, written) = over_http_2(Vec::new(), (PING, 0, vec![0; 8])).await;
    assert!(failure(&ended).0 == "network" && written < TAKEN, "{written} {ended:?}");
}
