//! Each look into the audit finds its entries by an index, with the statistics of an empty table and of a filled one.

use solid_notify_sql::statement_texts;
use test_support::{Database, TestDb, on_each_database};

use super::{Access, Plans, our_connection};

on_each_database!(each_look_into_the_audit_has_an_index);

/// Entries are read in the order of an index; only the few steps of a notice are sorted.
async fn each_look_into_the_audit_has_an_index<D: Database<Db: Plans>>() {
    let db = TestDb::<D>::with_real_clock().await;
    let numbers = (0..1000).map(|n| format!("('w{}', 'a{}', {}, {n}, NULL, NULL, NULL)", n % 20, n % 10, n % 50));
    let steps = (0..1000).map(|n| format!("('w{}', 'a{}', {}, NULL, ',{n},', {n}, {n})", n % 20, n % 10, n % 50));
    let rows: Vec<String> = numbers.chain(steps).collect();
    for _ in 0..5 {
        let rows = rows.join(", ");
        db.sql(&format!(
            "INSERT INTO notify_audit (who, act, def_id, notice_id, notice_ids, first_id, last_id) VALUES {rows}"
        ))
        .await;
    }
    let mut conn = our_connection(&db).await;
    for statistics in ["", D::Db::GATHER_STATISTICS, "ANALYZE TABLE notify_audit"] {
        let is_mysql = <D::Db as sqlx::Database>::NAME == "MySQL";
        if statistics.contains("TABLE") != is_mysql && !statistics.is_empty() {
            continue;
        }
        if !statistics.is_empty() {
            db.sql(statistics).await;
        }
        for (name, index, by) in [
            ("audit", "notify_audit_time", "0"),
            ("audit_of_definition", "notify_audit_definition", "7"),
            ("audit_of_notice", "notify_audit_notice", "7"),
            ("audit_of_steps", "notify_audit_steps", "990"),
            ("audit_by_who", "notify_audit_who", "'w1'"),
            ("audit_by_act", "notify_audit_act", "'a1'"),
        ] {
            let texts = statement_texts::<D::Db>();
            let (_, text) = texts.iter().find(|(other, _)| *other == name).unwrap();
            let rest = ["'1970-01-01 00:00:00'", "'9999-12-31 23:59:59'", "10001", "51", "'%,990,%'"];
            let arguments: Vec<String> = std::iter::once(by).chain(rest).map(str::to_owned).collect();
            let steps = D::Db::explain(&mut conn, text, &arguments).await;
            let found = steps.iter().any(|(_, step)| step.contains(index));
            // As of lists: nothing is sorted where little is only believed.
            let few = if statistics.is_empty() { Access::SortFew } else { Access::Sort };
            let sorted = steps.iter().any(|(access, _)| [Access::Sort, few].contains(access));
            assert!(found && (!sorted || name == "audit_of_steps"), "{name} {statistics}: {steps:?}");
        }
    }
    db.close().await;
}
