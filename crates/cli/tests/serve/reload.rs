//! SIGHUP: the file is read again.
#![cfg(unix)]

use crate::receiver::Receiver;
use crate::{Site, add, node, until_all_ended};

#[tokio::test]
async fn sighup_starts_changes_and_stops_only_what_the_file_changes() {
    let (site, receiver) = (Site::new(), Receiver::start().await);
    let (kept, gone) = (site.outbox("kept", &receiver).await, site.outbox("gone", &receiver).await);
    let new = site.outbox("new", &receiver).await;
    site.write(&format!("{}{}", site.database("kept"), site.database("gone")));
    let mut serve = site.serve().await;
    serve.ready("/readyz").await;
    let before = node(&kept).await;

    site.write(&format!("{}{}", site.database("kept"), site.database("new")));
    serve.signal("HUP");
    serve.logged("the file is reloaded").await;
    serve.ready("/readyz").await;
    assert_eq!(serve.get("/readyz/gone").await.0, 404);
    add(&new, [1]).await;
    add(&kept, [2]).await;
    receiver.wait_for_numbers(2).await;
    serve.logged("has stopped").await;
    add(&gone, [3]).await;
    until_all_ended(&kept).await;
    assert_eq!(node(&kept).await, before, "the sweeper of the unchanged database was not restarted");

    site.write(&format!("{}migrate = true\n", site.database("gone")));
    serve.signal("HUP");
    receiver.wait_for_numbers(3).await;
    site.write(&format!("{}[sweeper]\nmax_running = 7\n", site.database("gone")));
    serve.signal("HUP");
    serve.logged("restarts with changed settings").await;
    add(&gone, [4]).await;
    receiver.wait_for_numbers(4).await;
}

#[tokio::test]
async fn broken_file_is_reported_and_changes_nothing() {
    let (site, receiver) = (Site::new(), Receiver::start().await);
    let outbox = site.outbox("shop", &receiver).await;
    site.write(&site.database("shop"));
    let mut serve = site.serve().await;
    serve.ready("/readyz").await;
    let before = node(&outbox).await;
    for broken in ["[databases.shop]\nurl = 'oracle:x'\n", "[databases", "[databases.other]\n"] {
        site.write(broken);
        serve.signal("HUP");
        serve.logged("was not reloaded").await;
        std::fs::write(&serve.log, "").unwrap();
    }
    std::fs::remove_file(site.path("serve.toml")).unwrap();
    serve.signal("HUP");
    serve.logged("cannot read").await;
    add(&outbox, [1]).await;
    receiver.wait_for_numbers(1).await;
    let after = outbox.operator("test").nodes().await.unwrap();
    assert_eq!((after.len(), &after[0].id), (1, &before));
}

#[tokio::test]
async fn changed_filter_of_the_log_is_in_force_after_sighup() {
    let (site, receiver) = (Site::new(), Receiver::start().await);
    site.outbox("shop", &receiver).await;
    site.write(&site.database("shop"));
    let mut serve = site.serve().await;
    serve.ready("/readyz").await;
    let text = std::fs::read_to_string(site.path("serve.toml")).unwrap();
    std::fs::write(site.path("serve.toml"), text.replace("'info'", "'solid_notify=trace,solid_notify_cli=debug'"))
        .unwrap();
    serve.signal("HUP");
    serve.logged("the file is reloaded").await;
    std::fs::write(site.path("serve.toml"), text.replace("'info'", "'error'")).unwrap();
    serve.signal("HUP");
    std::fs::write(site.path("serve.toml"), "broken").unwrap();
    // Information is not logged any more, errors are.
    serve.signal("HUP");
    serve.logged("was not reloaded").await;
    let log = std::fs::read_to_string(&serve.log).unwrap();
    assert_eq!(log.matches("the file is reloaded").count(), 1, "{log}");
}
