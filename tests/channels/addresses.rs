//! Where channels may connect: no row reaches the sender's own network, on any channel. `webhooks/addresses.rs` has what only webhooks have.

use std::time::Duration;

use serde_json::{Value, json};
use solid_notify::channels::{AllowedNetworks, Amqp, ChannelExt, Chat, Mail, Nats, RedisStreams, Webhook};
use solid_notify::testkit::{MemoryOutbox, TestSweeper};
use solid_notify::{NotifyDef, OutboxExt, Status, add_notice};
use test_support::sending::{Calls, allow_secrets, eventually, refusal_of};
use tokio::net::TcpListener;

use crate::configured::{SecretFile, own_machine};
use crate::desk::log;

/// The channels, each with the URL of a server on this host and port.
const CHANNELS: [(&str, &str); 6] = [
    ("webhook", "http://HOST:PORT/"),
    ("chat", "http://HOST:PORT/hook"),
    ("mail", "smtp://HOST:PORT?tls=none"),
    ("amqp", "amqp://guest:guest@HOST:PORT/%2f"),
    ("nats", "nats://HOST:PORT"),
    ("redis_stream", "redis://HOST:PORT/0"),
];

/// A sender with all channels, and a server that counts its connections and closes them.
struct Site {
    outbox: MemoryOutbox,
    sweeper: TestSweeper,
    connections: Calls<()>,
    port: u16,
}

impl Site {
    async fn start(networks: &AllowedNetworks) -> Self {
        log();
        let (outbox, connections) = (MemoryOutbox::new(), Calls::default());
        allow_secrets(&outbox, &[]);
        let webhook = Webhook::builder().allow_networks(networks).build().unwrap();
        // The node reports with its beats.
        let sweeper = outbox.sweeper().maintenance_interval(Duration::from_millis(50)).channel(webhook);
        let sweeper = sweeper.channel(Chat::new().allow_networks(networks));
        let sweeper = sweeper.channel(Mail::new().allow_networks(networks));
        let sweeper = sweeper.channel(Amqp::new().allow_networks(networks));
        let sweeper = sweeper.channel(Nats::new().allow_networks(networks));
        let sweeper = TestSweeper::start(sweeper.channel(RedisStreams::new().allow_networks(networks))).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        // Not every machine has an address of version 6.
        for listener in [Some(listener), TcpListener::bind(("::1", port)).await.ok()].into_iter().flatten() {
            let connections = connections.clone();
            tokio::spawn(async move {
                while listener.accept().await.is_ok() {
                    connections.note(());
                }
            });
        }
        Self { outbox, sweeper, connections, port }
    }

    /// Sends a notice by a channel to a host. Returns the class and the text of the failure, with `HOST` instead of the host; for the class `waits` of what
    /// the node reports.
    async fn fails(&self, channel: &str, url: &str, host: &str) -> (String, String) {
        let secret = SecretFile::new(&url.replace("HOST", host).replace("PORT", &self.port.to_string()));
        let reference = secret.reference();
        let config: Value = match channel {
            "webhook" => {
                // With a value in it, because a constant one is refused with the row.
                let url = url.replace("HOST", host).replace("PORT", &self.port.to_string());
                json!({ "url": format!("{url}{{{{ param }}}}"), "allow_hosts": [host] })
            }
            "chat" => json!({ "service": "slack", "url": reference, "text": "x" }),
            "mail" => {
                json!({ "smtp": reference, "from": "a@x.org", "to": ["b@x.org"], "subject": "x", "text": "x" })
            }
            "amqp" => json!({ "url": reference, "routing_key": "x" }),
            "nats" => json!({ "url": reference, "subject": "x" }),
            _ => json!({ "url": reference, "stream": "x" }),
        };
        let name = format!("{channel} to {host}");
        let row = NotifyDef::new(&name).handler(channel).handler_config(config.to_string()).retry_interval("[1h]");
        self.outbox.define_if_missing(row.timeout("1h")).await.unwrap();
        let mut tx = self.outbox.begin().await.unwrap();
        let id = add_notice(&mut tx, &name, 7).await.unwrap().id();
        tx.commit().await.unwrap();
        self.sweeper.drain().await;
        let notice = self.outbox.find(id).await.unwrap().unwrap();
        if let Some(last) = notice.errors.last() {
            return (last.class.clone(), last.message.replace(host, "HOST"));
        }
        assert_eq!((notice.status, notice.failures), (Status::NotSent, 0), "{name}");
        ("waits".to_owned(), refusal_of(&self.outbox, &name).await.replace(host, "HOST"))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_channel_connects_to_an_address_that_is_refused() {
    let site = Site::start(&AllowedNetworks::default()).await;
    for (channel, url) in CHANNELS {
        for host in ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "10.0.0.1", "169.254.169.254"] {
            let (class, message) = site.fails(channel, url, host).await;
            let names_the_rule = message.contains("is refused because it is") && message.contains("allow_networks");
            // Each notice of a row that names the host itself would fail for how this node is set up.
            let expected = if channel == "webhook" { "invalid" } else { "waits" };
            assert!(class == expected && names_the_rule, "{channel} to {host}: {class}: {message}");
        }
        // Some clients read these as addresses; to others they are names, which the operating system resolves.
        for host in ["2130706433", "0x7f000001", "127.1"] {
            let (class, message) = site.fails(channel, url, host).await;
            assert!(message.contains("allow_networks"), "{channel} to {host}: {class}: {message}");
        }
        let refused = site.fails(channel, url, "localhost").await;
        let unknown = site.fails(channel, url, "no-such-host.invalid").await;
        assert_eq!(refused, unknown, "{channel}: it would tell which names the own network has");
        assert!(refused.0 == "network" && refused.1.contains("has no address that may be reached"), "{refused:?}");
    }
    assert_eq!(site.connections.count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_channel_connects_to_a_name_in_an_allowed_network() {
    let site = Site::start(&own_machine()).await;
    for (channel, url) in CHANNELS {
        for host in ["127.0.0.1", "localhost"] {
            let before = site.connections.count();
            let (class, message) = site.fails(channel, url, host).await;
            assert!(!message.contains("allow_networks"), "{channel} to {host}: {class}: {message}");
            eventually("it has connected", async || site.connections.count() > before).await;
        }
    }
}

#[tokio::test]
async fn row_cannot_name_a_socket_of_this_machine_as_redis() {
    let site = Site::start(&own_machine()).await;
    let (class, message) = site.fails("redis_stream", "redis+unix:///run/HOST.sock", "redis").await;
    assert!(class == "invalid" && message.contains("names a socket of this machine"), "{class}: {message}");
}
