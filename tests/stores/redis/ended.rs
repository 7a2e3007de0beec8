//! A claim runs the same commands beside ended notices as without, and none of them names a key of theirs.
//!
//! Each key of a definition that a claim reads holds live notices alone, so how many have ended cannot matter: some thousands show it as well
//! as the million of the SQL stores, which share tables.

use std::time::Duration;

use ::redis::{Client, Value, cmd};
use solid_notify::{Filter, NewNotice, NotifyDef, Status};
use solid_notify_conformance::Backend;
use solid_notify_core::store::{Claim, ClaimWhat};
use test_support::RedisServer;
use test_support::databases::server_url;
use test_support::redis::{RedisBackend, SingleRedis};

/// Ended notices of each final status, with the fields that sets depend on.
const FILL: &str = "for n = 1, 30000 do
    local member, status = string.format('%019d', n), ({ 'succeeded', 'dead_letter', 'cancelled' })[n % 3 + 1]
    redis.call('ZADD', KEYS[1] .. ':status:' .. status, n, member)
    redis.call('HSET', KEYS[1] .. ':notice:' .. n, 'status', ({ '1', '3', '6' })[n % 3 + 1], 'fence', '1', 'param', '1')
    if status == 'dead_letter' then redis.call('ZADD', KEYS[1] .. ':dead_letters:-', n, member) end
end";

/// Returns the commands, with their keys, that scripts run on keys of this prefix during the work.
async fn commands(prefix: &str, work: impl Future<Output = ()>) -> Vec<String> {
    let client = Client::open(server_url(SingleRedis::VARIABLE)).unwrap();
    let (mut monitor, mut other) = (client.get_connection().unwrap(), client.get_connection().unwrap());
    cmd("MONITOR").exec(&mut monitor).unwrap();
    work.await;
    let end = format!("the end of the work on {prefix}");
    let _: String = cmd("ECHO").arg(&end).query(&mut other).unwrap();
    let mut commands = Vec::new();
    loop {
        let Value::SimpleString(line) = monitor.recv_response().unwrap() else { continue };
        if line.contains(&end) {
            return commands;
        }
        // A line is: time [database lua] "command" "key" …
        let words: Vec<&str> = line.split('"').skip(1).step_by(2).take(2).collect();
        if line.contains(" lua] ") && words.get(1).is_some_and(|key| key.starts_with(prefix)) {
            commands.push(words.join(" "));
        }
    }
}

#[tokio::test]
async fn redis_claims_name_no_key_of_ended_notices() {
    let b = RedisBackend::new::<SingleRedis>().await;
    b.outbox().define_if_missing(NotifyDef::new("sync")).await.unwrap();
    let definitions = b.outbox().definitions().await.unwrap();
    let row = definitions.into_iter().find(|state| state.row.name == "sync").unwrap().row;
    let prefix = format!("{{{}#{}}}", b.own.prefix, row.id);
    let policy = row.policy().unwrap();
    let send = &b.outbox().engine().stores().send;
    let mut seen = Vec::new();
    for is_filled in [false, true] {
        if is_filled {
            b.own.by_hand(&["EVAL", FILL, "1", &prefix]);
        }
        b.own.clock.advance(Duration::from_secs(60));
        b.add_many((0..20).map(|n| NewNotice::new("sync", n).unwrap()).collect()).await.unwrap();
        let claim = Claim::new(&policy, "w", ClaimWhat::Slice(Status::NotSent), 20);
        let claiming = async {
            send.due(true).await.unwrap();
            assert_eq!(send.claim(&claim).await.unwrap().notices.len(), 20);
        };
        let mut commands = commands(&prefix, claiming).await;
        let numbers = |command: &mut String| command.retain(|letter| !letter.is_ascii_digit());
        commands.iter_mut().for_each(numbers);
        seen.push(commands);
    }
    let is_of_ended =
        |command: &String| [":succeeded", ":dead_letter", ":cancelled"].iter().any(|status| command.contains(status));
    eprintln!(
        "a look and a claim of 20 run {} commands, and beside 30,000 ended notices {}",
        seen[0].len(),
        seen[1].len()
    );
    assert!(seen[0].len() > 20, "{seen:?}");
    assert_eq!(seen[0], seen[1]);
    assert!(!seen[1].iter().any(is_of_ended), "{seen:?}");
    let alice = b.outbox().operator("alice");
    let listed = commands(&prefix, async { _ = alice.list(&Filter::dead_letters(), None, 5).await.unwrap() }).await;
    assert!(listed.iter().any(is_of_ended), "the monitor misses a list of dead letters: {listed:?}");
    b.close();
}
