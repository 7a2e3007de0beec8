//! What sweepers promise, on every store: delivery, verdicts, definitions that change under way, life and death of a
//! sweeper.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod definitions;
mod delivery;
mod lanes;
mod lifecycle;
mod verdicts;

macro_rules! sending_suite {
    ($run:ident) => {
        sending_suite! { @cases $run;
            delivery: committed_notices_are_sent_at_once,
                notices_that_nobody_hands_over_are_found_by_the_sweep_and_at_once_by_a_wake,
                a_delayed_notice_is_sent_at_its_time,
                failures_are_retried_by_the_intervals_and_end_as_a_dead_letter,
                the_producer_learns_the_outcome_of_the_first_attempt,
                a_handler_sees_the_notice_and_may_rewrite_its_description,
                a_notice_whose_sender_died_is_sent_again_and_the_crash_is_counted,
                a_notice_that_kills_its_process_each_time_runs_out,
                a_long_wait_for_the_handler_keeps_its_lease;
            verdicts: a_skipped_notice_is_cancelled_with_its_reason,
                a_handler_can_say_when_to_retry,
                a_handler_can_give_up_at_once,
                a_panic_is_a_failure_and_hurts_nobody_else,
                a_time_out_is_a_failure,
                a_parameter_that_does_not_fit_is_a_dead_letter_that_says_so,
                a_raw_parameter_keeps_its_bytes,
                what_a_handler_writes_is_stored_by_every_database,
                a_named_strategy_decides_and_a_panicking_one_falls_back;
            definitions: an_invalid_row_pauses_only_its_own_notices_and_heals,
                a_disabled_definition_sends_and_counts_nothing,
                a_definition_that_needs_confirmation_waits_for_a_release_that_can,
                a_definition_without_a_handler_here_is_left_to_others,
                a_renamed_definition_keeps_its_notices,
                a_deleted_definition_sends_what_is_in_flight,
                an_edit_by_hand_is_in_force_within_five_seconds,
                a_lowered_limit_ends_a_notice_without_another_try,
                an_outcome_is_judged_by_the_definition_as_it_is_when_the_attempt_ends;
            lanes: no_more_run_at_once_than_max_concurrency,
                a_backlog_of_one_definition_does_not_starve_another,
                old_retries_do_not_hide_fresh_notices,
                fresh_notices_do_not_hide_old_retries,
                definitions_take_turns_where_the_node_is_full,
                suspects_are_sent_one_at_a_time_and_hold_up_nobody,
                a_large_backlog_is_sent_completely_and_once,
                notices_of_one_key_are_sent_in_their_order_and_those_of_others_meanwhile,
                what_waits_behind_another_of_its_key_does_not_keep_a_sweeper_from_being_idle;
            lifecycle: a_shutdown_waits_for_running_handlers,
                after_the_grace_period_notices_are_handed_back_uncounted,
                a_dropped_sweeper_ends_what_is_running_and_claims_nothing_more,
                run_until_idle_sends_what_is_due_and_ends,
                history_is_purged_by_what_the_definition_says,
                a_broken_row_purges_nothing;
        }
    };
    (@cases $run:ident; $($group:ident: $($case:ident),+;)+) => {
        $(mod $group {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$run(async |backend| crate::$group::$case(backend).await).await;
            })+
        })+
    };
}

solid_notify_tests::on_each_store!(sending_suite);
