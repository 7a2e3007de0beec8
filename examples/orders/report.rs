//! The fate of every line: read from the database, and compared with the warehouse's records.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::{Context, Result};
use axum::body::Bytes;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use solid_notify::operate::AttemptRecord;
use solid_notify::{ErrorClass, Status};
use sqlx::Row;
use sqlx::sqlite::{SqlitePool, SqliteRow};

use crate::order;
use crate::receiver::Receiver;

/// The width of the tables, in columns.
const WIDTH: u16 = 110;

/// The tables of notices are a contract, so they can be read like this. Ended notices are in the history.
const BOOKED: &str = "
    SELECT line, number, booked_by, notice_id, status, fence, crashes, worker, coalesce(errors, '[]') AS errors,
           end_reason, (julianday(last_call_time) - julianday(h.create_time)) * 86400000 AS waited_ms
    FROM orders LEFT JOIN notify_msg_history h ON h.id = notice_id
    ORDER BY line";

/// A booked order and its notice.
struct Booked {
    line: usize,
    number: String,
    booked_by: String,
    notice_id: i64,
    status: Option<Status>,
    attempts: i64,
    crashes: i64,
    /// The process that made the last attempt.
    sender: String,
    errors: Vec<AttemptRecord>,
    end_reason: String,
    /// From the booking to the last attempt.
    waited_ms: f64,
}

/// A line that was not booked; without a number if it is not an order.
type Refused = (i64, Option<String>, String);

/// The fate of a booked order, in the order of the table.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    SentAtOnce,
    Waited,
    Failed(usize),
    TimedOut,
    SenderKilled,
    DeadLetter,
    NotEnded,
}

impl Booked {
    fn read(row: &SqliteRow) -> Result<Self> {
        // The left join gives nulls for a notice that has not ended.
        let number = |column| Ok::<_, sqlx::Error>(row.try_get::<Option<i64>, _>(column)?.unwrap_or_default());
        let text = |column| Ok::<_, sqlx::Error>(row.try_get::<Option<String>, _>(column)?.unwrap_or_default());
        Ok(Self {
            line: usize::try_from(number("line")?)?,
            number: text("number")?,
            booked_by: text("booked_by")?,
            notice_id: number("notice_id")?,
            status: row.try_get::<Option<i64>, _>("status")?.and_then(Status::from_code),
            attempts: number("fence")?,
            crashes: number("crashes")?,
            sender: process(&text("worker")?).to_owned(),
            errors: serde_json::from_str(&text("errors")?)?,
            end_reason: text("end_reason")?,
            waited_ms: row.try_get::<Option<f64>, _>("waited_ms")?.unwrap_or_default(),
        })
    }

    fn fate(&self) -> Fate {
        match self.status {
            Some(Status::DeadLetter) => Fate::DeadLetter,
            Some(Status::Succeeded) if self.crashes > 0 => Fate::SenderKilled,
            Some(Status::Succeeded) if self.errors.iter().any(|error| error.class == ErrorClass::Timeout.as_str()) => {
                Fate::TimedOut
            }
            Some(Status::Succeeded) if !self.errors.is_empty() => Fate::Failed(self.errors.len()),
            Some(Status::Succeeded) if self.sender != self.booked_by => Fate::Waited,
            Some(Status::Succeeded) => Fate::SentAtOnce,
            _ => Fate::NotEnded,
        }
    }

    /// Returns true if one process tried without success and another one delivered it.
    fn changed_hands(&self) -> bool {
        self.errors.iter().any(|error| process(&error.node) != self.sender)
    }

    /// Describes its attempts in words.
    fn story(&self) -> String {
        let Self { number, sender, waited_ms, .. } = self;
        let tried: Vec<_> = self.errors.iter().map(|error| process(&error.node)).collect();
        match tried.as_slice() {
            [] if self.sender == self.booked_by => format!("{number}: sent {waited_ms:.0} ms after it was booked"),
            [] => format!("{number}: booked by {}, sent by {sender} after {waited_ms:.0} ms", self.booked_by),
            tried => format!("{number}: tried by {}, sent by {sender} after {waited_ms:.0} ms", tried.join(", ")),
        }
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SentAtOnce => f.write_str("sent at once"),
            Self::Waited => f.write_str("waited while no sweeper lived, then sent"),
            Self::Failed(1) => f.write_str("failed once, then sent"),
            Self::Failed(2) => f.write_str("failed twice, then sent"),
            Self::Failed(times) => write!(f, "failed {times} times, then sent"),
            Self::TimedOut => f.write_str("timed out, then sent"),
            Self::SenderKilled => f.write_str("killed while being sent, then sent again"),
            Self::DeadLetter => f.write_str("dead letter"),
            Self::NotEnded => f.write_str("NOT ENDED"),
        }
    }
}

/// Returns the process in a worker's id, which is `name-pid-random`.
fn process(worker: &str) -> &str {
    worker.rsplitn(3, '-').last().unwrap_or(worker)
}

/// Prints the tables. Returns whether the warehouse has exactly the booked orders.
pub async fn print(pool: &SqlitePool, input: &[u8], receiver: &Receiver) -> Result<bool> {
    let rows = sqlx::query(BOOKED).fetch_all(pool).await.context("reading what became of the orders")?;
    let booked = rows.iter().map(Booked::read).collect::<Result<Vec<_>>>()?;
    let refused: Vec<Refused> =
        sqlx::query_as("SELECT line, number, reason FROM refused ORDER BY line").fetch_all(pool).await?;
    println!("{}", overview(&booked, &refused));
    if booked.iter().any(|order| order.fate() == Fate::DeadLetter) {
        println!("\nDead letters:\n{}", dead_letters(&booked));
    }
    let mistakes = mistakes(&booked, input, receiver);
    if mistakes.is_empty() {
        let dead = booked.iter().filter(|order| order.fate() == Fate::DeadLetter).count();
        println!(
            "\nRight: the warehouse accepted exactly the delivered orders ({}), each once and byte for byte. It refused the \
             dead letters ({dead}),\nand never heard of what was rolled back or not an order ({}).",
            booked.len() - dead,
            refused.len()
        );
        if receiver.repeats() > 0 {
            println!("It got {} of them again and recognised them by their Idempotency-Key.", receiver.repeats());
        }
    }
    for mistake in &mistakes {
        println!("\nWRONG: {mistake}");
    }
    Ok(mistakes.is_empty())
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH);
    table.set_header(header.to_vec());
    table
}

fn overview(booked: &[Booked], refused: &[Refused]) -> Table {
    let mut fates: BTreeMap<Fate, Vec<&Booked>> = BTreeMap::new();
    for order in booked {
        fates.entry(order.fate()).or_default().push(order);
    }
    let mut table = table(&["what became of it", "lines", "for example"]);
    let mut add = |what: &str, count: usize, example: String| {
        table.add_row([what.to_owned(), count.to_string(), example]);
    };
    for (fate, orders) in &fates {
        let changed: Vec<_> = orders.iter().filter(|order| order.changed_hands()).collect();
        match fate {
            Fate::DeadLetter => add("dead letter", orders.len(), "see below".to_owned()),
            Fate::SentAtOnce => {
                let longest = orders.iter().map(|order| order.waited_ms).fold(0.0, f64::max);
                add("sent at once", orders.len(), format!("{}; all within {longest:.0} ms", orders[0].story()));
            }
            _ => add(&fate.to_string(), orders.len(), orders[0].story()),
        }
        if let Fate::Failed(_) = fate
            && let Some(example) = changed.first()
        {
            add("  of these, in flight at the kill", changed.len(), example.story());
        }
    }
    let (rolled_back, unreadable): (Vec<_>, Vec<_>) = refused.iter().partition(|(_, number, _)| number.is_some());
    if let Some((_, Some(number), reason)) = rolled_back.first() {
        add("rolled back and never sent", rolled_back.len(), format!("{number}: {reason}"));
    }
    if let Some((line, _, reason)) = unreadable.first() {
        add("not an order, skipped", unreadable.len(), format!("line {line}: {reason}"));
    }
    add("all lines", booked.len() + refused.len(), String::new());
    if let Some(column) = table.column_mut(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn dead_letters(booked: &[Booked]) -> Table {
    let mut table = table(&["notice", "order", "attempts", "reason"]);
    for order in booked.iter().filter(|order| order.fate() == Fate::DeadLetter) {
        let last = order.errors.last().map(|error| error.message.as_str()).unwrap_or_default();
        let mut reason = order.end_reason.clone();
        if !reason.contains(last) {
            reason.push_str("; the last: ");
            reason.push_str(last);
        }
        table.add_row([order.notice_id.to_string(), order.number.clone(), order.attempts.to_string(), reason]);
    }
    table
}

/// Returns what is wrong. Orders are compared with the input, byte for byte.
fn mistakes(booked: &[Booked], input: &[u8], receiver: &Receiver) -> Vec<String> {
    let texts: BTreeMap<usize, &[u8]> = order::lines(input).collect();
    let bodies = |orders: &mut dyn Iterator<Item = &Booked>| -> BTreeSet<Bytes> {
        orders.filter_map(|order| texts.get(&order.line)).map(|text| Bytes::copy_from_slice(text)).collect()
    };
    let all = bodies(&mut booked.iter());
    let delivered = bodies(&mut booked.iter().filter(|order| order.status == Some(Status::Succeeded)));
    let (heard, accepted) = receiver.bodies();
    let mut mistakes = Vec::new();
    for (what, these, are_not_among) in [
        ("was booked, but the warehouse never heard of it", &all, &heard),
        ("was never booked, but the warehouse heard of it", &heard, &all),
        ("counts as delivered, but the warehouse did not accept it", &delivered, &accepted),
        ("was accepted by the warehouse, but does not count as delivered", &accepted, &delivered),
    ] {
        let wrong = these.difference(are_not_among);
        mistakes.extend(wrong.map(|body| format!("this {what}: {}", String::from_utf8_lossy(body))));
    }
    if receiver.accepted() != accepted.len() {
        mistakes.push("the warehouse accepted an order twice".to_owned());
    }
    let open = booked.iter().filter(|order| order.fate() == Fate::NotEnded);
    mistakes.extend(open.map(|order| format!("notice {} of order {} has not ended", order.notice_id, order.number)));
    mistakes
}
