//! Tests each source of errors by its type, also nested inside other errors, and the order of precedence.

use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use solid_notify_core::ErrorClass::{
    self, Auth, Busy, Deadlock, Invalid, Network, NotFound, Timeout, Unavailable, Unknown,
};
use solid_notify_core::StoreError;
use solid_notify_core::error::{BoxError, FaultKind};

use super::{Classifier, HttpStatus};
use crate::Failure;

/// An error of an application, with a cause.
#[derive(Debug)]
struct Outer(BoxError);

impl fmt::Display for Outer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sending failed")
    }
}

impl StdError for Outer {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.0)
    }
}

fn class(failure: impl Into<Failure>) -> ErrorClass {
    Classifier::default().class_of(&**failure.into().error())
}

/// Checks the class of an error by itself, inside an application's error, inside an `io::Error`, and inside anyhow.
fn everywhere<E: StdError + Send + Sync + 'static>(make: impl Fn() -> E, expected: ErrorClass) {
    let text = make().to_string();
    assert_eq!(class(make()), expected, "{text}");
    assert_eq!(class(Outer(Box::new(Outer(make().into())))), expected, "{text}, as a cause");
    assert_eq!(class(Outer(Box::new(io::Error::other(make())))), expected, "{text}, in an io::Error");
    #[cfg(feature = "anyhow")]
    {
        assert_eq!(class(anyhow::Error::new(make())), expected, "{text}, in anyhow");
        assert_eq!(class(anyhow::Error::new(make()).context("sending")), expected, "{text}, in anyhow with a context");
    }
}

#[test]
fn io_error_is_classed_by_its_kind() {
    use io::ErrorKind as Kind;
    for (kind, class) in [
        (Kind::ConnectionRefused, Network),
        (Kind::ConnectionReset, Network),
        (Kind::BrokenPipe, Network),
        (Kind::UnexpectedEof, Network),
        (Kind::TimedOut, Timeout),
        (Kind::ResourceBusy, Busy),
        (Kind::Deadlock, Deadlock),
        (Kind::StorageFull, Unavailable),
        (Kind::InvalidInput, Invalid),
        (Kind::PermissionDenied, Auth),
        (Kind::NotFound, NotFound),
        (Kind::InvalidData, Unknown),
        (Kind::Other, Unknown),
    ] {
        everywhere(|| io::Error::from(kind), class);
    }
}

#[tokio::test]
async fn time_out_of_tokio_has_the_class_timeout() {
    let elapsed = async || tokio::time::timeout(Duration::ZERO, std::future::pending::<()>()).await.unwrap_err();
    assert_eq!(class(elapsed().await), Timeout);
    assert_eq!(class(Outer(elapsed().await.into())), Timeout);
}

#[test]
fn json_that_does_not_fit_is_invalid() {
    everywhere(|| serde_json::from_str::<u8>("300").unwrap_err(), Invalid);
    struct Broken;
    impl io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::ConnectionReset.into())
        }
    }
    everywhere(|| serde_json::from_reader::<_, u8>(Broken).unwrap_err(), Network);
}

#[test]
fn status_of_a_response_decides_its_class() {
    for (status, class) in [
        (200, Unknown),
        (400, Invalid),
        (401, Auth),
        (403, Auth),
        (404, NotFound),
        (408, Timeout),
        (409, Unknown),
        (410, NotFound),
        (413, Invalid),
        (422, Invalid),
        (429, Busy),
        (500, Unavailable),
        (502, Unavailable),
        (503, Unavailable),
        (504, Timeout),
        (507, Unavailable),
    ] {
        everywhere(|| HttpStatus(status), class);
    }
}

#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
#[test]
fn database_error_is_classed_by_what_happened() {
    everywhere(|| sqlx::Error::PoolTimedOut, Unavailable);
    everywhere(|| sqlx::Error::PoolClosed, Unavailable);
    everywhere(|| sqlx::Error::RowNotFound, NotFound);
    everywhere(|| sqlx::Error::Io(io::ErrorKind::ConnectionReset.into()), Network);
    everywhere(|| sqlx::Error::Io(io::ErrorKind::TimedOut.into()), Timeout);
    everywhere(|| sqlx::Error::Protocol("?".to_owned()), Network);
    everywhere(|| sqlx::Error::Configuration("?".into()), Unknown);
}

#[test]
fn errors_of_this_library_have_classes() {
    let store = |kind| StoreError::new("adding a notice", kind, "?");
    everywhere(|| store(FaultKind::Outage), Unavailable);
    everywhere(|| store(FaultKind::Conflict), Deadlock);
    everywhere(|| store(FaultKind::Permanent), Invalid);
    everywhere(|| store(FaultKind::Unusable), Unknown);
    everywhere(|| solid_notify_core::Error::Store(store(FaultKind::Conflict)), Deadlock);
}

#[cfg(feature = "lapin")]
#[test]
fn an_amqp_broker() {
    use lapin::protocol::{AMQPError, AMQPErrorKind};
    let refused = |code| {
        let kind = AMQPErrorKind::from_id(code).unwrap();
        lapin::Error::from(lapin::ErrorKind::ProtocolError(AMQPError::new(kind, "?".into())))
    };
    for (code, class) in [
        (403, Auth),
        (530, Auth),
        (404, NotFound),
        (312, NotFound),
        (320, Unavailable),
        (405, Busy),
        (406, Invalid),
        (501, Unknown),
    ] {
        everywhere(|| refused(code), class);
    }
    let io = |kind: io::ErrorKind| lapin::Error::from(lapin::ErrorKind::IOError(Arc::new(kind.into())));
    everywhere(|| io(io::ErrorKind::ConnectionRefused), Network);
    everywhere(|| io(io::ErrorKind::TimedOut), Timeout);
    everywhere(|| io(io::ErrorKind::Other), Network);
    everywhere(|| lapin::Error::from(lapin::ErrorKind::MissingHeartbeatError), Network);
}

#[cfg(feature = "async-nats")]
#[test]
fn a_nats_broker() {
    use async_nats::client::{PublishErrorKind, RequestErrorKind};
    use async_nats::error::Error;
    use async_nats::{ConnectErrorKind, jetstream::context::PublishErrorKind as StreamErrorKind};
    everywhere(|| Error::new(PublishErrorKind::Send), Network);
    everywhere(|| Error::new(PublishErrorKind::MaxPayloadExceeded), Invalid);
    everywhere(|| Error::new(RequestErrorKind::TimedOut), Timeout);
    everywhere(|| Error::new(RequestErrorKind::NoResponders), Unavailable);
    everywhere(|| Error::new(ConnectErrorKind::AuthorizationViolation), Auth);
    everywhere(|| Error::new(ConnectErrorKind::Io), Network);
    everywhere(|| Error::with_source(ConnectErrorKind::Io, io::Error::from(io::ErrorKind::TimedOut)), Timeout);
    everywhere(|| Error::new(StreamErrorKind::StreamNotFound), Unavailable);
    everywhere(|| Error::new(StreamErrorKind::MaxAckPending), Busy);
    everywhere(|| Error::new(StreamErrorKind::Other), Unknown);
}

/// Starts a server that sends `greeting`, answers each line of a client with the next of `answers`, and then hangs up.
#[cfg(any(feature = "reqwest", feature = "lettre"))]
fn server(greeting: &'static str, answers: &'static [&'static str]) -> u16 {
    use std::io::{BufRead, BufReader, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(greeting.as_bytes()).unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        for reply in answers {
            let _ = lines.next();
            let _ = stream.write_all(reply.as_bytes());
        }
        // The server reads what the client still sends; otherwise the client would see a reset instead of the reply.
        while matches!(lines.next(), Some(Ok(line)) if !line.is_empty() && line != "QUIT") {}
    });
    port
}

/// Starts a server that accepts and never answers.
#[cfg(any(feature = "reqwest", feature = "lettre"))]
fn silent() -> (std::net::TcpListener, u16) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

#[cfg(feature = "reqwest")]
#[tokio::test]
async fn reqwest_error_is_classed_by_status_or_by_what_happened() {
    async fn get(reply: &'static [&'static str], limit: Duration) -> reqwest::Result<reqwest::Response> {
        let port = server("", reply);
        reqwest::Client::new().get(format!("http://127.0.0.1:{port}/")).timeout(limit).send().await
    }
    let patience = Duration::from_secs(20);
    for (reply, expected) in [
        (&["HTTP/1.1 401 ?\r\ncontent-length: 0\r\n\r\n"], Auth),
        (&["HTTP/1.1 422 ?\r\ncontent-length: 0\r\n\r\n"], Invalid),
        (&["HTTP/1.1 503 ?\r\ncontent-length: 0\r\n\r\n"], Unavailable),
    ] {
        let refused = || async { get(reply, patience).await.unwrap().error_for_status().unwrap_err() };
        assert_eq!(class(refused().await), expected);
        #[cfg(feature = "anyhow")]
        assert_eq!(class(anyhow::Error::from(refused().await)), expected);
        assert_eq!(class(Outer(refused().await.into())), expected);
    }
    let answered = async |reply| get(reply, patience).await.unwrap().json::<u8>().await.unwrap_err();
    assert_eq!(class(answered(&["HTTP/1.1 200 ?\r\ncontent-length: 6\r\n\r\n<html>"]).await), Unknown);
    assert_eq!(class(answered(&["HTTP/1.1 200 ?\r\ncontent-length: 60\r\n\r\n<html>"]).await), Network, "broken off");
    assert_eq!(class(get(&["?\r\n\r\n"], patience).await.unwrap_err()), Network);
    let (_silent, port) = silent();
    let late = reqwest::Client::new().get(format!("http://127.0.0.1:{port}/")).timeout(Duration::from_millis(50));
    assert_eq!(class(late.send().await.unwrap_err()), Timeout);
    let unreachable = reqwest::Client::new().get("http://127.0.0.1:1/").send().await;
    assert_eq!(class(unreachable.unwrap_err()), Network);
    assert_eq!(class(reqwest::Client::new().get("http://").send().await.unwrap_err()), Invalid);
}

#[cfg(feature = "lettre")]
#[test]
fn a_mail_server() {
    use lettre::address::Envelope;
    use lettre::{SmtpTransport, Transport};
    let send = |port: u16| {
        let address: lettre::Address = "a@example.org".parse().unwrap();
        let envelope = Envelope::new(Some(address.clone()), vec![address]).unwrap();
        let server = SmtpTransport::builder_dangerous("127.0.0.1").port(port).timeout(Some(Duration::from_millis(300)));
        server.build().send_raw(&envelope, b"").unwrap_err()
    };
    for (answers, expected) in [
        (&["250 hello\r\n", "421 later\r\n"], Unavailable),
        (&["250 hello\r\n", "450 later\r\n"], Busy),
        (&["250 hello\r\n", "530 who are you\r\n"], Auth),
        (&["250 hello\r\n", "535 who are you\r\n"], Auth),
        (&["250 hello\r\n", "550 no such mailbox\r\n"], NotFound),
        (&["250 hello\r\n", "554 no\r\n"], Invalid),
    ] {
        assert_eq!(class(send(server("220 hello\r\n", answers))), expected, "{answers:?}");
        assert_eq!(class(Outer(send(server("220 hello\r\n", answers)).into())), expected, "{answers:?}");
    }
    let (_silent, port) = silent();
    assert_eq!(class(send(port)), Timeout);
    assert_eq!(class(send(1)), Network, "no server listens");
}

#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
#[test]
fn outermost_error_with_a_certain_class_decides() {
    assert_eq!(class(io::Error::new(io::ErrorKind::TimedOut, HttpStatus(401))), Timeout);
    let broken = |kind: io::ErrorKind| sqlx::Error::Tls(Box::new(io::Error::from(kind)));
    assert_eq!(class(broken(io::ErrorKind::Other)), Network);
    assert_eq!(class(broken(io::ErrorKind::TimedOut)), Timeout, "the cause is more exact");
    assert_eq!(class("connection refused"), Unknown, "a text has no type");
}

#[test]
fn a_classifier_of_the_application_is_asked_first_and_for_every_error() {
    let busy = |error: &(dyn StdError + 'static)| error.is::<HttpStatus>().then_some(Busy);
    let classifier = Classifier { own: vec![Arc::new(|_| None), Arc::new(busy)] };
    assert_eq!(classifier.class_of(&Outer(HttpStatus(401).into())), Busy);
    assert_eq!(classifier.class_of(&io::Error::from(io::ErrorKind::TimedOut)), Timeout);
    let panicking = Classifier { own: vec![Arc::new(|_| panic!("no"))] };
    assert_eq!(panicking.class_of(&HttpStatus(401)), Unknown);
}

#[test]
fn the_class_that_the_handler_gives_comes_before_everything() {
    let own = Classifier { own: vec![Arc::new(|_| Some(Auth))] };
    for failure in [
        Failure::retry(HttpStatus(422)),
        Failure::retry_in(Duration::ZERO, HttpStatus(422)),
        Failure::give_up(HttpStatus(422)),
    ] {
        let failure = failure.class(Busy);
        assert_eq!(own.class_of(&**failure.error()), Busy);
        assert_eq!(failure.error().to_string(), "HTTP status 422");
    }
}

#[test]
fn an_error_that_is_its_own_cause_ends() {
    #[derive(Debug)]
    struct Endless;
    impl fmt::Display for Endless {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("endless")
        }
    }
    impl StdError for Endless {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            Some(self)
        }
    }
    assert_eq!(class(Endless), Unknown);
}
