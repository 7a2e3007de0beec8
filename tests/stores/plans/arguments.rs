//! The arguments of the statements when the test reads their plans.

use serde_json::{Value, json};

/// Values for `$2` and so on, as SQL; several lists where the plan may depend on them.
pub fn arguments(statement: &str, database: &str) -> Vec<Vec<String>> {
    let batch = |count: i64, object: fn(i64) -> Value| {
        let objects: Vec<Value> = (0..count).map(|n| object(100 + 7 * n)).collect();
        format!("'{}'", Value::from(objects))
    };
    let batches = |object: fn(i64) -> Value| [1, 500].map(|count| vec![batch(count, object)]).to_vec();
    let list = |values: &[&str]| values.iter().map(ToString::to_string).collect::<Vec<_>>();
    // Definition and status: big queue slices, small ones, and an empty one.
    let each_slice = |statuses: [&str; 2], more: &[&str]| -> Vec<Vec<String>> {
        let slices = ["1", "2", "3", "4", "5"].map(|def_id| statuses.map(|status| list(&[def_id, status])));
        slices.into_iter().flatten().map(|slice| [slice, list(more)].concat()).collect()
    };
    // Ids or fences, as `Arg::Ids` passes them.
    let listed = |count: i64, of: fn(i64) -> i64| {
        let joined = (0..count).map(|n| of(n).to_string()).collect::<Vec<_>>().join(",");
        match database {
            "PostgreSQL" => format!("'{{{joined}}}'"),
            "MySQL" => joined,
            _ => format!("'[{joined}]'"),
        }
    };
    let ids = |count: i64| listed(count, |n| 100 + 7 * n);
    let each_ids = || [1, 500].map(|count| vec![ids(count)]).to_vec();
    let settled = |id: i64| {
        json!({ "notice_id": id, "new_status": 1, "after_ms": 5, "new_failures": 1, "new_crashes": 0,
                "new_errors": null, "new_class": null, "new_description": null, "new_response": null, "new_group": null, "reason": null })
    };
    let new = |id: i64| {
        json!({ "place": id, "owner": 1, "param": "{}", "description": null, "trace_context": null,
                "ordering_key": null, "dedupe_key": id.to_string(), "until_ended": 1, "tag": null, "max_tries": null,
                "expires_at": null, "send_at": null, "delay": 5 })
    };
    let times = ["'1970-01-01 00:00:00'", "'9999-12-31 23:59:59'", "10001", "501"];
    match statement {
        "insert_bare" | "insert_known" | "definition_id" | "definition_id_now" | "definition_ids" | "own_server"
        | "add_ticks" | "add_own" => Vec::new(),
        // `narrow.rs` reads their plans, one for each way.
        narrow if narrow.contains("_narrow_") => Vec::new(),
        // MySQL shows the table that VALUES go into as read.
        "insert" | "insert_keyed" if database == "MySQL" => Vec::new(),
        "insert" | "insert_keyed" => {
            vec![list(&[
                "'most'",
                "'{}'",
                "NULL",
                "NULL",
                "'one key'",
                "'17'",
                "1",
                "'t'",
                "7",
                "5",
                "NULL",
                "0",
                "NULL",
            ])]
        }
        "insert_many" | "insert_many_keyed" => batches(new),
        "keep_skipped_key" => vec![list(&["107", "'one key'", "1"])],
        "duplicates" | "lock_duplicates" => batches(|id| json!({ "owner": 1, "own_key": id.to_string() })),
        "due" => {
            let marks = json!([{ "owner": 1, "from_0": 5, "from_2": 5, "from_5": 5, "from_4": 5 }]);
            vec![list(&["'[]'"]), vec![format!("'{marks}'")]]
        }
        "overdue" => ["1", "500"].iter().flat_map(|limit| each_slice(["0", "5"], &[limit, "5"])).collect(),
        "claim_slice" | "claim_crash_looping" => {
            ["1", "20", "500"].iter().flat_map(|limit| each_slice(["0", "5"], &[limit, "'w'", "60000", "5"])).collect()
        }
        "part" => ["50", "1000"].iter().flat_map(|size| each_slice(["0", "5"], &[size, "5"])).collect(),
        "lock_first" => {
            let keys = |id: i64| json!({ "own_key": if id == 100 { "one key".into() } else { id.to_string() } });
            [1, 500].map(|count| vec!["1".to_owned(), batch(count, keys)]).to_vec()
        }
        "oldest_blocked" => ["1", "5"].map(|id| list(&[id, "10000"])).to_vec(),
        "first_blocked" => batches(|id| json!({ "owner": 1, "own_key": id.to_string() })),
        "block" => [1, 500].map(|count| vec![ids(count), "600000".to_owned()]).to_vec(),
        "claim_picked" => {
            let picked = |count: i64| ["0", "5"].map(|status| list(&[status, &ids(count), "'w'", "60000"]));
            [1; 5].into_iter().chain([20, 500]).flat_map(picked).collect()
        }
        "claim_ids" | "claim_fresh" => {
            [1, 20, 500].map(|count| each_slice(["0", "5"], &[&ids(count), "'w'", "60000"])).concat()
        }
        "claim_keys" => {
            let keys = |id: i64| json!({ "own_key": if id == 100 { "one key".into() } else { id.to_string() } });
            [1, 500].map(|count| each_slice(["0", "5"], &[&batch(count, keys), "'w'", "60000"])).concat()
        }
        "settle" => batches(|id| {
            json!({ "notice_id": id, "fence": 0, "was": 5, "overdue": 0, "ends": id % 2, "keep": 1, "new_status": 1, "after_ms": 5,
                    "new_failures": 1, "new_crashes": 0, "new_errors": null, "new_class": null, "new_description": null, "new_response": null, "new_group": null,
                    "reason": null })
        }),
        "settle_kept" | "settle_gone" => [1, 500].map(|count| vec![ids(count), listed(count, |_| 0)]).to_vec(),
        "lock" => batches(|id| json!({ "notice_id": id, "fence": 0, "was": 5, "overdue": 0 })),
        "archive" | "reschedule" => batches(settled),
        "pass_on" | "pass_on_keyed" | "holders" => batches(|id| json!({ "place": id, "notice_id": id, "target": 2 })),
        "remove" | "evict" | "dead_with_ids" | "verify" | "still_first" | "archive_bare" | "keys_of" | "free"
        | "unblock" | "keyed" | "repair" => each_ids(),
        "extend" | "extendable" => batches(|id| json!({ "notice_id": id, "fence": 0, "lease": 60000 })),
        "claimed_by" => vec![list(&["'no-node'", "500"])],
        "find" | "lock_live" | "lock_ended" | "answerable" | "answerable_if_free" | "ended" | "ended_if_free"
        | "has_ended" | "stored_where" => {
            vec![list(&["777"]), list(&["200777"])]
        }
        "last_id" => vec![Vec::new()],
        "renumber" => vec![list(&["777", "5"])],
        "old_authorities" | "old_passing" => vec![list(&["500"])],
        "is_ended" => vec![list(&["777"]), list(&["200777"])],
        "lock_act" | "lock_to_pass_on" | "param_bytes" | "param_text" => vec![list(&["777", "1"])],
        "list_ended_newest" | "list_ended_oldest" => each_slice(["1", "3"], &times),
        "list_live_newest" | "list_live_oldest" => each_slice(["0", "5"], &times),
        "list_dead_newest" | "list_dead_oldest" => each_slice(["'auth'", "'timeout'"], &times),
        "count_ended" | "count_live" => each_slice(["0", "3"], &times),
        "list_group_newest" | "list_group_oldest" => each_slice(["7", "0"], &times),
        "count_group" => each_slice(["7", "0"], &times),
        "groups" => ["1", "2", "5"].map(|id| list(&[id, times[0], times[1], "500"])).to_vec(),
        "count_dead" => each_slice(["'auth'", "'-'"], &times),
        "next_class" | "lock_alert" | "lock_alert_now" | "look_alert" => each_slice(["''", "'auth'"], &[]),
        "retry_groups" => ["1", "2", "4"].map(|def_id| list(&[def_id, "1000000"])).to_vec(),
        "lock_to_revive" | "lock_to_purge" => batches(|id| json!({ "notice_id": 200_000 + id, "fence": 1, "was": 3 })),
        "revive" | "retime_step" => batches(|id| json!({ "notice_id": 200_000 + id, "due": 5 })),
        "retime" | "rewrite" | "rewrite_errors" | "nack" | "ack_late" => vec![list(&["777", "'5'"])],
        "recount" => vec![list(&["777", "1", "0"])],
        "note_progress" => vec![list(&["777", "1", "'{}'"])],
        "ahead" => ["'one key'", "'17'"].map(|key| list(&["1", key, "777"])).to_vec(),
        "forget_keys" => {
            let keys = |id: i64| json!({ "receiver": "warehouse", "sender": "shop", "own_key": id.to_string() });
            [1, 500].map(|count| vec![batch(count, keys), "1000".to_owned()]).to_vec()
        }
        "purge_inbox" | "old_keys" => ["1", "500"].map(|limit| list(&["1000", limit, "0"])).to_vec(),
        "purgeable" => each_slice(["1", "3"], &["1000", "500", "0"]),
        "lock_purgeable" | "cancel" => each_ids().into_iter().map(|ids| [ids, list(&["1", "1000"])].concat()).collect(),
        "purge_definition" | "take_count" | "count_sending" => ["1", "5"].map(|id| list(&[id, "1000"])).to_vec(),
        other => panic!("tell this test the arguments of {other}"),
    }
}

/// A statement with its values in its text; `$1`, the hand-turned clock, is not there.
pub fn filled_in(text: &str, arguments: &[String]) -> String {
    let numbered = arguments.iter().enumerate().rev();
    let sql = numbered.fold(text.to_owned(), |sql, (n, value)| sql.replace(&format!("${}", n + 2), value));
    sql.replace("$1", "NULL")
}
