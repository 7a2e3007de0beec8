//! Definitions and operators, for the book: limits over all nodes, the switch, verbs, versions of definitions.
//!
//! ```text
//! cargo run --example guide_definitions
//! ```
//!
//! The chapters "Limits over all nodes", "Targets", "Dead letters and operator verbs", "Versions of definitions", "The columns of
//! notify_def" and "Timetables and windows" show the regions of this file.

use anyhow::{Context, Result, ensure};
// [alerts_imports]
use chrono::{TimeDelta, Utc};
use solid_notify::alert::AlertReason;
// [end]
// [verbs_imports]
use solid_notify::Filter;
use solid_notify::operate::{AuditFilter, BulkAct, BulkProgress, Position};
// [end]
// [versions_imports]
use anyhow::bail;
use solid_notify::definition::Updated;
// [end]
use solid_notify::{HttpStatus, NewNotice, Notice, NotifyDef, Outbox, OutboxExt, Status, VerbResult, add_notice};
use sqlx::Sqlite;
use sqlx::sqlite::SqlitePoolOptions;

#[tokio::main]
async fn main() -> Result<()> {
    let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    let outbox = Outbox::new(pool);
    outbox.migrate().await?;
    limits(&outbox).await?;
    targets(&outbox).await?;
    times(&outbox).await?;
    verbs(&outbox).await?;
    versions(&outbox).await?;
    alerts(&outbox).await
}

async fn limits(outbox: &Outbox<Sqlite>) -> Result<()> {
    // [limits]
    let sms = NotifyDef::new("sms")
        .rate_limit("100/1m") // at most 100 attempts begin within any minute
        .max_concurrency_total(4) // at most 4 are being sent at the same time
        .breaker_failures(10) // ten failures in a row open the circuit:
        .breaker_pause("2m"); // nothing is sent for 2 min, then one probe, until one succeeds
    outbox.define_if_missing(sms).await?;
    // [end]

    // [switch]
    let alice = outbox.operator("alice");
    alice.pause_all("the provider moves").await?; // all definitions, on every node; the audit records it
    alice.resume_all().await?;
    // [end]
    ensure!(alice.audit(&AuditFilter::all(), None, 10).await?.entries.len() >= 2, "the audit has both");
    Ok(())
}

async fn targets(outbox: &Outbox<Sqlite>) -> Result<()> {
    // [targets]
    outbox.define_if_missing(NotifyDef::new("order").handler("http")).await?;
    let erp = NotifyDef::target("order", "erp").handler_config(r#"{"url":"https://erp.example.org/orders"}"#);
    outbox.define_if_missing(erp).await?;
    let customs = NotifyDef::target("order", "customs").target_filter("@.amount >= 1000 && @.country != 'DE'");
    outbox.define_if_missing(customs).await?;
    for target in outbox.operator("alice").targets("order").await? {
        println!("{} of {:?}", target.name, target.target_of);
    }
    // [end]
    ensure!(outbox.operator("alice").targets("order").await?.len() == 2, "both are stored");
    Ok(())
}

async fn times(outbox: &Outbox<Sqlite>) -> Result<()> {
    // [windows]
    let at_night = "mon-fri 22:00-06:00; sat,sun 00:00-24:00 Europe/Berlin";
    outbox.define_if_missing(NotifyDef::new("sync_stock").send_window(at_night)).await?;
    // [end]
    let states = outbox.definitions().await?;
    ensure!(states.iter().all(|state| state.problems.is_empty()), "{states:?}");
    Ok(())
}

async fn alerts(outbox: &Outbox<Sqlite>) -> Result<()> {
    // [alerts]
    let alice = outbox.operator("alice");
    for open in alice.open_alerts(100).await? {
        println!("{} {} since {:?}, {} suppressed", open.definition, open.reason.as_str(), open.since, open.suppressed);
    }
    let until = Utc::now() + TimeDelta::hours(2);
    alice.silence("sync_order", None, until, "the ERP is in maintenance").await?; // all reasons
    alice.silence("send_invoice", AlertReason::Backlog, until, "month end").await?;
    alice.unsilence("sync_order", None).await?;
    alice.acknowledge("sync_order", AlertReason::FinalFailure).await?;
    // [end]
    let silenced = alice.open_alerts(100).await?.into_iter().filter(|alert| alert.silenced_until.is_some());
    ensure!(silenced.count() == 1, "the silence of the backlog");
    Ok(())
}

async fn verbs(outbox: &Outbox<Sqlite>) -> Result<()> {
    outbox.define_if_missing(NotifyDef::new("sync_order").enabled(false)).await?;
    let mut tx = outbox.begin().await?;
    let id = NewNotice::new("sync_order", 7)?.add(&mut tx).await?.id();
    for order in 100..160 {
        NewNotice::new("sync_order", order)?.add(&mut tx).await?;
    }
    tx.commit().await?;

    // [verbs]
    let alice = outbox.operator("alice");
    println!("{}", alice.explain(id).await?); // why it is not sent yet: "the definition sync_order is paused …"

    let timeouts = Filter::dead_letters().definition("sync_order").class("timeout");
    let page = alice.list(&timeouts, None, 50).await?; // the latest first; `page.next` begins the next page
    let preview = alice.preview(&timeouts).await?; // how many, of which classes, from when to when
    println!("{} in all, {} on this page", preview.total, page.notices.len());
    let done = alice.retry_all(&timeouts, "100/1m".parse()?).await?; // one becomes due every 600 ms
    println!("{} are sent again until {:?}", done.changed, done.last_due);

    let edited = alice.edit(id, 8).await?; // another parameter
    let cancelled = alice.cancel(id, "ordered by mistake").await?;
    let retried = alice.retry(id).await?; // also brings back a cancelled notice
    // [end]
    ensure!([edited, cancelled, retried] == [VerbResult::Applied; 3]);

    // [test_send]
    let test = alice.test_send("sync_order", 7).await?; // the parameter is checked as in `add_notice`
    println!("{}", alice.explain(test).await?);
    // [end]

    // [bulk]
    let of_outage = Filter::dead_letters().definition("sync_order").class("timeout");
    let act = alice.start_retry_all(&of_outage, "600/1m".parse()?).await?;
    println!("the bulk act {} has begun", act.id()); // in any process, `alice.bulk(id)` is its handle
    if let Some(BulkProgress { status, act: Some(BulkAct { done, .. }), .. }) = act.progress().await? {
        println!("{status:?}: {} notices are due again, after {} steps", done.changed, done.steps);
    }
    alice.cancel(act.id(), "the receiver is down again").await?; // stops it
    alice.retry(act.id()).await?; // continues it where it was
    // [end]
    let stopped = act.progress().await?.is_some_and(|progress| progress.status == Status::NotSent);
    ensure!(stopped, "it waits for a sweeper");

    let refused = refused_sms(outbox).await?;
    // [groups]
    for group in alice.groups(&Filter::dead_letters()).await? {
        println!("{} of {}: {} ({})", group.count, group.definition, group.message, group.class);
        if group.message == "HTTP status #" {
            let of_group = Filter::dead_letters().group(group.group);
            // As fast as its definition may send; without a `rate_limit`, 100 a minute.
            let row = alice.definition(group.def_id).await?;
            let rate = row.rate_limit.as_deref().unwrap_or("100/1m").parse()?;
            alice.retry_all(&of_group, rate).await?;
        }
    }
    // [end]
    let live = outbox.find(refused).await?.context("it is live")?;
    ensure!(live.status == Status::Failed, "{live:?}");

    // [filters]
    let of_order = Filter::live().tag("order:42"); // what is on its way for an order
    println!("{} are on their way", alice.list(&of_order, None, 50).await?.notices.len());

    let today = Utc::now() - TimeDelta::days(1);
    let refused = Filter::dead_letters().from(today).text("credit limit");
    for notice in &alice.list(&refused, None, 50).await?.notices {
        println!("{} {:?} {:?}", notice.id, notice.tag, notice.end_reason);
    }
    let chosen = Filter::dead_letters().ids([id]); // those that a person has marked in a list
    alice.retry_all(&chosen, "100/1m".parse()?).await?;

    let gone = alice.purge_all(&Filter::ended().tag("order:42"), "the customer asked for it").await?;
    println!("{} are deleted for good", gone.changed);
    // [end]

    // [pages]
    let (live, mut after) = (Filter::live(), None);
    loop {
        let page = alice.list(&live, after, 50).await?;
        for notice in &page.notices {
            println!("{} {} {:?}", notice.id, notice.definition, notice.status);
        }
        let Some(next) = page.next else { break };
        let text = next.to_string(); // for a URL: `/notices?after=…`
        after = Some(text.parse::<Position>()?); // and back; without a URL `after = Some(next)` is enough
    }
    // [end]
    // [audit]
    let of_notice = AuditFilter::all().notice(id); // all that people did to it, also by bulk verbs
    let timeline = alice.audit(&of_notice, None, 50).await?; // the latest first; `timeline.next` begins the next page
    for entry in &timeline.entries {
        println!("{} {} {}", entry.time, entry.who, entry.act);
    }
    // [end]
    ensure!(timeline.entries.len() == 3);
    ensure!(outbox.find(id).await?.is_some_and(|notice| notice.status == Status::NotSent && notice.param == "8"));
    Ok(())
}

/// Makes a dead letter. Returns its id.
async fn refused_sms(outbox: &Outbox<Sqlite>) -> Result<i64> {
    let mut tx = outbox.begin().await?;
    let id = add_notice(&mut tx, "sms", 7).await?.id();
    tx.commit().await?;
    let sweeper = outbox.sweeper().handler("sms", |_: Notice<i64>| async { Err(HttpStatus(422).into()) });
    sweeper.run_until_idle().await?;
    Ok(id)
}

async fn versions(outbox: &Outbox<Sqlite>) -> Result<()> {
    // [define]
    let in_code = NotifyDef::new("send_invoice").retry_interval("[5s,5m,1h,1d]");
    outbox.define_if_missing(in_code.clone()).await?; // a stored row wins: operators may have edited it

    let changed = in_code.timeout("10s");
    println!("{:?}", outbox.plan(&changed).await?); // what the next line will do; changes nothing
    outbox.define_or_replace(changed).await?; // the code wins; edits of operators stay in the versions
    // [end]

    // [update]
    let rows = outbox.definitions().await?.into_iter().map(|state| state.row);
    let seen = rows.into_iter().find(|row| row.name == "send_invoice").context("no such definition")?;
    match outbox.update(&seen, seen.clone().timeout("15s")).await? {
        Updated::Stored(row) => println!("the timeout is now {}", row.timeout),
        Updated::Conflict(row) => println!("another editor was faster: {row:?}"), // begin again with this row
        _ => println!("the row was deleted"),
    }
    // [end]

    // [versions]
    let alice = outbox.operator("alice");
    let seen = alice.definition("send_invoice").await?;
    let new = seen.clone().retry_interval("[1m,1h]").max_retry_times(2);
    println!("{}", alice.preview_edit(&seen, &new).await?); // the effect on the notices in flight; changes nothing
    let Updated::Stored(row) = alice.edit_definition(&seen, new).await? else { bail!("not changed") };
    alice.retime("send_invoice", "100/1m".parse()?).await?; // waiting retries take the new intervals, too

    for version in alice.versions("send_invoice").await? {
        println!("{} {} {} {:?}", version.version, version.who, version.act, version.differences); // the latest first
    }
    let rolled_back = alice.roll_back(&row, 1).await?; // only if the row is still the one that she saw
    // [end]
    ensure!(matches!(rolled_back, Updated::Stored(row) if row.retry_interval == "[5s,5m,1h,1d]"));
    Ok(())
}
