//! Timed tasks on Redis against raw scripts that do the least of a delayed queue with leases, called through the same client.
//!
//! `cargo run --release -p bench -- redis`. What must be reached: 0.85 of raw, and a claim that costs no more where a million
//! tasks are scheduled that are not due.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures_util::future::try_join_all;
use redis::Script;
use redis::aio::ConnectionManager;
use solid_notify::redis::{Lease, Outcome, Redis, TimedTasks};
use xtask::servers::{Durability, Server, redis as servers};

use crate::statistics::{Median, median};

const PRODUCERS: u32 = 8;
const BATCH: usize = 100;
const KIND: &str = "bench";
const VALUE: &str = r#"{"order":4711,"state":"booked","text":"sixty bytes of a task"}"#;

/// The least: a sorted set and a hash, a claim that moves the score to the end of the lease, no fence, no counting of tries, no
/// dead letters; damage is not looked for.
struct Raw {
    link: ConnectionManager,
    add: Script,
    claim: Script,
    finish: Script,
}

impl Raw {
    async fn connect(url: &str) -> Result<Self> {
        let time = "local t = redis.call('TIME') local now = t[1] * 1000 + math.floor(t[2] / 1000) ";
        let add = "local id = redis.call('INCR', KEYS[3]) redis.call('HSET', KEYS[2], id, ARGV[2]) \
            redis.call('ZADD', KEYS[1], now + ARGV[1], id) return id";
        let claim = "local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1]) \
            if #ids == 0 then return {} end \
            local values, out = redis.call('HMGET', KEYS[2], unpack(ids)), {} \
            for i, id in ipairs(ids) do redis.call('ZADD', KEYS[1], now + ARGV[2], id) out[i] = { id, values[i] } end return out";
        let finish = "for _, id in ipairs(ARGV) do redis.call('ZREM', KEYS[1], id) redis.call('HDEL', KEYS[2], id) end";
        Ok(Self {
            link: redis::Client::open(url)?.get_connection_manager().await?,
            add: Script::new(&format!("{time}{add}")),
            claim: Script::new(&format!("{time}{claim}")),
            finish: Script::new(finish),
        })
    }

    async fn add(&self, count: u32) -> Result<()> {
        let mut link = self.link.clone();
        for _ in 0..count {
            let _: i64 = keys(&self.add).arg(0).arg(VALUE).invoke_async(&mut link).await?;
        }
        Ok(())
    }

    async fn drain(&self) -> Result<usize> {
        let (mut link, mut done) = (self.link.clone(), 0);
        loop {
            let found: Vec<(String, Vec<u8>)> =
                keys(&self.claim).arg(BATCH).arg(60_000).invoke_async(&mut link).await?;
            if found.is_empty() {
                return Ok(done);
            }
            done += found.len();
            let mut finish = keys(&self.finish);
            for (id, value) in &found {
                let _: serde_json::Value = serde_json::from_slice(value)?;
                finish.arg(id);
            }
            let () = finish.invoke_async(&mut link).await?;
        }
    }
}

fn keys(script: &Script) -> redis::ScriptInvocation<'_> {
    let mut invocation = script.prepare_invoke();
    invocation.key("{raw}:due").key("{raw}:values").key("{raw}:seq");
    invocation
}

struct Ours(TimedTasks);

impl Ours {
    async fn add(&self, count: u32) -> Result<()> {
        let value = serde_json::value::RawValue::from_string(VALUE.to_owned())?;
        for _ in 0..count {
            self.0.add(KIND, Duration::ZERO, &value).await?;
        }
        Ok(())
    }

    async fn drain(&self) -> Result<usize> {
        let (lease, mut done) = (Lease::of(Duration::from_secs(60)), 0);
        loop {
            let due = self.0.claim::<serde_json::Value>(KIND, BATCH, &lease).await?;
            if due.tasks.is_empty() {
                return Ok(done);
            }
            done += due.tasks.len();
            let outcomes: Vec<_> = due.tasks.iter().map(|task| task.outcome(Outcome::Finish)).collect();
            ensure!(self.0.settle(KIND, &outcomes).await?.into_iter().all(|held| held), "a lease was lost");
        }
    }
}

/// Rates of one side: adds and claims with their finish, a second.
struct Rates {
    add: f64,
    drain: f64,
}

/// Measures and prints.
pub(crate) fn measure(runtime: &tokio::runtime::Runtime, repetitions: u16, quick: bool) -> Result<()> {
    let given = std::env::var("REDIS_URL").ok();
    let private = if given.is_none() { Some(servers::start_with(Durability::Default)?) } else { None };
    let url = given.or_else(|| private.as_ref().map(|server: &Server| server.url().to_owned())).context("no URL")?;
    let (tasks, scheduled) = if quick { (800, 20_000) } else { (40_000, 1_000_000) };
    runtime.block_on(compare(&url, repetitions, tasks, scheduled))
}

async fn compare(url: &str, repetitions: u16, tasks: u32, scheduled: usize) -> Result<()> {
    let raw = Raw::connect(url).await?;
    let prefix = format!("bench_{:x}", fastrand::u32(..));
    let ours = Ours(TimedTasks::new(Redis::builder(url).prefix(prefix).connect().await?));
    let each = tasks / PRODUCERS;
    let mut pairs = Vec::new();
    for round in 0..=repetitions {
        let ours_first = round % 2 == 0;
        let mut sides = [None, None];
        for is_ours in [ours_first, !ours_first] {
            let began = Instant::now();
            if is_ours {
                try_join_all((0..PRODUCERS).map(|_| ours.add(each))).await?;
            } else {
                try_join_all((0..PRODUCERS).map(|_| raw.add(each))).await?;
            }
            let added = began.elapsed();
            let began = Instant::now();
            let done = if is_ours { ours.drain().await? } else { raw.drain().await? };
            ensure!(done == usize::try_from(each * PRODUCERS)?, "{done} tasks were finished");
            let rate = |time: Duration| f64::from(each * PRODUCERS) / time.as_secs_f64();
            sides[usize::from(is_ours)] = Some(Rates { add: rate(added), drain: rate(began.elapsed()) });
        }
        // The first pair warms up.
        if let ([Some(raw), Some(ours)], true) = (sides, round > 0) {
            pairs.push((ours, raw));
        }
    }
    tell("add", &pairs, |rates| rates.add);
    tell("claim + finish", &pairs, |rates| rates.drain);
    with_many_scheduled(&ours, each, scheduled, repetitions).await
}

fn tell(what: &str, pairs: &[(Rates, Rates)], figure: impl Fn(&Rates) -> f64) {
    let of = |values: Vec<f64>| median(&values);
    let ratio = of(pairs.iter().map(|(ours, raw)| figure(ours) / figure(raw)).collect());
    let ours = of(pairs.iter().map(|(ours, _)| figure(ours)).collect());
    let raw = of(pairs.iter().map(|(_, raw)| figure(raw)).collect());
    if let (Some(Median { value, low, high, .. }), Some(ours), Some(raw)) = (ratio, ours, raw) {
        println!("{what}: ours {:.0}/s, raw {:.0}/s, ratio {value:.2} [{low:.2}..{high:.2}]", ours.value, raw.value);
    }
}

/// What a claim and finish cost without, and then with so many tasks that are not due.
async fn with_many_scheduled(ours: &Ours, each: u32, scheduled: usize, repetitions: u16) -> Result<()> {
    let measure = async || -> Result<Vec<f64>> {
        let mut rates = Vec::new();
        for _ in 0..repetitions {
            try_join_all((0..PRODUCERS).map(|_| ours.add(each))).await?;
            let began = Instant::now();
            let done = ours.drain().await?;
            rates.push(done as f64 / began.elapsed().as_secs_f64());
        }
        Ok(rates)
    };
    let alone = median(&measure().await?).context("no repetition")?.value;
    let hour = Duration::from_secs(3600);
    let ids = ours.0.add_batch(KIND, (0..scheduled).map(|n| (hour + Duration::from_millis(n as u64), n))).await?;
    let beside = median(&measure().await?).context("no repetition")?.value;
    println!(
        "claim + finish with {scheduled} scheduled: {beside:.0}/s, without {alone:.0}/s, ratio {:.2}",
        beside / alone
    );
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    ours.0.delete(KIND, &ids).await?;
    Ok(())
}
