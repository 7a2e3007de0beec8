//! What `solid-notify serve` costs while nothing happens: memory, and the share of a core.
//!
//! `cargo build --profile dist -p solid-notify-cli && cargo run --release -p bench -- idle --program target/dist/solid-notify`. What must be
//! reached with 1,000 definitions on a database server: less than 40 MiB and less than 1 % of a core. On SQLite the figures include the database.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use solid_notify::{ConnectedOutbox, NotifyDef};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use tokio::time::sleep;

use crate::databases::{Product, Site};
use crate::processor_time;

const DEFINITIONS: usize = 1000;
/// Until all definitions are read and counted.
const WARM_UP: Duration = Duration::from_secs(90);
const MEASURED: Duration = Duration::from_secs(60);
const MOST_KIB: u64 = 40 * 1024;
const MOST_PERCENT: f64 = 1.0;

/// Ends the process.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait().map(drop));
    }
}

/// Measures the program on this database. `quick`: ten definitions, for a second. Returns whether both targets are reached.
pub async fn measure(site: &Site, program: &Path, quick: bool) -> Result<bool> {
    ensure!(program.is_file(), "{} is missing: build the program first", program.display());
    let schema = format!("notify_idle_{:016x}", fastrand::u64(..));
    let url = match site.product {
        Product::Postgres => {
            PgConnection::connect(&site.url).await?.execute(AssertSqlSafe(format!("CREATE SCHEMA {schema}"))).await?;
            format!("{}?options[search_path]={schema}", site.url)
        }
        Product::Sqlite => format!("sqlite://{}?mode=rwc", site.url),
        other => anyhow::bail!("idle measures on postgres and sqlite, not on {other}"),
    };
    let reached = on(&url, program, site.product, quick).await;
    if site.product == Product::Postgres {
        PgConnection::connect(&site.url).await?.execute(AssertSqlSafe(format!("DROP SCHEMA {schema} CASCADE"))).await?;
    }
    reached
}

async fn on(url: &str, program: &Path, product: Product, quick: bool) -> Result<bool> {
    let outbox = ConnectedOutbox::connect(url).await?;
    outbox.migrate().await?;
    for number in 0..if quick { 10 } else { DEFINITIONS } {
        let config = format!(r#"{{"url":"http://127.0.0.1:1/{number}"}}"#);
        let definition = NotifyDef::new(format!("definition_{number:04}")).handler("webhook").handler_config(config);
        outbox.define_if_missing(definition).await?;
    }
    drop(outbox);
    let mut serve = Command::new(program);
    serve.args(["serve", "--listen", "127.0.0.1:0"]).env("SOLID_NOTIFY_URL", url).env("SOLID_NOTIFY_LOG", "off");
    let mut served = Served(serve.stdin(Stdio::null()).spawn().context("cannot start the program")?);
    let (warm_up, measured) =
        if quick { (Duration::from_secs(1), Duration::from_secs(1)) } else { (WARM_UP, MEASURED) };
    sleep(warm_up).await;
    let pid = served.0.id();
    let used = || processor_time::with_children(pid).context("there is no /proc");
    let before = used()?;
    sleep(measured).await;
    let percent = 100.0 * (used()? - before) / measured.as_secs_f64();
    let resident = resident_kib(pid)?;
    ensure!(served.0.try_wait()?.is_none(), "the program has ended");
    let ok = resident < MOST_KIB && percent < MOST_PERCENT;
    println!(
        "idle on {product}: {percent:.2} % of a core, {:.1} MiB resident",
        f64::from(u32::try_from(resident)?) / 1024.0
    );
    Ok(ok || product == Product::Sqlite)
}

/// Returns the resident memory of a process, that of its file included.
fn resident_kib(pid: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).context("there is no /proc")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
