//! What a database server says of itself: version, settings that break promises, schema, rights, old transactions.
//!
//! A check is a statement and a judgement of the text that it returns. A statement that fails makes a finding and stops no other one.
//! Only the settings that matter differ from database to database: each has its list of checks.

mod check;
mod grants;
mod mysql;
mod postgres;
mod rights;
mod schema;
mod sqlite;
mod statements;

use std::collections::BTreeSet;

use solid_notify_core::finding::Finding;

use crate::connections::Share;
use crate::dialect::Dialect;
use crate::dialect::statement::Statement;
use crate::examine::statements::{checks, may_be_pooled};

/// Examines the database of these connections.
pub(crate) async fn examine<DB: Dialect>(on: &Share<DB>) -> sqlx::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for check in checks(DB::KIND) {
        findings.push(match last_text(on, check.sql).await {
            Ok(text) => (check.judge)(text.as_deref().unwrap_or_default()),
            Err(error) => Finding::unknown(check.name, error.to_string()),
        });
    }
    if may_be_pooled(DB::KIND) {
        findings.push(pooler(on).await.unwrap_or_else(|error| Finding::unknown("pooler", error.to_string())));
    }
    let (has_tables, of_schema) = schema::examine(on).await;
    findings.extend(of_schema);
    if has_tables {
        findings.push(rights::examine(on).await);
        findings.extend(grants::examine(on).await);
    }
    Ok(findings)
}

/// Returns the last column of the first row.
async fn last_text<DB: Dialect>(on: &Share<DB>, sql: &'static str) -> sqlx::Result<Option<String>> {
    let rows = on.rows(&Statement::new(DB::KIND, sql), &[]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let columns = sqlx::Row::columns(row).len();
    DB::text(row, columns.saturating_sub(1))
}

/// How often each of two connections asks for its server process. Beside busy clients of a pooler, one look may meet two processes by
/// chance.
const LOOKS: usize = 10;

/// Finds out whether connections share the sessions of the server: two of them get one server process, or one of them gets several.
async fn pooler<DB: Dialect>(on: &Share<DB>) -> sqlx::Result<Finding> {
    let process = Statement::new(DB::KIND, "SELECT pg_backend_pid()::text");
    let (mut first, mut second) = (on.get().await?, on.get().await?);
    let (mut of_first, mut of_second) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..LOOKS {
        of_first.insert(DB::text(&DB::fetch(&mut first, &process, &[]).await?[0], 0)?);
        of_second.insert(DB::text(&DB::fetch(&mut second, &process, &[]).await?[0], 0)?);
    }
    first.done();
    second.done();
    Ok(match of_first.len() + of_second.len() > 2 || of_first == of_second {
        false => Finding::fine("pooler", "each connection has a session of its own"),
        true => Finding::warning(
            "pooler",
            "a pooler in transaction mode is in front of the server",
            "it works from PgBouncer 1.21 on, with max_prepared_statements; settings of sessions do not reach the server",
            "connect sweepers to the server directly, or check max_prepared_statements of the pooler",
        ),
    })
}
