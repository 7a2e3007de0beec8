//! The shop's own business: its orders, its tables, and the rules that make a transaction roll back.
//!
//! Plain sqlx; it handles notices only by their ids.

use std::fmt;

use anyhow::{Context, Result};
use rust_decimal::Decimal;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use sqlx::sqlite::{SqliteConnection, SqlitePool};

/// Pieces of every article before the first order.
const STOCK: i64 = 1000;

/// `refused` is written after the rollback, in a transaction of its own, so that the report can list those orders.
const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS orders (
        line      integer PRIMARY KEY,
        number    text NOT NULL UNIQUE,
        total     text NOT NULL,
        notice_id integer NOT NULL UNIQUE,
        booked_by text NOT NULL
    );
    CREATE TABLE IF NOT EXISTS stock (sku text PRIMARY KEY, pieces integer NOT NULL);
    CREATE TABLE IF NOT EXISTS refused (line integer PRIMARY KEY, number text, reason text NOT NULL);
";

pub async fn create_tables(pool: &SqlitePool) -> Result<()> {
    sqlx::raw_sql(TABLES).execute(pool).await.context("creating the shop's tables")?;
    Ok(())
}

/// Returns the lines that are not blank, with their numbers.
pub fn lines(input: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let input = input.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(input);
    let numbered = input.split(|byte| *byte == b'\n').enumerate();
    numbered.map(|(index, line)| (index + 1, line.trim_ascii())).filter(|(_, line)| !line.is_empty())
}

/// Returns the last line that was booked or refused.
pub async fn lines_done(pool: &SqlitePool) -> Result<usize> {
    let last = "SELECT coalesce(max(line), 0) FROM (SELECT line FROM orders UNION ALL SELECT line FROM refused)";
    let last: i64 = sqlx::query_scalar(last).fetch_one(pool).await?;
    Ok(usize::try_from(last)?)
}

/// Returns how many booked orders have a notice that has not ended.
pub async fn undelivered(pool: &SqlitePool) -> Result<i64> {
    let live = "SELECT count(*) FROM notify_msg JOIN orders ON notice_id = notify_msg.id";
    Ok(sqlx::query_scalar(live).fetch_one(pool).await?)
}

/// The fields of an order that the shop reads; the others go to the warehouse unread.
#[derive(Deserialize)]
#[serde(expecting = "an object with `number`, `total` and `items`")]
struct Fields {
    number: String,
    #[serde(deserialize_with = "money")]
    total: Decimal,
    items: Vec<Item>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object with `sku`, `quantity` and `price`")]
struct Item {
    sku: String,
    quantity: u32,
    #[serde(deserialize_with = "money")]
    price: Decimal,
}

/// Reads a decimal from its digits as written, without a floating-point number.
fn money<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Decimal, D::Error> {
    let raw = <&RawValue>::deserialize(deserializer)?.get();
    let digits = raw.trim_matches('"');
    let number = Decimal::from_str_exact(digits).or_else(|_| Decimal::from_scientific(digits));
    number.map_err(|error| serde::de::Error::custom(format!("{raw} is no amount of money: {error}")))
}

/// An order, and the line that it was read from.
pub struct Order {
    pub json: Box<RawValue>,
    fields: Fields,
}

impl Order {
    pub fn read(line: &[u8]) -> Result<Self, Refused> {
        let unreadable = |what: &str, error: &dyn fmt::Display| {
            // The parser sees one line at a time, so its line number is always 1.
            let error = error.to_string().replace(" at line 1 column ", " at column ");
            Refused { number: None, reason: format!("{what}: {error}") }
        };
        let text = std::str::from_utf8(line).map_err(|error| unreadable("not UTF-8", &error))?;
        let json: Box<RawValue> = serde_json::from_str(text).map_err(|error| unreadable("not JSON", &error))?;
        let fields = serde_json::from_str(text).map_err(|error| unreadable("not an order", &error))?;
        Ok(Self { json, fields })
    }

    pub async fn insert(&self, tx: &mut SqliteConnection, line: usize, notice: i64, process: &str) -> Result<()> {
        let insert = "INSERT INTO orders (line, number, total, notice_id, booked_by) VALUES (?, ?, ?, ?, ?)
                      ON CONFLICT (number) DO NOTHING";
        let insert = sqlx::query(insert).bind(i64::try_from(line)?).bind(&self.fields.number);
        let insert = insert.bind(self.fields.total.to_string()).bind(notice).bind(process);
        if insert.execute(tx).await?.rows_affected() == 0 {
            return Err(self.refuse("its number was booked before").into());
        }
        Ok(())
    }

    pub async fn take_from_stock(&self, tx: &mut SqliteConnection) -> Result<()> {
        for Item { sku, quantity, .. } in &self.fields.items {
            let first = "INSERT INTO stock (sku, pieces) VALUES (?, ?) ON CONFLICT DO NOTHING";
            sqlx::query(first).bind(sku).bind(STOCK).execute(&mut *tx).await?;
            let take = "UPDATE stock SET pieces = pieces - ?2 WHERE sku = ?1 AND pieces >= ?2";
            let taken = sqlx::query(take).bind(sku).bind(quantity).execute(&mut *tx).await?;
            if taken.rows_affected() == 0 {
                return Err(self.refuse(format!("fewer than {quantity} pieces of {sku} are in stock")).into());
            }
        }
        Ok(())
    }

    pub fn check_total(&self) -> Result<(), Refused> {
        let price = |item: &Item| item.price.checked_mul(item.quantity.into());
        let sum = self.fields.items.iter().try_fold(Decimal::ZERO, |sum, item| sum.checked_add(price(item)?));
        let Fields { total, .. } = self.fields;
        match sum {
            Some(sum) if sum == total => Ok(()),
            Some(sum) => Err(self.refuse(format!("its total is {total}, but its items add up to {sum}"))),
            None => Err(self.refuse("its items add up to more than can be computed")),
        }
    }

    fn refuse(&self, reason: impl Into<String>) -> Refused {
        Refused { number: Some(self.fields.number.clone()), reason: reason.into() }
    }
}

/// Why a line was not booked. Other errors (for instance of the database) stop the shop.
#[derive(Debug)]
pub struct Refused {
    /// None if the line could not be read, so that no transaction was begun for it.
    number: Option<String>,
    reason: String,
}

impl Refused {
    /// Returns the reason if `error` concerns this order alone, otherwise the error. For instance a notice may be too
    /// large.
    pub fn from_error(error: anyhow::Error, order: &Order) -> Result<Self> {
        if let Some(solid_notify::Error::InvalidNotice { problem, .. }) = error.downcast_ref() {
            return Ok(order.refuse(problem));
        }
        error.downcast()
    }

    pub async fn note(&self, pool: &SqlitePool, line: usize) -> Result<()> {
        let insert = sqlx::query("INSERT INTO refused (line, number, reason) VALUES (?, ?, ?)");
        insert.bind(i64::try_from(line)?).bind(&self.number).bind(&self.reason).execute(pool).await?;
        Ok(())
    }
}

impl std::error::Error for Refused {}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.number {
            Some(number) => write!(f, "order {number} rolled back: {}", self.reason),
            None => write!(f, "skipped, {}", self.reason),
        }
    }
}
