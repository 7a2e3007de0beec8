//! Timed tasks on Redis against raw scripts that do the least of a delayed queue with leases, called through the same client.
//!
//! The raw scripts keep the promise of a lease: a consumer that lost it changes nothing. A third side shows what that costs.
//!
//! `cargo run --release -p bench -- redis`. What must be reached: 0.85 of raw, and a claim that costs no more where a million
//! tasks are scheduled that are not due.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use futures_util::future::try_join_all;
use redis::Script;
use redis::aio::ConnectionManager;
use solid_notify::timed::{Redis, TaskLease, TaskOutcome, TimedTasks};
use test_servers::servers::{Durability, Server, redis as servers};

use crate::statistics::{Median, median};

const PRODUCERS: u32 = 8;
const BATCH: usize = 100;
const KIND: &str = "bench";
const VALUE: &str = r#"{"order":4711,"state":"booked","text":"sixty bytes of a task"}"#;

/// The least that keeps the promise of a lease: a sorted set and a hash, a claim that moves the score to the end of the lease under
/// a new number, and a finish that checks that number. It has no tries, no dead letters and no check for damage. `bare` omits
/// the number, so a consumer that lost its lease deletes the task of another one.
struct Raw {
    link: ConnectionManager,
    add: Script,
    claim: Script,
    finish: Script,
}

const ADD: &str = "local id = redis.call('INCR', KEYS[3]) redis.call('HSET', KEYS[2], id, ARGV[2])
    redis.call('ZADD', KEYS[1], now + ARGV[1], id) return id";
const CLAIM: &str = "local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1])
    if #ids == 0 then return {0, {}} end
    local fence = redis.call('INCR', KEYS[3])
    local values, out, leases, claims = redis.call('HMGET', KEYS[2], unpack(ids)), {}, {}, {}
    for i, id in ipairs(ids) do
        local n = 2 * i
        leases[n - 1], leases[n], out[n - 1], out[n] = now + ARGV[2], id, id, values[i]
        claims[n - 1], claims[n] = id, fence
    end
    redis.call('HSET', KEYS[4], unpack(claims))
    redis.call('ZADD', KEYS[1], unpack(leases)) return {fence, out}";
const FINISH: &str = "local held, mine = redis.call('HMGET', KEYS[4], unpack(ARGV, 2)), {}
    for i, fence in ipairs(held) do if fence == ARGV[1] then mine[#mine + 1] = ARGV[i + 1] end end
    redis.call('ZREM', KEYS[1], unpack(mine)) redis.call('HDEL', KEYS[2], unpack(mine))
    redis.call('HDEL', KEYS[4], unpack(mine)) return #mine";

impl Raw {
    async fn connect(url: &str, bare: bool) -> Result<Self> {
        let script = |text: &str| {
            let time = "local t = redis.call('TIME') local now = t[1] * 1000 + math.floor(t[2] / 1000) ";
            Script::new(&(time.to_owned() + text))
        };
        let claim = CLAIM.replace("redis.call('HSET', KEYS[4], unpack(claims))", "");
        let finish = "redis.call('ZREM', KEYS[1], unpack(ARGV, 2)) redis.call('HDEL', KEYS[2], unpack(ARGV, 2))";
        Ok(Self {
            link: redis::Client::open(url)?.get_connection_manager().await?,
            add: script(ADD),
            claim: script(if bare { &claim } else { CLAIM }),
            finish: Script::new(if bare { finish } else { FINISH }),
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
            let (fence, found): (u64, Vec<(String, Vec<u8>)>) =
                keys(&self.claim).arg(BATCH).arg(60_000).invoke_async(&mut link).await?;
            if found.is_empty() {
                return Ok(done);
            }
            done += found.len();
            let mut finish = keys(&self.finish);
            finish.arg(fence);
            for (id, value) in &found {
                let _: serde_json::Value = serde_json::from_slice(value)?;
                finish.arg(id);
            }
            let _: Option<i64> = finish.invoke_async(&mut link).await?;
        }
    }
}

fn keys(script: &Script) -> redis::ScriptInvocation<'_> {
    let mut invocation = script.prepare_invoke();
    invocation.key("{raw}:due").key("{raw}:values").key("{raw}:seq").key("{raw}:claims");
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
        let (lease, mut done) = (TaskLease::of(Duration::from_secs(60)), 0);
        loop {
            let due = self.0.claim::<serde_json::Value>(KIND, BATCH, &lease).await?;
            if due.tasks.is_empty() {
                return Ok(done);
            }
            done += due.tasks.len();
            let outcomes: Vec<_> = due.tasks.iter().map(|task| task.outcome(TaskOutcome::Finish)).collect();
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

/// The compared sides.
enum Side {
    Ours(Ours),
    Raw(Raw),
}

impl Side {
    async fn measure(&self, each: u32) -> Result<Rates> {
        let rate = |began: Instant| f64::from(each * PRODUCERS) / began.elapsed().as_secs_f64();
        let began = Instant::now();
        match self {
            Self::Ours(ours) => try_join_all((0..PRODUCERS).map(|_| ours.add(each))).await?,
            Self::Raw(raw) => try_join_all((0..PRODUCERS).map(|_| raw.add(each))).await?,
        };
        let (add, began) = (rate(began), Instant::now());
        let done = match self {
            Self::Ours(ours) => ours.drain().await?,
            Self::Raw(raw) => raw.drain().await?,
        };
        ensure!(done == usize::try_from(each * PRODUCERS)?, "{done} tasks were finished");
        Ok(Rates { add, drain: rate(began) })
    }
}

async fn compare(url: &str, repetitions: u16, tasks: u32, scheduled: usize) -> Result<()> {
    let prefix = format!("bench_{:x}", fastrand::u32(..));
    let ours = Ours(TimedTasks::new(Redis::builder(url).prefix(prefix).connect().await?));
    let each = tasks / PRODUCERS;
    let sides =
        [Side::Ours(ours), Side::Raw(Raw::connect(url, false).await?), Side::Raw(Raw::connect(url, true).await?)];
    let mut rounds = Vec::new();
    for round in 0..=usize::from(repetitions) {
        let mut rates = [const { None }; 3];
        for turn in 0..3 {
            let side = (round + turn) % 3;
            rates[side] = Some(sides[side].measure(each).await?);
        }
        // The first round warms up.
        if let ([Some(ours), Some(raw), Some(bare)], true) = (rates, round > 0) {
            rounds.push([ours, raw, bare]);
        }
    }
    tell("add", &rounds, 1, |rates| rates.add);
    tell("claim + finish", &rounds, 1, |rates| rates.drain);
    tell("claim + finish, to raw without a fence", &rounds, 2, |rates| rates.drain);
    let [Side::Ours(ours), ..] = &sides else { bail!("ours is the first") };
    with_many_scheduled(ours, each, scheduled, repetitions).await
}

fn tell(what: &str, rounds: &[[Rates; 3]], to: usize, figure: impl Fn(&Rates) -> f64) {
    let of = |values: Vec<f64>| median(&values);
    let ratio = of(rounds.iter().map(|rates| figure(&rates[0]) / figure(&rates[to])).collect());
    let ours = of(rounds.iter().map(|rates| figure(&rates[0])).collect());
    let raw = of(rounds.iter().map(|rates| figure(&rates[to])).collect());
    if let (Some(Median { value, low, high, .. }), Some(ours), Some(raw)) = (ratio, ours, raw) {
        println!("{what}: ours {:.0}/s, raw {:.0}/s, ratio {value:.2} [{low:.2}..{high:.2}]", ours.value, raw.value);
    }
}

/// Measures claim and finish without tasks that are not due, and then with so many of them.
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
