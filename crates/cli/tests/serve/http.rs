//! Probes, metrics, and acks.

#[cfg(unix)]
use std::process::Stdio;

use futures_util::StreamExt;
use serde_json::{Value, json};
use solid_notify::operate::Filter;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::Command;

use crate::receiver::Receiver;
use crate::{Serve, Site, add, count, eventually, until_all_ended};

const NOWHERE: &str = "[databases.gone]\nurl = 'postgres://app@127.0.0.1:1/gone'\n";

#[tokio::test]
async fn unreachable_database_fails_its_probe_and_disturbs_no_other() {
    let (site, receiver) = (Site::new(), Receiver::start().await);
    let outbox = site.outbox("shop", &receiver).await;
    site.write(&format!("{}{NOWHERE}", site.database("shop")));
    let serve = site.serve().await;
    add(&outbox, 0..20).await;
    receiver.wait_for_numbers(20).await;
    until_all_ended(&outbox).await;
    serve.ready("/readyz/shop").await;
    assert_eq!(serve.get("/livez").await, (200, "live".to_owned()));
    let (status, body) = serve.get("/readyz").await;
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (status, &body["ready"], &body["databases"]["shop"]),
        (503, &json!(false), &json!({"ready": true, "sending": true}))
    );
    assert!(body["databases"]["gone"]["problem"].is_string(), "{body}");
    assert_eq!(serve.get("/readyz/gone").await.0, 503);
    assert_eq!(serve.get("/readyz/typo").await.0, 404);
    assert_eq!(serve.get("/typo").await.0, 404);
    assert!(!std::fs::read_to_string(&serve.log).unwrap().contains("panicked"));
}

#[tokio::test]
async fn metrics_have_the_name_of_their_database() {
    let (site, receiver) = (Site::new(), Receiver::start().await);
    let (one, two) = (site.outbox("one", &receiver).await, site.outbox("two", &receiver).await);
    site.write(&format!("{}{}", site.database("one"), site.database("two")));
    let serve = site.serve().await;
    add(&one, 0..3).await;
    add(&two, 3..8).await;
    receiver.wait_for_numbers(8).await;
    until_all_ended(&one).await;
    until_all_ended(&two).await;
    let series = [("one", 3), ("two", 5)].map(|(database, count)| {
        format!(
            "solid_notify_attempts_total{{definition=\"order\",outcome=\"succeeded\",class=\"-\",database=\"{database}\"}} {count}"
        )
    });
    // An attempt is counted after its outcome is stored.
    let page = eventually(async || {
        let (status, page) = serve.get("/metrics").await;
        assert_eq!(status, 200);
        match series.iter().find(|series| page.lines().all(|line| line != *series)) {
            None => Ok(page),
            Some(missing) => Err(format!("{missing} is missing:\n{page}")),
        }
    })
    .await;
    let heads = page.lines().filter(|line| line.starts_with("# TYPE solid_notify_attempts_total ")).count();
    assert_eq!(heads, 1, "a metric has one head, whatever the number of databases");
}

#[tokio::test]
async fn acks_reach_the_database_that_the_path_names() {
    let (site, receiver) = (Site::new(), Receiver::start().await);
    let (one, two) = (site.outbox("one", &receiver).await, site.outbox("two", &receiver).await);
    for outbox in [&one, &two] {
        let edit = |row: solid_notify::NotifyDef| row.need_confirm(true).max_confirm_delay("1h");
        let operator = outbox.operator("test");
        let row = outbox.definitions().await.unwrap().into_iter().find(|state| state.row.name == "order").unwrap().row;
        operator.edit_definition(&row, edit(row.clone())).await.unwrap();
    }
    let keys = "token_keys = ['file:KEY']\n".replace("KEY", site.path("key").to_str().unwrap());
    std::fs::write(site.path("key"), "k".repeat(32)).unwrap();
    site.write(&format!("{}{keys}{}{keys}", site.database("one"), site.database("two")));
    let serve = site.serve().await;
    let client = reqwest::Client::new();
    let ack = async |path: &str, token: &str| {
        let sent =
            client.post(format!("http://{}{path}", serve.address)).header("ack-token", token).send().await.unwrap();
        (sent.status().as_u16(), sent.text().await.unwrap())
    };
    add(&two, [7]).await;
    let token = receiver.wait_for(|seen| !seen.token.is_empty()).await.token;
    serve.ready("/readyz").await;
    assert_eq!(ack("/ack", &token).await.0, 404, "there are two databases");
    assert_eq!(ack("/three/ack", &token).await.0, 404);
    assert_ne!(ack("/one/ack", &token).await.0, 200, "it is a token of the other database");
    let (status, body) = ack("/two/ack", &token).await;
    assert!(status == 200 && body.contains("\"applied\""), "{status} {body}");
    until_all_ended(&two).await;
    assert_eq!(count(&two, Filter::dead_letters()).await, 0);
}

#[tokio::test]
async fn the_only_database_has_acks_without_its_name() {
    let (site, receiver) = (Site::new(), Receiver::start().await);
    site.outbox("shop", &receiver).await;
    site.write(&site.database("shop"));
    let serve = site.serve().await;
    serve.ready("/readyz").await;
    for path in ["/ack", "/shop/ack", "/nack/x", "/shop/nack/x"] {
        let sent = reqwest::Client::new().post(format!("http://{}{path}", serve.address)).send().await.unwrap();
        let (status, body) = (sent.status().as_u16(), sent.text().await.unwrap());
        assert!([400, 403, 500].contains(&status) && body.contains("\"result\""), "{path}: {status} {body}");
    }
}

/// A service whose proxy names the address of a client in a header.
async fn behind_a_proxy(receiver: &Receiver) -> (Site, Serve) {
    let site = Site::new();
    site.outbox("shop", receiver).await;
    site.write(&site.database("shop"));
    let file = site.path("serve.toml");
    let text = std::fs::read_to_string(&file).unwrap().replace("[http]\n", "[http]\npeer_header = 'x-real-ip'\n");
    std::fs::write(file, text).unwrap();
    let serve = site.serve().await;
    serve.ready("/readyz").await;
    (site, serve)
}

#[tokio::test]
async fn acks_are_limited_by_the_address_that_the_proxy_names() {
    let receiver = Receiver::start().await;
    let (_site, serve) = behind_a_proxy(&receiver).await;
    let client = reqwest::Client::new();
    let refused = async |addresses: Vec<String>| {
        let post = |address| client.post(format!("http://{}/ack", serve.address)).header("x-real-ip", address);
        let statuses = addresses.into_iter().map(|address| async { post(address).send().await.unwrap().status() });
        let statuses: Vec<_> = futures_util::stream::iter(statuses).buffer_unordered(50).collect().await;
        statuses.into_iter().filter(|status| status.as_u16() == 429).count()
    };
    assert_eq!(refused((0..200).map(|number| format!("192.0.2.{number}")).collect()).await, 0);
    // At 100 a second; a slow machine needs seconds for all.
    assert!(refused(vec!["198.51.100.7".to_owned(); 1500]).await > 0);
}

#[tokio::test]
async fn acks_without_a_readable_address_count_for_the_connection() {
    let receiver = Receiver::start().await;
    let (_site, serve) = behind_a_proxy(&receiver).await;
    let client = reqwest::Client::new();
    // Each names another address, and none in a way that can be read: no header, a list, an address with a port.
    let statuses = (0..1500_u32).map(|k| {
        let (client, url) = (client.clone(), format!("http://{}/ack", serve.address));
        let address = format!("192.0.{}.{}", k / 250, k % 250);
        async move {
            let post = client.post(url);
            let post = match k % 3 {
                0 => post,
                1 => post.header("x-real-ip", format!("{address}, 198.51.100.7")),
                _ => post.header("x-real-ip", format!("{address}:8080")),
            };
            (k % 3, post.send().await.unwrap().status().as_u16())
        }
    });
    let statuses: Vec<_> = futures_util::stream::iter(statuses).buffer_unordered(50).collect().await;
    for kind in 0..3 {
        assert!(statuses.contains(&(kind, 429)), "kind {kind} is not limited");
    }
    let log = std::fs::read_to_string(&serve.log).unwrap();
    assert_eq!(log.matches("without a readable address").count(), 1, "{log}");
}

#[tokio::test]
async fn head_that_is_too_long_is_refused_and_usual_requests_pass() {
    let (site, receiver) = (Site::new(), Receiver::start().await);
    site.outbox("shop", &receiver).await;
    let key = site.path("key");
    std::fs::write(&key, "a secret of a test, which has 32 bytes").unwrap();
    site.write(&format!("{}token_keys = ['file:{}']\n", site.database("shop"), key.display()));
    let serve = site.serve().await;
    serve.ready("/readyz").await;
    let status = async |method: &str, head: usize, body: usize| {
        let mut client = TcpStream::connect(serve.address).await.unwrap();
        let (head, body) = ("x".repeat(head), format!(r#"{{"reason":"{}"}}"#, "x".repeat(body)));
        let length = body.len();
        let text = format!(
            "{method} HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nx-long: {head}\r\n\r\n{body}"
        );
        // It may be closed before all is written or read.
        let _ = client.write_all(text.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = client.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).split(' ').nth(1).unwrap_or_default().to_owned()
    };
    assert_eq!(status("GET /livez", 24 * 1024, 0).await, "200");
    assert_eq!(status("GET /livez", 40 * 1024, 0).await, "431");
    assert_eq!(status("POST /nack/x", 8 * 1024, 15 * 1024).await, "403", "a token that is none, and a long reason");
    assert_eq!(status("POST /nack/x", 0, 17 * 1024).await, "413");
}

/// The most connections that `serve` keeps are fewer.
const IDLE: usize = 1000;

#[tokio::test]
async fn idle_half_open_and_slow_clients_keep_no_one_out() {
    idle_clients_keep_no_one_out(|command| command).await;
}

/// The process has fewer descriptors than there are clients, and than it keeps connections of clients otherwise.
#[cfg(unix)]
#[tokio::test]
async fn idle_clients_keep_no_one_out_of_a_process_with_few_descriptors() {
    idle_clients_keep_no_one_out(|command| with_descriptors(command, "ulimit -n 160")).await;
}

/// Has the program started by a shell that limits its descriptors first.
#[cfg(unix)]
fn with_descriptors<'c>(command: &'c mut Command, limit: &str) -> &'c mut Command {
    let of_program = command.as_std();
    let mut limited = Command::new("sh");
    limited.arg("-c").arg(format!("{limit} && exec \"$0\" \"$@\"")).arg(of_program.get_program());
    limited.args(of_program.get_args()).kill_on_drop(true);
    limited.current_dir(of_program.get_current_dir().unwrap()).stdin(Stdio::null()).stdout(Stdio::null());
    for (name, value) in of_program.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    *command = limited;
    command
}

/// Opens idle, half-open and slow connections to `serve`, which `change` starts.
async fn idle_clients_keep_no_one_out(change: impl FnOnce(&mut Command) -> &mut Command) {
    let (site, receiver) = (Site::new(), Receiver::start().await);
    let outbox = site.outbox("shop", &receiver).await;
    let key = site.path("key");
    std::fs::write(&key, "a secret of a test, which has 32 bytes").unwrap();
    site.write(&format!("{}token_keys = ['file:{}']\n", site.database("shop"), key.display()));
    let serve = site.serve_with(change).await;
    serve.ready("/readyz").await;
    // This process has the other end of each connection.
    #[cfg(unix)]
    raise_own_limit();
    let mut clients = Vec::new();
    for k in 0..IDLE {
        let mut client = TcpStream::connect(serve.address).await.unwrap();
        match k % 3 {
            0 => {}
            1 => client.write_all(b"GET /livez HTTP/1.1\r\nhost: a\r\n").await.unwrap(),
            _ => {
                let head =
                    b"POST /ack HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{";
                client.write_all(head).await.unwrap();
            }
        }
        clients.push(client);
    }
    for _ in 0..3 {
        assert_eq!(serve.get("/livez").await.0, 200);
        assert_eq!(serve.get("/readyz").await.0, 200);
        let ack = reqwest::Client::new().post(format!("http://{}/ack", serve.address)).header("ack-token", "x");
        assert_eq!(ack.send().await.unwrap().status(), 403);
    }
    add(&outbox, 0..5).await;
    receiver.wait_for_numbers(5).await;
    // Without room for them nearly each would be refused at first, and the next one wait for it.
    let log = std::fs::read_to_string(&serve.log).unwrap();
    let refused = log.matches("cannot accept a connection").count();
    assert!(refused < IDLE / 50, "{refused} of {IDLE} clients were refused at first");
    drop(clients);
}

/// Lets this process open more connections than a process may as a rule.
#[cfg(unix)]
fn raise_own_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}

/// `serve` raises its own limit, too.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn serve_has_as_many_descriptors_as_the_system_lets_it_have() {
    let (site, receiver) = (Site::new(), Receiver::start().await);
    site.outbox("shop", &receiver).await;
    site.write(&site.database("shop"));
    let serve = site.serve_with(|command| with_descriptors(command, "ulimit -Sn 160")).await;
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", serve.child.id().unwrap())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert_eq!(numbers[0], numbers[1].min(65_536), "{line}");
}

/// systemd listens on a datagram socket.
#[cfg(all(unix, feature = "full"))]
#[tokio::test]
async fn systemd_hears_of_the_start_the_life_and_the_end() {
    let (site, receiver) = (Site::new(), Receiver::start().await);
    let _outbox = site.outbox("shop", &receiver).await;
    site.write(&site.database("shop"));
    let socket = site.path("notify");
    let systemd = tokio::net::UnixDatagram::bind(&socket).unwrap();
    let mut serve =
        site.serve_with(|command| command.env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "400000")).await;
    let heard = async |word: &str| {
        let mut buffer = [0; 256];
        loop {
            let length = tokio::time::timeout(crate::LIMIT, systemd.recv(&mut buffer)).await.unwrap().unwrap();
            if String::from_utf8_lossy(&buffer[..length]).contains(word) {
                return;
            }
        }
    };
    for word in ["READY=1", "WATCHDOG=1", "WATCHDOG=1"] {
        heard(word).await;
    }
    serve.signal("TERM");
    heard("STOPPING=1").await;
    assert!(serve.end().await.success());
}
