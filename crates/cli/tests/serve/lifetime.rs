//! Starts and ends: signals, a kill, a log that cannot be written.

use std::process::Stdio;
use std::time::Duration;

use solid_notify::operate::Filter;

use crate::receiver::Receiver;
use crate::{Site, add, count, node, program, until_all_ended};

/// That the first look is at the start, and not at the first poll, is tested with a sweeper on virtual time.
#[tokio::test]
async fn notice_that_is_due_at_the_start_is_sent() {
    let (site, receiver) = (Site::new(), Receiver::start().await);
    let outbox = site.outbox("shop", &receiver).await;
    add(&outbox, [1]).await;
    site.write(&site.database("shop"));
    let _serve = site.serve().await;
    receiver.wait_for_numbers(1).await;
    until_all_ended(&outbox).await;
}

#[cfg(unix)]
#[tokio::test]
async fn sigterm_lets_attempts_finish() {
    let (site, receiver) = (Site::new(), Receiver::slow(Duration::from_millis(500)).await);
    let outbox = site.outbox("shop", &receiver).await;
    site.write(&site.database("shop"));
    let mut serve = site.serve().await;
    add(&outbox, 0..5).await;
    receiver.wait_for_numbers(5).await;
    serve.signal("TERM");
    assert_eq!(serve.end().await.code(), Some(0));
    let seen = receiver.wait_for_numbers(5).await;
    assert!(seen.numbers.values().all(|requests| *requests == 1), "{seen:?}");
    assert_eq!(count(&outbox, Filter::live()).await, 0);
}

#[cfg(unix)]
#[tokio::test]
async fn sigterm_burns_no_try_of_an_attempt_that_takes_too_long() {
    let (site, receiver) = (Site::new(), Receiver::slow(Duration::from_secs(600)).await);
    let outbox = site.outbox("shop", &receiver).await;
    site.write(&format!("{}[sweeper]\nshutdown_grace = '300ms'\n", site.database("shop")));
    let mut serve = site.serve().await;
    add(&outbox, [1]).await;
    receiver.wait_for_numbers(1).await;
    serve.signal("TERM");
    assert_eq!(serve.end().await.code(), Some(0));
    let page = outbox.operator("test").list(&Filter::live(), None, 10).await.unwrap();
    let [notice] = &page.notices[..] else { panic!("{page:?}") };
    assert_eq!((notice.failures, notice.crashes), (0, 0), "{notice:?}");
}

#[cfg(unix)]
#[tokio::test]
async fn acks_are_taken_until_the_attempts_have_ended() {
    let (site, receiver) = (Site::new(), Receiver::slow(Duration::from_secs(5)).await);
    let outbox = site.outbox("shop", &receiver).await;
    let row = outbox.definitions().await.unwrap().into_iter().find(|state| state.row.name == "order").unwrap().row;
    let with_acks = row.clone().need_confirm(true).max_confirm_delay("1h");
    outbox.operator("test").edit_definition(&row, with_acks).await.unwrap();
    let key = site.path("key");
    std::fs::write(&key, "k".repeat(32)).unwrap();
    site.write(&format!("{}token_keys = ['file:{}']\n", site.database("shop"), key.display()));
    let mut serve = site.serve().await;
    add(&outbox, [1]).await;
    let token = receiver.wait_for(|seen| !seen.token.is_empty()).await.token;
    serve.signal("TERM");
    serve.logged("stops: attempts have").await;
    let client = reqwest::Client::new();
    let ack = client.post(format!("http://{}/ack", serve.address)).header("ack-token", token).send().await.unwrap();
    assert_eq!(ack.status().as_u16(), 200, "{}", ack.text().await.unwrap());
    assert_eq!(serve.get("/readyz").await.0, 503);
    assert_eq!(serve.end().await.code(), Some(0));
    assert_eq!(count(&outbox, Filter::live()).await, 0);
}

#[cfg(unix)]
#[tokio::test]
async fn second_sigterm_ends_at_once() {
    let (site, receiver) = (Site::new(), Receiver::slow(Duration::from_secs(600)).await);
    let outbox = site.outbox("shop", &receiver).await;
    site.write(&format!("{}[sweeper]\nshutdown_grace = '1h'\n", site.database("shop")));
    let mut serve = site.serve().await;
    add(&outbox, [1]).await;
    receiver.wait_for_numbers(1).await;
    serve.signal("TERM");
    serve.logged("stops: attempts have 3600 s").await;
    serve.signal("TERM");
    assert_eq!(serve.end().await.code(), Some(1));
}

#[tokio::test]
async fn killed_process_loses_nothing() {
    let (site, receiver) = (Site::new(), Receiver::slow(Duration::from_millis(50)).await);
    let outbox = site.outbox("shop", &receiver).await;
    site.write(&site.database("shop"));
    for round in 0..3 {
        let mut serve = site.serve().await;
        add(&outbox, round * 50..round * 50 + 50).await;
        receiver.wait_for_numbers(usize::try_from(round).unwrap() * 50 + 20).await;
        serve.child.kill().await.unwrap();
    }
    // The leases of killed processes end in 40 s. The clock is turned to that time.
    let database = sqlx::sqlite::SqlitePool::connect(&site.url("shop")).await.unwrap();
    sqlx::query("UPDATE notify_msg SET next_call_time = create_time WHERE status = 5")
        .execute(&database)
        .await
        .unwrap();
    let _serve = site.serve().await;
    receiver.wait_for_numbers(150).await;
    until_all_ended(&outbox).await;
    assert_eq!(count(&outbox, Filter::dead_letters()).await, 0);
}

/// Writes to this device fail, as on a full disk.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn full_disk_of_the_log_loses_nothing() {
    let (site, receiver) = (Site::new(), Receiver::start().await);
    let outbox = site.outbox("shop", &receiver).await;
    site.write(&format!("{}[databases.gone]\nurl = 'postgres://app@127.0.0.1:1/gone'\n", site.database("shop")));
    let mut command = program();
    command.arg("serve").arg("--config").arg(site.path("serve.toml"));
    command.stderr(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
    let mut child = command.spawn().unwrap();
    add(&outbox, 0..50).await;
    receiver.wait_for_numbers(50).await;
    until_all_ended(&outbox).await;
    let pid = child.id().unwrap().to_string();
    assert!(std::process::Command::new("kill").arg(&pid).status().unwrap().success());
    assert_eq!(child.wait().await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn without_a_file_the_store_of_the_options_is_served() {
    let (site, receiver) = (Site::new(), Receiver::start().await);
    let outbox = site.outbox("shop", &receiver).await;
    let mut command = program();
    command.args(["serve", "--listen", "127.0.0.1:0", "--url", &site.url("shop")]).current_dir(site.folder.path());
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    // Webhooks reach no address of the own site without the file's permission, so there is nothing to receive.
    node(&outbox).await;
    child.kill().await.unwrap();

    // A file and a store of the options contradict each other.
    site.write(&site.database("shop"));
    let mut command = program();
    command.args(["serve", "--url", "sqlite:x", "--config"]).arg(site.path("serve.toml")).stderr(Stdio::piped());
    let output = command.output().await.unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
}

#[cfg(unix)]
#[tokio::test]
async fn reader_of_the_log_that_sleeps_stops_nothing() {
    use tokio::io::AsyncReadExt;

    let (site, receiver) = (Site::new(), Receiver::start().await);
    let outbox = site.outbox("shop", &receiver).await;
    let quiet = site.outbox("quiet", &receiver).await;
    site.write(&format!("{}{}", site.database("shop"), site.database("quiet")));
    // A port that was free a moment ago, because the log does not say which it is.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut command = program();
    command.arg("serve").arg("--config").arg(site.path("serve.toml")).arg("--listen").arg(address.to_string());
    command.env("SOLID_NOTIFY_LOG", "trace").stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut unread = child.stderr.take().unwrap();
    let serve = crate::Serve { child, log: site.path("log"), address };
    add(&outbox, 0..1500).await;
    receiver.wait_for_numbers(1500).await;
    until_all_ended(&outbox).await;
    // The pipe is full, and lines of the database that logs much are lost and counted.
    let lost = async |database: &str| {
        let (page, name) = (serve.get("/metrics").await.1, format!("{{database=\"{database}\"}} "));
        let lost =
            page.lines().find_map(|line| line.strip_prefix("solid_notify_log_lines_lost_total")?.strip_prefix(&name));
        lost.and_then(|lost| lost.parse::<u64>().ok()).unwrap_or_default()
    };
    crate::eventually(async || if lost("shop").await > 0 { Ok(()) } else { Err("no line is lost") }).await;
    add(&quiet, 2000..2003).await;
    receiver.wait_for_numbers(1503).await;
    until_all_ended(&quiet).await;
    assert_eq!(lost("quiet").await, 0, "the other one has its own share of the queue");
    serve.ready("/readyz/shop").await;
    let reading = tokio::spawn(async move {
        let mut kept = String::new();
        unread.read_to_string(&mut kept).await.map(|_| kept)
    });
    let mut serve = serve;
    serve.signal("TERM");
    assert_eq!(serve.end().await.code(), Some(0));
    let kept = reading.await.unwrap().unwrap();
    assert!(kept.contains("listens on "), "the first lines are there");
    let has = |text: &str, database: &str| {
        kept.lines().any(|line| line.contains(text) && line.contains(&format!("database=\"{database}\"")))
    };
    assert!(has("the reader of the log was too slow", "shop") && !has("the reader of the log was too slow", "quiet"));
    assert!(has("has stopped", "quiet"));
}

/// Without its tables a database cannot start.
#[tokio::test]
async fn database_that_cannot_start_says_so_once() {
    let site = Site::new();
    site.write(&site.database("shop"));
    let serve = site.serve_with(|command| command.env("SOLID_NOTIFY_LOG", "info,solid_notify_cli=debug")).await;
    let refusals = |log: &str, level: &str| {
        let of_level = |line: &&str| line.contains("cannot start with") && line.contains(level);
        log.lines().filter(of_level).map(str::to_owned).collect::<Vec<_>>()
    };
    let log = crate::eventually(async || {
        let log = std::fs::read_to_string(&serve.log).unwrap();
        if refusals(&log, "DEBUG").len() >= 2 { Ok(log) } else { Err(log) }
    })
    .await;
    let errors = refusals(&log, "ERROR");
    assert!(matches!(&errors[..], [line] if line.contains("ERROR") && line.contains("solid-notify migrate")), "{log}");
    assert_eq!(serve.get("/readyz/shop").await.0, 503);
}
