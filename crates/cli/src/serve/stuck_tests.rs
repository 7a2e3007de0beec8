//! A database whose threads something blocks: it is reported, takes no ack, and stops nothing else.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use tower::ServiceExt;

use super::config::{Config, Overrides};
use super::database::State;
use super::database::testing::{Threads, by_hand, running};
use super::databases::Databases;
use super::metrics::Metrics;
use super::{HAND_BACK, http, stop_all};

const STUCK: &str = "have not run for";

/// Adds a database that starts.
fn add(databases: &Databases, name: &str) -> Threads {
    let (database, threads) = by_hand(State::Starting);
    databases.insert(name, database);
    threads
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stuck_database_is_not_ready_and_the_rest_answers() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}?mode=rwc", folder.path().join("shop").display());
    let text = format!("[databases.shop]\nurl = '{url}'\nmigrate = true\n");
    let config = Config::read(&text, &Overrides::default()).unwrap();
    let (state, _sweeper) = running(&config.databases["shop"]).await;
    let (shop, threads) = by_hand(state);
    let (databases, metrics) = (Arc::new(Databases::default()), Metrics::new().unwrap());
    databases.insert("shop", shop);
    let _well = add(&databases, "well");
    let get = async |path: &str| {
        let routes = http::routes(http::Shown {
            databases: Arc::clone(&databases),
            metrics: metrics.clone(),
            page: Default::default(),
        });
        let method = if path.ends_with("/ack") { "POST" } else { "GET" };
        let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
        let response = routes.oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    };
    let well = || (200, r#"{"ready":true,"sending":true}"#.to_owned());
    let is_well = async {
        while get("/readyz/shop").await != well() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    // The deadline only ends what hangs.
    tokio::time::timeout(Duration::from_secs(60), is_well).await.unwrap();
    assert_ne!(get("/shop/ack").await.0, 503);
    threads.block();
    let (status, body) = get("/readyz/shop").await;
    assert!(status == 503 && body.contains(r#""ready":false,"sending":false"#) && body.contains(STUCK), "{body}");
    assert_eq!((get("/livez").await.0, get("/shop/ack").await.0), (200, 503));
    #[cfg(feature = "full")]
    {
        super::record_sending(&databases, &metrics);
        let page = get("/metrics").await.1;
        for name in ["shop", "well"] {
            assert!(page.contains(&format!("solid_notify_sending{{database=\"{name}\"}} 0")), "{name}: {page}");
        }
    }
}

#[test]
fn stuck_database_is_reported_once_and_watchdog_hears_of_others() {
    let databases = Databases::default();
    let (shop, well) = (add(&databases, "shop"), add(&databases, "well"));
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let file = Arc::new(std::fs::File::create(&log).unwrap());
    let lines = tracing_subscriber::fmt().with_writer(file).with_ansi(false).finish();
    tracing::subscriber::with_default(lines, || {
        databases.report_stuck();
        shop.block();
        databases.report_stuck();
        databases.report_stuck();
    });
    let log = std::fs::read_to_string(log).unwrap();
    assert_eq!(log.matches(STUCK).count(), 1, "{log}");
    assert!(log.contains("ERROR") && log.contains("shop"), "{log}");
    #[cfg(all(unix, feature = "full"))]
    assert!(databases.any_runs(), "one of two is stuck");
    well.block();
    #[cfg(all(unix, feature = "full"))]
    assert!(!databases.any_runs(), "all are stuck");
}

#[tokio::test(start_paused = true)]
async fn stop_waits_for_stuck_databases_within_one_limit() {
    let databases = Databases::default();
    let _stuck = [add(&databases, "a"), add(&databases, "b")];
    add(&databases, "well").end();
    let (grace, began) = (Duration::from_secs(15), tokio::time::Instant::now());
    let failure = stop_all(&databases, grace).await.unwrap_err();
    assert_eq!(began.elapsed().as_secs(), (grace + HAND_BACK).as_secs(), "one limit for both");
    assert!(failure.message.contains("have not stopped: a, b;"), "{}", failure.message);
    add(&databases, "well").end();
    assert!(stop_all(&databases, grace).await.is_ok());
}
