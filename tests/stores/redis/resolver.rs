//! A function that resolves the names of servers: no connection goes past it, not even to the nodes that a cluster names.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use solid_notify::{NotifyDef, add_notice};
use solid_notify_redis::RedisOutbox;
use test_support::redis::OwnPrefix;
use test_support::{RedisServer, on_each_redis};

on_each_redis!(each_server_is_looked_up_by_the_given_function);

async fn each_server_is_looked_up_by_the_given_function<R: RedisServer>() {
    let own = OwnPrefix::of::<R>();
    let asked = Arc::new(Mutex::new(BTreeSet::new()));
    let noted = Arc::clone(&asked);
    let builder = own.builder().resolver(Arc::new(move |host: &str, port: u16| {
        noted.lock().unwrap().insert(port);
        let host = host.to_owned();
        Box::pin(async move { Ok(tokio::net::lookup_host((host.as_str(), port)).await?.collect()) })
    }));
    let outbox = RedisOutbox::new(builder.connect().await.unwrap());
    // Each definition has a slot of its own, so that all nodes of a cluster get some.
    for number in 0..12 {
        let name = format!("sync_{number}");
        outbox.define_if_missing(NotifyDef::new(name.as_str())).await.unwrap();
        add_notice(&mut outbox.clone(), &name, number).await.unwrap();
    }
    let mut servers = BTreeSet::new();
    own.on_each_node(|connection| {
        let info: String = ::redis::cmd("INFO").arg("server").query(connection).unwrap();
        let port = info.lines().find_map(|line| line.strip_prefix("tcp_port:")).unwrap();
        servers.insert(port.trim().parse::<u16>().unwrap());
    });
    assert_eq!(*asked.lock().unwrap(), servers);
    own.close();
}
