//! How statements find their notices, and how each of them may.

/// How a statement finds its notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// By their ids.
    Id,
    /// By definition, status and time: a queue slice, in the order of its times.
    QueueSlice,
    /// By definition and status: a whole queue slice.
    Status,
    /// By definition.
    Definition,
    /// By definition and the class of dead letters.
    Class,
    /// By definition and the group of dead letters.
    Group,
    /// By definition and a key.
    Key,
    /// Idempotency keys by the time when they were first seen.
    FirstSeen,
    /// Not by a search: the whole table, or a whole index.
    Whole,
    /// The found rows are sorted.
    Sort,
    /// The found rows are sorted, and the planner expects few.
    SortFew,
}

impl Access {
    /// What a statement may do.
    pub fn needed_by(statement: &str) -> &'static [Self] {
        match statement {
            "overdue" | "purgeable" | "count_ended" | "count_live" | "list_ended_newest" | "list_ended_oldest" => {
                &[Self::QueueSlice]
            }
            // SQLite sorts the page once more, whose rows it has merged: `instant.rs` counts what is read.
            "list_live_newest" | "list_live_oldest" => &[Self::QueueSlice, Self::Sort],
            "list_dead_newest" | "list_dead_oldest" | "count_dead" | "next_class" => &[Self::Class],
            "list_group_newest" | "list_group_oldest" | "count_group" => &[Self::Group],
            // The groups are sorted by their size, and each has an example.
            "groups" => &[Self::Group, Self::Id, Self::Sort],
            "ahead" => &[Self::Key],
            // The first entry of the queue slice: nothing is sorted.
            "due" | "look_alert" | "take_count" | "count_sending" => &[Self::QueueSlice, Self::Status],
            // Postgres and SQLite also update what they found.
            "claim_slice" | "claim_crash_looping" => &[Self::QueueSlice, Self::Id, Self::Key],
            "oldest_blocked" => &[Self::Status],
            "part" => &[Self::QueueSlice, Self::Key],
            "claim_ids" | "claim_fresh" | "claim_keys" | "still_first" | "lock_first" | "first_blocked" => {
                &[Self::Id, Self::Key]
            }
            "duplicates" | "lock_duplicates" => &[Self::Key],
            "holders" => &[Self::Id, Self::Key],
            "insert_many" | "insert_many_keyed" | "pass_on" | "pass_on_keyed" => &[Self::Id, Self::Sort], // The batch is sorted.
            // Claimed notices are few, and so are groups.
            "claimed_by" | "retry_groups" => &[Self::Status, Self::Sort],
            "purge_definition" => &[Self::Definition],
            // The greatest id is the last entry of the primary key, so it needs no condition.
            "last_id" => &[Self::Whole],
            "purge_inbox" | "old_keys" => &[Self::FirstSeen, Self::Id],
            _ => &[Self::Id],
        }
    }

    /// The access that a condition on an index stands for.
    pub fn of_condition(condition: &str) -> Self {
        let has = |column: &str| condition.contains(column);
        if has("def_id =") && ["ordering_key =", "dedupe_key =", "unique_key =", "tag ="].into_iter().any(has) {
            return Self::Key;
        }
        if has("def_id =") && (has("dead_class") || has("last_class")) {
            return Self::Class;
        }
        if has("def_id =") && has("error_group") {
            return Self::Group;
        }
        match (has("def_id ="), has("status ="), has("next_call_time") || has("finish_time")) {
            (true, true, true) => Self::QueueSlice,
            (true, true, false) => Self::Status,
            (true, false, _) => Self::Definition,
            _ if has("id =") => Self::Id,
            _ if has("first_seen <") || has("first_seen<") => Self::FirstSeen,
            _ => Self::Whole,
        }
    }
}
