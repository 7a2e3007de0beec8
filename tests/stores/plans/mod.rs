//! Every statement over the notices finds its rows by an index, however many there are: none reads or sorts a table.
//!
//! The plans are those for empty tables, and for 100,000 live and ended notices with the statistics of then and of now.

mod access;
mod arguments;
mod audit;
mod ended;
mod instant;
mod narrow;

use access::Access;
use arguments::{arguments, filled_in};
use serde_json::Value;
use solid_notify::NotifyDef;
use solid_notify::sql::Dialect;
use solid_notify_sql::{SessionLimits, statement_texts};
use sqlx::{AssertSqlSafe, Connection, Row};
use test_support::{Database, TestDb, on_each_database};

on_each_database!(no_statement_reads_or_sorts_a_table_of_notices);

/// A step of a plan that reads or sorts notices, and its description.
type Step = (Access, String);

/// The parts of explaining and parsing a plan that differ per database.
trait Plans: Dialect {
    const GATHER_STATISTICS: &'static str;
    /// Stops the automatic gathering of statistics.
    const KEEP_STATISTICS: &'static str;

    /// The time so many seconds from now.
    fn seconds_from_now(seconds: &str) -> String;

    /// A number as text.
    fn as_text(number: &str) -> String {
        format!("CAST({number} AS char(10))")
    }

    /// The plan of a statement with these arguments for `$2` and so on; `$1`, the hand-turned clock, is not there.
    async fn explain(conn: &mut Self::Connection, text: &str, arguments: &[String]) -> Vec<Step>;
}

impl Plans for sqlx::Postgres {
    const GATHER_STATISTICS: &'static str = "VACUUM ANALYZE";
    const KEEP_STATISTICS: &'static str = "ALTER TABLE notify_msg SET (autovacuum_enabled = off);
        ALTER TABLE notify_msg_history SET (autovacuum_enabled = off)";

    fn seconds_from_now(seconds: &str) -> String {
        format!("now() + ({seconds}) * interval '1 second'")
    }

    /// Prepared, since the plan of a prepared statement is not made for its arguments.
    async fn explain(conn: &mut Self::Connection, text: &str, arguments: &[String]) -> Vec<Step> {
        let values = [&["NULL".to_owned()], arguments].concat();
        // The text shows most types, but not always those of numbers.
        for (number, other) in [("unknown", "unknown"), ("bigint", "unknown"), ("bigint", "text")] {
            let ty = |(n, value): (usize, &String)| match value.parse::<i64>() {
                _ if !text.contains(&format!("${}", n + 1)) => "text",
                Ok(_) => number,
                // The hand-turned clock, which these statements do not have.
                Err(_) if n == 0 && other == "text" => "bigint",
                Err(_) => other,
            };
            let types = values.iter().enumerate().map(ty).collect::<Vec<_>>().join(", ");
            sqlx::raw_sql("DEALLOCATE ALL").execute(&mut *conn).await.unwrap();
            let prepare = AssertSqlSafe(format!("PREPARE ours ({types}) AS {text}"));
            if sqlx::raw_sql(prepare).execute(&mut *conn).await.is_ok() {
                break;
            }
        }
        let values = values.join(", ");
        let sql = AssertSqlSafe(format!("EXPLAIN (FORMAT JSON) EXECUTE ours ({values})"));
        let row = sqlx::raw_sql(sql).fetch_one(conn).await.unwrap();
        let plan: String = row.try_get_unchecked(0).unwrap();
        let plan: Value = serde_json::from_str(&plan).unwrap();
        let mut steps = Vec::new();
        walk(&plan[0]["Plan"], &mut steps);
        steps
    }
}

/// Writes down the steps of a Postgres plan; true where one of them reads notices.
fn walk(node: &Value, steps: &mut Vec<Step>) -> bool {
    let kind = node["Node Type"].as_str().unwrap();
    let table = node["Relation Name"].as_str().or(node["Index Name"].as_str()).unwrap_or_default();
    let of_ours = ["notify_msg", "notify_inbox", "notify_audit"].iter().any(|of| table.starts_with(of));
    let mut reads = of_ours && kind != "ModifyTable";
    // The heap scan of a bitmap has its condition in the index scan below it.
    if reads && kind != "Bitmap Heap Scan" {
        // Columns of a domain are shown with a cast.
        let condition =
            node["Index Cond"].as_str().or(node["TID Cond"].as_str()).unwrap_or_default().replace(")::text =", " =");
        let condition = condition.replace(")::smallint =", " =");
        let index = node["Index Name"].as_str().unwrap_or_default();
        // The index of groups has entries of dead letters alone.
        let of_groups = index == "notify_msg_history_group" && condition.contains("def_id =");
        let access = if of_groups { Access::Group } else { Access::of_condition(&condition) };
        steps.push((access, format!("{kind} of {table} by {index} {condition}")));
    }
    for below in node["Plans"].as_array().into_iter().flatten() {
        reads |= walk(below, steps);
    }
    // A small queue slice that fits into one claim may be sorted. A list may not, but its page may.
    if reads && kind.contains("Sort") && !node["Plans"].to_string().contains("\"Limit\"") {
        let few = node["Plan Rows"].as_u64().unwrap() <= 500;
        steps.push((if few { Access::SortFew } else { Access::Sort }, format!("{kind} of {} rows", node["Plan Rows"])));
    }
    reads
}

impl Plans for sqlx::MySql {
    const GATHER_STATISTICS: &'static str = "ANALYZE TABLE notify_def, notify_msg, notify_msg_history, notify_inbox";
    const KEEP_STATISTICS: &'static str =
        "ALTER TABLE notify_msg STATS_AUTO_RECALC = 0; ALTER TABLE notify_msg_history STATS_AUTO_RECALC = 0";

    fn seconds_from_now(seconds: &str) -> String {
        format!("TIMESTAMPADD(SECOND, {seconds}, UTC_TIMESTAMP(6))")
    }

    async fn explain(conn: &mut Self::Connection, text: &str, arguments: &[String]) -> Vec<Step> {
        let sql = filled_in(text, arguments);
        // By default MySQL 9 draws a tree.
        let explain = format!("EXPLAIN /*!80000 FORMAT = TRADITIONAL */ {sql}");
        let rows = sqlx::raw_sql(AssertSqlSafe(explain)).fetch_all(conn).await.unwrap();
        let mut steps = Vec::new();
        for row in rows {
            let column = |name: &str| row.try_get_unchecked::<Option<String>, _>(name).unwrap().unwrap_or_default();
            let (table, kind, key, length) = (column("table"), column("type"), column("key"), column("key_len"));
            let (extra, length) = (column("Extra"), length.parse().unwrap_or(0));
            let access = match (kind.as_str(), key.as_str()) {
                ("const" | "eq_ref" | "range" | "unique_subquery", "PRIMARY") => Access::Id,
                ("range", "notify_inbox_first_seen") => Access::FirstSeen,
                // A key has 200 characters of four bytes, its length and whether it is null.
                (
                    "ref" | "range" | "eq_ref" | "const" | "unique_subquery" | "index_subquery",
                    "notify_msg_order" | "notify_msg_dedupe" | "notify_msg_under_way" | "notify_msg_tag",
                ) if length >= 811 => Access::Key,
                // A class has 30 characters of four bytes.
                ("range" | "ref", "notify_msg_history_dead") if length >= 131 => Access::Class,
                // A group has 8 bytes, and may be null.
                ("range" | "ref", "notify_msg_history_group") if length >= 17 => Access::Group,
                // The used length of the key: the definition has 8 bytes, the status 2, a time 8 or 9. It does not show a
                // search for the earliest time, but that needs only the first entry.
                ("range", _) if length >= 18 => Access::QueueSlice,
                ("ref", _) if length == 10 && extra.contains("Using index") => Access::QueueSlice,
                ("ref", _) if length == 10 => Access::Status,
                ("ref", _) if length == 8 => Access::Definition,
                _ => Access::Whole,
            };
            let step = format!("{kind} of {table} by {length} bytes of {key}, {extra}");
            if extra.contains("filesort") {
                steps.push((Access::Sort, step.clone()));
            }
            // MySQL also lists the table that is inserted into.
            if column("select_type") == "INSERT" {
                continue;
            }
            let of_ours = ["m", "o", "e", "notify_inbox"].contains(&table.as_str()) || table.starts_with("notify_msg");
            if of_ours {
                steps.push((access, step));
            }
        }
        steps
    }
}

impl Plans for sqlx::Sqlite {
    const GATHER_STATISTICS: &'static str = "ANALYZE";
    const KEEP_STATISTICS: &'static str = "";

    fn seconds_from_now(seconds: &str) -> String {
        format!("strftime('%Y-%m-%d %H:%M:%f', 'now', ({seconds}) || ' seconds')")
    }

    async fn explain(conn: &mut Self::Connection, text: &str, arguments: &[String]) -> Vec<Step> {
        let sql = filled_in(text, arguments);
        let rows = sqlx::raw_sql(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}"))).fetch_all(conn).await.unwrap();
        let details = rows.iter().map(|row| row.try_get_unchecked::<String, _>("detail").unwrap());
        let is_part = |step: &str| step.starts_with("CO-ROUTINE m") || step.starts_with("MATERIALIZE m");
        let mut parts = 0;
        let access = |step: String| {
            parts += usize::from(is_part(&step));
            // What another step has read.
            if step == "SCAN m" && parts > 0 {
                parts -= 1;
                return None;
            }
            let of_ours = ["m", "o", "e", "notify_msg", "notify_inbox"];
            let notices =
                of_ours.iter().any(|of| ["SCAN ", "SEARCH "].iter().any(|how| step.starts_with(&format!("{how}{of}"))));
            if step.contains("TEMP B-TREE") || step.contains("AUTOMATIC") {
                Some((Access::Sort, step))
            } else if notices {
                // A scan has no condition.
                let condition = step.split_once('(').map_or("", |(_, condition)| condition).replace('=', " =");
                Some((Access::of_condition(&condition), step))
            } else {
                None
            }
        };
        details.filter_map(access).collect()
    }
}

async fn no_statement_reads_or_sorts_a_table_of_notices<D: Database<Db: Plans>>() {
    let db = TestDb::<D>::with_real_clock().await;
    for name in ["most", "many", "few", "rare", "none"] {
        db.outbox.define_if_missing(NotifyDef::new(name)).await.unwrap();
    }
    let mut conn = our_connection(&db).await;
    let (mut bad, mut steps_seen) = (Vec::new(), 0);
    db.sql(D::Db::KEEP_STATISTICS).await;
    for tables in ["empty", "filled", "analyzed"] {
        match tables {
            "filled" => fill(&db).await,
            _ => db.sql(D::Db::GATHER_STATISTICS).await,
        }
        // MySQL and MariaDB plan at each execution.
        if tables == "empty" && <D::Db as sqlx::Database>::NAME == "MySQL" {
            continue;
        }
        bad.extend(narrow::bad_ways::<D::Db>(&mut conn, tables).await);
        // This one runs on the application's connections, whose plans we leave alone.
        let ours = |name: &str| tables != "empty" || !["duplicates", "lock_duplicates"].contains(&name);
        for (name, text) in
            statement_texts::<D::Db>().into_iter().filter(|(name, text)| has_many_rows(name, text) && ours(name))
        {
            for arguments in arguments(name, <D::Db as sqlx::Database>::NAME) {
                let steps = D::Db::explain(&mut conn, &text, &arguments).await;
                steps_seen += steps.len();
                // A list is not sorted where little is only believed.
                let few = if name.starts_with("list_") && tables == "filled" { &[][..] } else { &[Access::SortFew] };
                let is_bad = |(access, _): &&Step| !few.contains(access) && !Access::needed_by(name).contains(access);
                for (_, step) in steps.iter().filter(is_bad) {
                    let arguments: String = arguments.join(", ").chars().take(60).collect();
                    bad.push(format!("{name} ({arguments}…) {tables}: {step}"));
                }
            }
        }
    }
    assert!(bad.is_empty(), "\n{}", bad.join("\n"));
    assert!(steps_seen > 100, "only {steps_seen} steps were understood");
    db.close().await;
}

/// True for a statement over notices, or over many idempotency keys.
fn has_many_rows(name: &str, text: &str) -> bool {
    // Reads all live notices, without a lock, where a row has made a call fail.
    let is_rare = name == "damaged";
    !is_rare && text.contains("notify_msg") || ["purge_inbox", "old_keys", "forget_keys"].contains(&name)
}

/// A connection as the store opens one for its own work.
async fn our_connection<D: Database<Db: Plans>>(db: &TestDb<D>) -> <D::Db as sqlx::Database>::Connection {
    let long = std::time::Duration::from_secs(60);
    let limits = SessionLimits { statement: long, lock: long, idle: long };
    let options = D::Db::with_settings((*db.pool.connect_options()).clone(), &limits);
    let mut conn = <D::Db as sqlx::Database>::Connection::connect_with(&options).await.unwrap();
    D::Db::prepare_session(&mut conn, None).await.unwrap();
    conn
}

test_support::on_mysql_family!(batches_find_their_rows_by_their_ids_in_small_tables);

/// The optimizer would walk a small table row by row, and lock, and wait for, rows that are not in the batch.
async fn batches_find_their_rows_by_their_ids_in_small_tables<D: Database<Db = sqlx::MySql>>() {
    let db = TestDb::<D>::with_real_clock().await;
    db.outbox.define_if_missing(NotifyDef::new("sync")).await.unwrap();
    for _ in 0..5 {
        db.sql("INSERT INTO notify_msg (def_id, param) VALUES (1, '1')").await;
    }
    let (mut conn, mut bad) = (our_connection(&db).await, Vec::new());
    for name in ["lock", "remove", "reschedule", "extend", "extendable"] {
        let texts = statement_texts::<sqlx::MySql>();
        let (_, text) = texts.iter().find(|(other, _)| *other == name).unwrap();
        for arguments in arguments(name, "MySQL") {
            let steps = <sqlx::MySql as Plans>::explain(&mut conn, text, &arguments).await;
            bad.extend(
                steps
                    .into_iter()
                    .filter(|(access, _)| *access != Access::Id)
                    .map(|(_, step)| format!("{name}: {step}")),
            );
        }
    }
    assert!(bad.is_empty(), "\n{}", bad.join("\n"));
    db.close().await;
}

/// 100,000 live notices and 100,000 ended ones, of definitions of very different sizes.
async fn fill<D: Database<Db: Plans>>(db: &TestDb<D>) {
    add_live(db).await;
    add_ended(db, 0, NUMBERS).await;
    let (key, past) = (D::Db::as_text("n"), D::Db::seconds_from_now("-n"));
    db.sql(&format!(
        "INSERT INTO notify_inbox (receiver, sender, idempotency_key, first_seen)
         SELECT 'warehouse', 'shop', {key}, {past} FROM {NUMBER}"
    ))
    .await;
}

/// How many numbers `NUMBER` has.
const NUMBERS: u64 = 100_000;
const NUMBER: &str = "(SELECT a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d AS n
                       FROM digit a, digit b, digit c, digit e, digit f) AS numbers";
const DEF_ID: &str = "CASE WHEN n % 100 < 60 THEN 1 WHEN n % 100 < 90 THEN 2 WHEN n % 100 < 99 THEN 3 ELSE 4 END";

/// 100,000 live notices.
async fn add_live<D: Database<Db: Plans>>(db: &TestDb<D>) {
    db.sql("CREATE TABLE digit (d integer)").await;
    db.sql("INSERT INTO digit VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)").await;
    let (key, due) = (D::Db::as_text("n"), D::Db::seconds_from_now("n - 50000"));
    db.sql(&format!(
        "INSERT INTO notify_msg (def_id, param, status, next_call_time, ordering_key, dedupe_key, tag)
         SELECT {DEF_ID}, '{{}}', CASE WHEN n % 997 = 0 THEN 5 WHEN n % 7 = 0 THEN 4 WHEN n % 2 = 0 THEN 2 ELSE 0 END, {due},
                CASE WHEN n % 997 = 0 OR n % 7 = 0 THEN NULL WHEN n % 10 = 1 THEN 'one key' WHEN n % 10 = 2 THEN {key} END,
                CASE WHEN n % 10 = 3 THEN {key} END, CASE WHEN n % 10 = 4 THEN 'one tag' WHEN n % 10 = 5 THEN {key} END
         FROM {NUMBER}"
    ))
    .await;
}

/// So many ended notices, at most 100,000, after this many others.
async fn add_ended<D: Database<Db: Plans>>(db: &TestDb<D>, others: u64, count: u64) {
    let (key, past, first) = (D::Db::as_text("n"), D::Db::seconds_from_now("-n"), 200_000 + others);
    db.sql(&format!(
        "INSERT INTO notify_msg_history
             (id, def_id, param, status, fence, failures, crashes, create_time, finish_time, last_class, error_group, ordering_key,
              dedupe_key, tag)
         SELECT {first} + n, {DEF_ID}, '{{}}', CASE n % 3 WHEN 0 THEN 1 WHEN 1 THEN 3 ELSE 6 END,
                1, 0, 0, {past}, {past}, CASE WHEN n % 1000 = 1 THEN 'auth' WHEN n % 2 = 0 THEN 'timeout' END,
                CASE WHEN n % 3 = 1 THEN n % 50 END,
                CASE WHEN n % 10 = 1 THEN 'one key' WHEN n % 10 = 2 THEN {key} END, CASE WHEN n % 10 = 3 THEN {key} END,
                CASE WHEN n % 10 = 4 THEN 'one tag' WHEN n % 10 = 5 THEN {key} END
         FROM {NUMBER} WHERE n < {count}"
    ))
    .await;
}
