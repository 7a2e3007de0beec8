//! Neighbours that are receivers, their servers, the reader of the log, and clients of `serve`.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use solid_notify::{NotifyDef, Status};
use test_support::databases::server_url;
use test_support::proxy::Weather;
use test_support::raw::{Raw, read_request, write_for_ever};
use test_support::sending::eventually;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::AtWork;
use crate::healthy;
use crate::served::{Served, Start};
use crate::settings::SLOTS;
use crate::site::Site;
use crate::store::{Store, behind_proxy};
use crate::window::{Rate, send};

/// The definitions of [`refused`].
pub const REFUSED: [&str; 5] = ["bad_webhook", "bad_amqp", "bad_mail", "bad_nats", "bad_redis_stream"];
/// The definitions of [`stalled`], in the order of their proxies.
const STALLED: [&str; 4] = ["bad_amqp", "bad_mail", "bad_nats", "bad_redis_stream"];
/// More connections than `serve` keeps.
const CONNECTIONS: usize = 1000;
/// What the endless receivers write at a time. The other side soon reads no more.
const CHUNK: usize = 64 * 1024;

async fn webhook<S: Store>(site: &Site<S>, def: NotifyDef, url: String) {
    site.define(def.handler("webhook").handler_config(json!({ "url": url }).to_string())).await;
}

/// A receiver that answers 503.
pub async fn busy<S: Store>(site: &Site<S>) {
    webhook(site, NotifyDef::new("bad"), site.http.url("/busy")).await;
}

pub async fn silent_names<S: Store>(site: &Site<S>, start: &mut Start) {
    let library = site.path("silent_names.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/neighbours/silent_names.c");
    let mut compiler = std::process::Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).args([source, "-ldl"]);
    assert!(compiler.status().expect("a C compiler, which SQLite needs, too").success());
    start.preloaded = Some(library);
    // Each notice has a name of its own, because a failed lookup is remembered.
    let config = json!({ "url": "http://{{ param }}.silent.test/", "allow_hosts": ["*.silent.test"] });
    let def = NotifyDef::new("bad").timeout("1s").max_concurrency(600);
    site.define(def.handler("webhook").handler_config(config.to_string())).await;
}

pub async fn use_silent_names<S: Store>(site: &Site<S>, at: &mut AtWork) {
    at.ids = site.feed("bad", 600, Duration::ZERO, |number| format!("h{number}").into()).await;
    site.one_is(&at.ids, "an attempt times out", |notice| notice.failures > 0).await;
}

pub async fn hanging<S: Store>(site: &Site<S>) {
    let def = NotifyDef::new("bad").timeout("3s").max_concurrency(1000);
    webhook(site, def, site.http.url("/hang")).await;
}

/// Waits until attempts have timed out and others have waited for slots: before, nothing tells that the receiver is slow.
pub async fn hang<S: Store>(site: &Site<S>, at: &mut AtWork) {
    let count = u32::try_from(SLOTS * 2).unwrap();
    at.ids = site.feed("bad", count, Duration::ZERO, |number| number.into()).await;
    site.one_is(&at.ids, "an attempt times out", |notice| notice.failures > 0).await;
    send(site, Rate { count: healthy::COUNT, gap: Duration::from_millis(1) }).await;
}

pub async fn endless<S: Store>(site: &Site<S>, at: &mut AtWork) {
    let chunk: &'static [u8] = &[b'x'; CHUNK];
    let line = raw(at, "mail servers", move |mut stream| async move {
        let _ = stream.write_all(b"220 ").await;
        write_for_ever(&mut stream, chunk).await;
    })
    .await;
    let headers = raw(at, "endless headers", move |mut stream| async move {
        read_request(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nx-long: ").await;
        write_for_ever(&mut stream, chunk).await;
    })
    .await;
    let body = raw(at, "endless bodies", move |mut stream| async move {
        read_request(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 500 Broken\r\n\r\n").await;
        write_for_ever(&mut stream, chunk).await;
    })
    .await;
    let drip = raw(at, "slow bodies", move |mut stream| async move {
        read_request(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n").await;
        while stream.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    })
    .await;
    define(site, "mail", &format!("smtp://127.0.0.1:{}?tls=none", line.port())).await;
    for (name, address) in [("bad_headers", headers), ("bad_body", body), ("bad_drip", drip)] {
        webhook(site, NotifyDef::new(name).timeout("2s"), format!("http://{address}/")).await;
    }
}

/// Starts a receiver whose connections count as seen.
async fn raw<F: Future<Output = ()> + Send + 'static>(
    at: &mut AtWork,
    part: &'static str,
    serve: impl Fn(TcpStream) -> F + Send + 'static,
) -> SocketAddr {
    let seen = at.counter(part);
    let count = move |stream| {
        seen.fetch_add(1, Ordering::Relaxed);
        serve(stream)
    };
    let raw = Raw::serving(count).await;
    let address = raw.address;
    at.held.push(Box::new(raw));
    address
}

pub async fn use_endless<S: Store>(site: &Site<S>, time: Duration, at: &mut AtWork) {
    for name in ["bad_mail", "bad_headers", "bad_body", "bad_drip"] {
        at.ids.extend(site.feed(name, 5, time, |number| number.into()).await);
    }
}

pub async fn oversized<S: Store>(site: &Site<S>) {
    let (amqp, nats) = (site.secret("amqp", &server_url("AMQP_URL")), site.secret("nats", &server_url("NATS_URL")));
    let amqp = json!({ "url": amqp, "routing_key": "nowhere", "headers": { "x-note": "{{ param }}" } });
    let nats = json!({ "url": nats, "subject": "bugs.{{ param }}" });
    for (channel, config) in [("amqp", amqp), ("nats", nats)] {
        let def = NotifyDef::new(format!("bad_{channel}"));
        site.define(def.handler(channel).handler_config(config.to_string())).await;
    }
}

pub async fn use_oversized<S: Store>(site: &Site<S>, time: Duration, at: &mut AtWork) {
    for (name, length) in [("bad_amqp", 200_000), ("bad_nats", 5000)] {
        at.ids.extend(site.feed(name, 20, time, |_| "x".repeat(length).into()).await);
    }
}

/// A definition `bad_CHANNEL` of a channel to the server of this URL.
async fn define<S: Store>(site: &Site<S>, channel: &str, url: &str) {
    let url = site.secret(&format!("bad_{channel}"), url);
    let config: Value = match channel {
        "mail" => json!({ "smtp": url, "from": "a@example.org", "to": ["b@example.org"], "subject": "x", "text": "x" }),
        // No queue gets it, which is a success here.
        "amqp" => json!({ "url": url, "routing_key": "nowhere", "mandatory": false }),
        "nats" => json!({ "url": url, "subject": format!("{}.bad", site.brokers.name) }),
        _ => json!({ "url": url, "stream": site.brokers.name, "maxlen": 100 }),
    };
    let def = NotifyDef::new(format!("bad_{channel}")).timeout("1s");
    site.define(def.handler(channel).handler_config(config.to_string())).await;
}

/// The servers of the healthy definitions, behind proxies.
pub async fn stalled<S: Store>(site: &Site<S>, at: &mut AtWork) {
    let urls = [server_url("AMQP_URL"), site.smtp.url(), server_url("NATS_URL"), server_url("REDIS_URL")];
    for (name, url) in STALLED.into_iter().zip(urls) {
        let (url, proxy) = behind_proxy(&url).await;
        define(site, name.trim_start_matches("bad_"), &url).await;
        at.proxies.push(proxy);
    }
}

/// Stops the servers once they have taken a notice each.
pub async fn stall<S: Store>(site: &Site<S>, at: &mut AtWork) {
    for name in STALLED {
        let ids = site.feed(name, 1, Duration::ZERO, |number| number.into()).await;
        site.one_is(&ids, "it is sent while the server runs", |notice| notice.status == Status::Succeeded).await;
    }
    for proxy in &at.proxies {
        proxy.set(Weather::Stall);
    }
    super::rows::feed(site, at, &STALLED).await;
}

/// Port 1 is below the ports of other programs, and has no server.
pub async fn refused<S: Store>(site: &Site<S>) {
    webhook(site, NotifyDef::new("bad_webhook"), "http://127.0.0.1:1/".to_owned()).await;
    define(site, "amqp", "amqp://guest:guest@127.0.0.1:1").await;
    define(site, "mail", "smtp://127.0.0.1:1?tls=none").await;
    define(site, "nats", "nats://127.0.0.1:1").await;
    define(site, "redis_stream", "redis://127.0.0.1:1").await;
}

/// Opens idle, half-open and slow connections.
pub async fn connect(served: &Served, at: &mut AtWork) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    // This process has the other end of each connection, more than a process may have as a rule.
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    for number in 0..CONNECTIONS {
        let mut client = TcpStream::connect(served.address).await.unwrap();
        let begun: &[u8] = match number % 3 {
            0 => b"",
            1 => b"GET /livez HTTP/1.1\r\nhost: a\r\n",
            _ => b"POST /ack HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{",
        };
        // One that has waited too long is closed.
        let _ = client.write_all(begun).await;
        at.clients.push(client);
    }
}

/// Checks that `serve` closed some of those that have not sent a whole head, because it had more connections than it keeps.
pub fn some_are_closed(at: &AtWork) {
    let waiting = at.clients.iter().enumerate().filter(|(number, _)| number % 3 != 2);
    let is_open = |client: &TcpStream| matches!(client.try_read(&mut [0; 16]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock);
    let closed = waiting.filter(|(_, client)| !is_open(client)).count();
    assert!((1..CONNECTIONS).contains(&closed), "{closed} connections are closed");
}

/// Waits until the pipe and the lines that wait for it are full, and a line of the log is lost.
pub async fn lines_are_lost(served: &Served) {
    let lost = async || {
        let (_, page) = served.get("/metrics").await.expect("metrics");
        // Of any database, and of the process itself.
        let mut lost = page.lines().filter(|line| line.starts_with("solid_notify_log_lines_lost_total"));
        lost.any(|line| !line.ends_with(" 0"))
    };
    eventually("lines of the log are lost", lost).await;
}
