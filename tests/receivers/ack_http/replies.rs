//! Replies on every store: where the token is, and what each state answers.

use futures_util::future::join_all;
use reqwest::Method;
use solid_notify::{AnyOutbox, Status};
use solid_notify_conformance::Backend;
use test_support::sending::record;

use super::server::{Reply, Server, delivered, reply};

macro_rules! cases {
    ($run:ident) => {
        cases!(@each $run, token_is_taken_from_each_place reason_of_a_nack_is_stored every_state_has_its_status
            one_of_many_acks_and_nacks_is_applied);
    };
    (@each $run:ident, $($case:ident)+) => {$(
        #[test]
        fn $case() {
            $run(|backend| Box::pin(super::$case(backend)));
        }
    )+};
}
test_support::on_each_store!(cases);

fn is(status: u16, result: &str) -> Reply {
    (status, result.to_owned())
}

async fn token_is_taken_from_each_place(b: &dyn Backend) {
    let server = Server::of(b.outbox()).await;
    let notices = delivered(b, 5).await;
    let post = |path: &str| server.request(Method::POST, path);
    let json =
        |token: &str| post("/ack").header("content-type", "application/json").body(format!(r#"{{"token":"{token}"}}"#));
    let bearer = |token: &str| post("/ack").header("authorization", format!("Bearer {token}"));
    // The header `authorization` may be for a gateway.
    let gateway = |token: &str| post(&format!("/ack/{token}")).header("authorization", "Bearer of the gateway");
    let requests = [
        post("/ack").header("ack-token", &notices[0].1),
        bearer(&notices[1].1),
        json(&notices[2].1),
        post(&format!("/ack/{}", notices[3].1)),
        gateway(&notices[4].1),
    ];
    for (request, (id, _)) in requests.into_iter().zip(&notices) {
        assert_eq!(reply(request).await, is(200, "applied"));
        assert_eq!(record(b, *id).await.status, Status::Succeeded);
    }
}

async fn reason_of_a_nack_is_stored(b: &dyn Backend) {
    let server = Server::of(b.outbox()).await;
    let notices = delivered(b, 3).await;
    let json = |body| {
        server.request(Method::POST, "/nack").header("content-type", "application/json; charset=utf-8").body(body)
    };
    let [(_, both), (_, reason), (_, none)] = &notices[..] else { panic!("{notices:?}") };
    let requests = [
        json(format!(r#"{{"token": "{both}", "reason": "invalid", "description": "no such customer: 单号 7"}}"#)),
        json(format!(r#"{{"token": "{reason}", "reason": "out of stock"}}"#)),
        server.request(Method::POST, "/nack").header("ack-token", none),
    ];
    let stored = ["invalid: no such customer: 单号 7", "out of stock", "no reason given"];
    for ((request, (id, _)), stored) in requests.into_iter().zip(&notices).zip(stored) {
        assert_eq!(reply(request).await, is(200, "applied"));
        let errors = record(b, *id).await.errors;
        assert_eq!(errors[0].message, format!("its receiver refused it: {stored}"));
    }
}

async fn every_state_has_its_status(b: &dyn Backend) {
    let server = Server::of(b.outbox()).await;
    let notices = delivered(b, 3).await;
    let (_, acked) = &notices[0];
    assert_eq!(server.post("ack", acked).await, is(200, "applied"));
    assert_eq!(server.post("ack", acked).await, is(200, "already_succeeded"));
    assert_eq!(server.post("nack", acked).await, is(409, "already_succeeded"));
    let (_, nacked) = &notices[1];
    assert_eq!(server.post("nack", nacked).await, is(200, "applied"));
    assert_eq!(server.post("nack", nacked).await, is(200, "not_awaiting_ack"));
    assert_eq!(server.post("ack", nacked).await, is(200, "applied"));
    let (id, cancelled) = &notices[2];
    assert!(b.outbox().operator("alice").cancel(*id, "a mistake").await.unwrap().is_applied());
    assert_eq!(server.post("ack", cancelled).await, is(410, "cancelled"));
    assert_eq!(server.post("nack", cancelled).await, is(410, "cancelled"));
}

/// Repeated and contradictory replies arrive at the same moment.
async fn one_of_many_acks_and_nacks_is_applied(b: &dyn Backend) {
    let server = Server::of(b.outbox()).await;
    for (id, token) in delivered(b, 10).await {
        let verbs = ["ack", "nack"].repeat(4);
        let replies = join_all(verbs.iter().map(|verb| server.post(verb, &token))).await;
        let of = |wanted: &str| {
            let replies = verbs.iter().zip(&replies).filter(|(verb, _)| **verb == wanted);
            replies.map(|(_, (status, result))| (*status, result.as_str())).collect::<Vec<_>>()
        };
        let applied = |replies: &[(u16, &str)]| replies.iter().filter(|reply| **reply == (200, "applied")).count();
        let (acks, nacks) = (of("ack"), of("nack"));
        assert_eq!(applied(&acks), 1, "{acks:?}");
        assert!(applied(&nacks) <= 1, "{nacks:?}");
        let expected = |replies: &[(u16, &str)], others: &[(u16, &str)]| {
            replies.iter().all(|reply| *reply == (200, "applied") || others.contains(reply))
        };
        assert!(expected(&acks, &[(200, "already_succeeded")]), "{acks:?}");
        assert!(expected(&nacks, &[(409, "already_succeeded"), (200, "not_awaiting_ack")]), "{nacks:?}");
        assert_eq!(record(b, id).await.status, Status::Succeeded);
    }
}

/// A token that is garbage, forged, expired, signed with another secret or of another database gets the same response.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_tokens_get_the_same_response() {
    use solid_notify::TokenKeys;
    use test_support::memory::MemoryBackend;

    let (b, other) = (MemoryBackend::default(), MemoryBackend::default());
    b.clock().advance(std::time::Duration::from_secs(1));
    let own = delivered(&b, 1).await.remove(0).1;
    // One whose id is another notice here, and one whose id does not exist here.
    let mut of_other_database = delivered(&other, 3).await;
    let (missing_here, of_other_database) = (of_other_database.remove(2).1, of_other_database.remove(0).1);
    other.outbox().use_token_keys(TokenKeys::new(&[8; 32]).unwrap());
    let of_other_secret = signed(other.outbox(), &other).await;
    let server = Server::of(b.outbox()).await;
    let mut forged = own.clone().into_bytes();
    forged[60] = if forged[60] == b'A' { b'B' } else { b'A' };
    let forged = String::from_utf8(forged).unwrap();

    let mut responses = Vec::new();
    let mut ask = async |path: String| {
        let response = server.request(Method::POST, &path).send().await.unwrap();
        let mut headers = response.headers().clone();
        headers.remove("date");
        responses.push((response.status().as_u16(), headers, response.text().await.unwrap()));
    };
    let (cut, long) = (&own[..own.len() - 4], "A".repeat(5000));
    for token in ["x", &of_other_database, &missing_here, &of_other_secret, &forged, cut, &long, "%ff"] {
        ask(format!("/ack/{token}")).await;
        ask(format!("/nack/{token}")).await;
    }
    b.clock().advance(super::server::VALID);
    ask(format!("/ack/{own}")).await;
    assert_eq!(responses[0].0, 403);
    assert!(responses[0].2.contains(r#""refused_token""#), "{}", responses[0].2);
    for response in &responses {
        assert_eq!(response, &responses[0]);
    }
}

/// Delivers a notice more, and returns its token, signed with the keys that are set.
async fn signed(outbox: &AnyOutbox, b: &dyn Backend) -> String {
    use solid_notify::{Notice, OutboxExt};
    let (send, mut tokens) = tokio::sync::mpsc::unbounded_channel();
    let deliver = move |notice: Notice<i64>| {
        send.send(notice.ack_token(super::server::VALID).unwrap()).unwrap();
        async { Ok(()) }
    };
    let sweeper = outbox.sweeper().handler("sync", deliver).start().await.unwrap();
    test_support::sending::add(b, "sync").await;
    let token = tokens.recv().await.unwrap();
    sweeper.shutdown().await;
    token
}
