//! The raw side on Redis: the least that enqueues, leases under a fence and keeps what was sent.
//!
//! A sorted set has what is due, a hash the values, a hash the fences of leases, and a sorted set what was sent, by time. A finish checks
//! the fence, so a worker that lost its lease changes nothing. There are no definitions, no retries and no limits.

use std::time::Duration;

use anyhow::{Result, ensure};
use redis::Script;
use redis::aio::ConnectionManager;

use crate::notice::{Parameter, handle};

/// As many as our side takes at once.
const BATCH: usize = 500;
/// How long to wait after a short batch, as on the databases.
const LINGER: Duration = Duration::from_millis(10);
const LEASE_MS: u32 = 60_000;

const NOW: &str = "local t = redis.call('TIME') local now = t[1] * 1000 + math.floor(t[2] / 1000) ";
const ADD: &str = "local first = redis.call('INCRBY', KEYS[3], #ARGV) - #ARGV
    for i, value in ipairs(ARGV) do
        redis.call('HSET', KEYS[2], first + i, value)
        redis.call('ZADD', KEYS[1], now, first + i)
    end
    return first + #ARGV";
const LEASE: &str = "local ids = {ARGV[3]}
    if not ARGV[3] then ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1]) end
    if #ids == 0 then return {0, {}} end
    local fence = redis.call('INCR', KEYS[3])
    local values, out, leases, claims = redis.call('HMGET', KEYS[2], unpack(ids)), {}, {}, {}
    for i, id in ipairs(ids) do
        local n = 2 * i
        leases[n - 1], leases[n], out[n - 1], out[n] = now + ARGV[2], id, id, values[i]
        claims[n - 1], claims[n] = id, fence
    end
    redis.call('HSET', KEYS[4], unpack(claims))
    redis.call('ZADD', KEYS[1], 'XX', unpack(leases)) return {fence, out}";
const FINISH: &str = "local held, mine, sent = redis.call('HMGET', KEYS[4], unpack(ARGV, 2)), {}, {}
    for i, fence in ipairs(held) do
        if fence == ARGV[1] then
            mine[#mine + 1] = ARGV[i + 1]
            sent[#sent + 1] = now
            sent[#sent + 1] = ARGV[i + 1]
        end
    end
    redis.call('ZREM', KEYS[1], unpack(mine)) redis.call('HDEL', KEYS[4], unpack(mine))
    redis.call('ZADD', KEYS[5], unpack(sent)) return #mine";

/// The scripts with a connection.
#[derive(Clone)]
pub struct Raw {
    link: ConnectionManager,
    keys: [String; 5],
    add: Script,
    lease: Script,
    finish: Script,
}

/// Leased messages under one fence, each with its value.
pub type Leased = (u64, Vec<(String, String)>);

impl Raw {
    /// Connects. The keys begin with this prefix.
    ///
    /// # Errors
    /// Errors of the server.
    pub async fn connect(url: &str, prefix: &str) -> Result<Self> {
        let script = |text: &str| Script::new(&(NOW.to_owned() + text));
        Ok(Self {
            link: super::connect(url).await?,
            keys: ["due", "values", "last", "claims", "sent"].map(|name| format!("{{{prefix}_raw}}:{name}")),
            add: script(ADD),
            lease: script(LEASE),
            finish: script(FINISH),
        })
    }

    fn call<'a>(&self, script: &'a Script) -> redis::ScriptInvocation<'a> {
        let mut invocation = script.prepare_invoke();
        for key in &self.keys {
            invocation.key(key);
        }
        invocation
    }

    /// Adds a message; returns its id.
    ///
    /// # Errors
    /// Errors of the server.
    pub async fn add(&mut self, order: i64) -> Result<i64> {
        let value = serde_json::to_string(&Parameter::new(order))?;
        Ok(self.call(&self.add).arg(value).invoke_async(&mut self.link.clone()).await?)
    }

    /// Queues `count` messages.
    ///
    /// # Errors
    /// Errors of the server.
    pub async fn fill(&self, count: usize) -> Result<()> {
        let count = i64::try_from(count)?;
        for first in (1..=count).step_by(1000) {
            let mut call = self.call(&self.add);
            for order in first..=count.min(first + 999) {
                call.arg(serde_json::to_string(&Parameter::new(order))?);
            }
            let _: i64 = call.invoke_async(&mut self.link.clone()).await?;
        }
        Ok(())
    }

    /// Leases one message.
    ///
    /// # Errors
    /// Errors of the server.
    pub async fn lease_one(&mut self, id: i64) -> Result<Leased> {
        Ok(self.call(&self.lease).arg(1).arg(LEASE_MS).arg(id).invoke_async(&mut self.link.clone()).await?)
    }

    /// Calls the no-op for each leased message, and finishes them.
    ///
    /// # Errors
    /// Errors of the server; and a lease that was lost.
    pub async fn handle_and_finish(&self, (fence, leased): &Leased) -> Result<()> {
        let mut finish = self.call(&self.finish);
        finish.arg(*fence);
        for (id, value) in leased {
            handle(value)?;
            finish.arg(id);
        }
        let finished: usize = finish.invoke_async(&mut self.link.clone()).await?;
        ensure!(finished == leased.len(), "{finished} of {} leases were held", leased.len());
        Ok(())
    }

    /// Leases, calls the no-op and finishes, until `total` are done.
    ///
    /// # Errors
    /// Errors of the server.
    pub async fn work(self, total: usize) -> Result<()> {
        let mut done = 0;
        while done < total {
            let leased: Leased =
                self.call(&self.lease).arg(BATCH).arg(LEASE_MS).invoke_async(&mut self.link.clone()).await?;
            if !leased.1.is_empty() {
                self.handle_and_finish(&leased).await?;
            }
            done += leased.1.len();
            if leased.1.len() < BATCH && done < total {
                tokio::time::sleep(LINGER).await;
            }
        }
        Ok(())
    }

    /// After a repetition: so many are queued, and so many kept.
    ///
    /// # Errors
    /// Fails where the numbers differ, with these.
    pub async fn check(&self, queued: usize, kept: usize) -> Result<()> {
        let [due, .., sent] = &self.keys;
        let mut pipe = redis::pipe();
        pipe.cmd("ZCARD").arg(due).cmd("ZCARD").arg(sent);
        let found: (usize, usize) = pipe.query_async(&mut self.link.clone()).await?;
        ensure!(found == (queued, kept), "{} of {queued} are queued, {} of {kept} are kept", found.0, found.1);
        Ok(())
    }
}
