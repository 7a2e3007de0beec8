//! The suite that every store must pass: a case for every promise of the design that a store can break.
//!
//! A case gets a fresh, empty [`Backend`] whose time is a hand-turned clock. [`conformance_suite!`](crate::conformance_suite)
//! makes a visible test of each case for a backend; it is the one list of the cases.
//!
//! What sweepers promise is not tested here: this crate does not know them.

pub mod adding;
pub mod claiming;
pub mod definitions;
pub mod keys;
pub mod leases;
pub mod purging;
pub mod settling;

use std::time::Duration;

use async_trait::async_trait;
use solid_notify_core::notice::Claimed;
use solid_notify_core::store::{Claim, ClaimWhat, Look, Settle, Settled, Store};
use solid_notify_core::transition::{Next, Transition};
use solid_notify_core::{Added, Error, HandClock, NewNotice, NoticeRecord, NotifyDef, Outbox, Receipt, Status};

/// A store under test, empty, with a clock of its own.
#[async_trait]
pub trait Backend: Send + Sync {
    /// The outbox over the store. It must go by [`Self::clock`].
    fn outbox(&self) -> &Outbox;

    /// The clock.
    fn clock(&self) -> &HandClock;

    /// Adds a notice in a transaction of its own and commits that.
    async fn add(&self, notice: NewNotice) -> Result<Added, Error>;

    /// Adds notices by one call in a transaction of its own and commits that.
    async fn add_many(&self, notices: Vec<NewNotice>) -> Result<Vec<Added>, Error>;

    /// Adds a notice in a transaction and rolls that back.
    async fn add_and_roll_back(&self, notice: NewNotice) -> Result<Added, Error>;

    /// As [`Self::add`], for one that can be added and is no duplicate.
    #[allow(clippy::unwrap_used, clippy::expect_used)] // That is how a case fails.
    async fn add_new(&self, notice: NewNotice) -> Receipt {
        self.add(notice).await.unwrap().receipt().expect("not a duplicate")
    }
}

/// Makes a test of every case. `conformance_suite!(run)` takes the name of an async function in the same module that
/// makes a backend and runs the case that it is given: `async fn run(case: impl AsyncFnOnce(&dyn Backend))`.
#[macro_export]
macro_rules! conformance_suite {
    ($run:ident) => {
        $crate::conformance_suite! { @cases $run;
            adding: a_committed_notice_exists_and_one_of_rolled_back_work_does_not,
                a_notice_is_due_at_once_unless_it_says_otherwise,
                a_delayed_notice_is_due_when_its_delay_is_over,
                a_notice_can_be_sent_at_a_given_time,
                the_parameter_keeps_its_bytes,
                any_json_value_can_be_a_parameter,
                an_unknown_definition_is_refused_with_the_nearest_name,
                names_are_compared_byte_by_byte,
                what_cannot_be_stored_everywhere_is_refused_before_any_sql,
                everything_that_is_said_of_a_notice_is_kept;
            definitions: a_definition_with_only_a_name_has_the_documented_defaults,
                every_column_of_a_definition_is_kept,
                define_creates_what_is_missing_and_never_changes_what_is_there,
                an_update_succeeds_only_if_the_row_is_still_what_the_editor_saw,
                a_name_that_is_taken_cannot_be_given_twice,
                a_deleted_definition_takes_no_notices_and_frees_its_name,
                an_invalid_definition_is_refused_with_every_wrong_column,
                of_many_who_define_at_once_one_creates;
            claiming: a_claim_takes_the_longest_due_up_to_its_limit,
                a_claim_takes_only_its_definition_and_its_lane,
                a_claim_by_ids_takes_only_what_exists_was_never_attempted_and_is_due,
                a_claimed_notice_is_sending_with_a_lease_and_one_attempt_more,
                a_notice_whose_process_died_twice_is_claimed_apart_from_the_others,
                sixteen_claimers_get_each_attempt_once,
                the_earliest_due_time_is_told_per_definition_and_lane;
            keys: notices_of_one_key_go_one_at_a_time_in_the_order_of_their_insertion,
                a_live_notice_holds_back_those_behind_it_until_it_has_ended,
                a_key_orders_only_the_notices_of_its_definition,
                ordering_keys_are_compared_byte_by_byte,
                what_waits_behind_one_that_has_ended_can_be_claimed_by_its_key,
                of_sixteen_claimers_one_gets_the_notice_of_a_key,
                a_dedupe_key_is_given_once_among_the_live_notices_of_a_definition,
                of_rolled_back_work_no_dedupe_key_is_left,
                of_many_who_add_the_same_key_at_once_one_does,
                many_are_added_at_once_each_with_its_own_id_in_their_order,
                of_many_at_once_all_are_added_or_none,
                many_large_notices_are_added_at_once,
                duplicates_among_many_are_told_from_the_others;
            settling: a_success_moves_to_history,
                a_success_without_history_vanishes,
                a_failure_waits_for_its_time_with_its_errors,
                a_dead_letter_moves_to_history_with_its_reason,
                a_notice_that_was_handed_back_is_due_and_counted_nothing,
                the_fence_goes_up_with_every_claim_and_never_back,
                a_lost_lease_cannot_settle,
                an_expired_lease_that_nobody_took_can_still_settle,
                outcomes_of_a_batch_are_independent,
                an_outcome_whose_answer_was_lost_is_settled_already,
                an_id_is_never_given_again,
                any_text_can_be_an_error_or_a_description,
                a_large_batch_settles_at_once,
                a_stale_outcome_beside_one_of_the_next_attempt_changes_nothing;
            leases: an_expired_lease_is_overdue_and_a_running_one_is_not,
                a_rescue_loses_against_a_settle_that_was_faster,
                a_late_settle_loses_against_a_rescue,
                a_rescue_loses_against_an_extension,
                of_two_rescuers_one_wins,
                only_a_held_lease_can_be_extended,
                any_number_of_leases_is_extended_at_once,
                a_worker_can_ask_what_it_is_believed_to_hold,
                a_node_that_beats_hears_the_time_of_the_store;
            purging: only_what_is_old_enough_is_purged_in_windows,
                a_purge_takes_only_its_definition_and_status,
                a_deleted_definition_is_purged_when_nothing_refers_to_it;
        }
    };
    (@cases $run:ident; $($group:ident: $($case:ident),+;)+) => {
        $(mod $group {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$run(async |backend| $crate::conformance::$group::$case(backend).await).await;
            })+
        })+
    };
}

/// Shorthands of the cases. They panic: that is how a case fails.
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
impl dyn Backend + '_ {
    pub(crate) fn store(&self) -> &dyn Store {
        &**self.outbox().store()
    }

    pub(crate) async fn define(&self, def: NotifyDef) -> i64 {
        let name = def.name.clone();
        self.outbox().define(def).await.expect("define");
        self.definition(&name).await.id
    }

    pub(crate) async fn definition(&self, name: &str) -> NotifyDef {
        let all = self.outbox().definitions().await.expect("definitions");
        all.into_iter().find(|state| state.row.name == name).expect("a definition of this name").row
    }

    pub(crate) async fn add_to(&self, name: &str) -> i64 {
        self.add_new(NewNotice::new(name, 1).unwrap()).await.id()
    }

    pub(crate) async fn record(&self, id: i64) -> NoticeRecord {
        self.outbox().find(id).await.expect("find").expect("a notice of this id")
    }

    pub(crate) async fn claim_lane(&self, def_id: i64, status: Status, limit: usize) -> Vec<Claimed> {
        self.store().claim(&lane_claim(def_id, status, limit)).await.expect("claim")
    }

    /// Claims the one fresh notice of a definition.
    pub(crate) async fn claim_one(&self, def_id: i64) -> Claimed {
        let mut claimed = self.claim_lane(def_id, Status::NotSent, 10).await;
        assert_eq!(claimed.len(), 1, "one notice is due");
        claimed.remove(0)
    }

    /// The expired leases of a definition.
    pub(crate) async fn overdue(&self, def_id: i64) -> Vec<Claimed> {
        let look = Look::Overdue { def_id, status: Status::Sending };
        self.store().look(&look, 10).await.expect("look")
    }

    pub(crate) async fn settle_one(&self, settle: Settle) -> Settled {
        let mut answers = self.store().settle(&[settle]).await.expect("settle");
        assert_eq!(answers.len(), 1, "one answer per outcome");
        answers.remove(0)
    }
}

/// The lease of the cases' claims.
pub(crate) const LEASE: Duration = Duration::from_secs(60);

pub(crate) fn lane_claim(def_id: i64, status: Status, limit: usize) -> Claim {
    Claim { def_id, what: ClaimWhat::Lane(status), limit, lease: LEASE, worker: "worker-1".to_owned() }
}

/// An outcome of `claimed` that ends or moves it, with the counters as they were.
pub fn outcome(claimed: &Claimed, next: Next) -> Settle {
    Settle {
        id: claimed.id,
        attempt: claimed.attempt,
        from: Status::Sending,
        overdue: false,
        transition: Transition { next, failures: claimed.failures, crashes: claimed.crashes },
        errors: claimed.errors.clone(),
        last_class: None,
        description: claimed.description.clone(),
    }
}

/// The outcome of a delivery that is kept in history.
pub fn succeed(claimed: &Claimed) -> Settle {
    outcome(claimed, Next::Finish { status: Status::Succeeded, reason: None, keep: true })
}

pub(crate) fn fail(claimed: &Claimed, after: Duration) -> Settle {
    let mut settle = outcome(claimed, Next::Wait { status: Status::Failed, after });
    settle.transition.failures += 1;
    settle
}

/// What a rescuer settles.
pub(crate) fn crash(expired: &Claimed) -> Settle {
    let mut settle = outcome(expired, Next::Wait { status: Status::Failed, after: Duration::ZERO });
    settle.transition.crashes += 1;
    settle.overdue = true;
    settle
}
