//! The promises of sweepers, on every store: delivery, handler results, definitions that change meanwhile, start and end of a
//! sweeper.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod ack;
mod alerts;
mod batches;
mod bulk_acts;
mod classes;
mod clocks;
mod configs;
mod costly;
mod definitions;
mod delivery;
mod encryption;
mod families;
mod handler_results;
mod large_params;
mod lifecycle;
mod limits;
mod masks;
mod missing_keys;
mod own_limits;
mod paused_retries;
mod pausing;
mod responses;
mod series;
mod slices;
mod target_parts;
mod targets;
mod test_sends;
mod testkit;
mod timetables;
mod versions;
mod windows;

use std::time::Duration;

use solid_notify::Sweeper;
use solid_notify_conformance::Backend;
use test_support::sending::eventually;

/// Turns the clock, and waits until the sweeper reports by the new time that it lives. With that its next round of maintenance begins,
/// so the round of the turn before has ended.
async fn turn(b: &dyn Backend, sweeper: &Sweeper, by: Duration) {
    b.clock().advance(by);
    let has_begun = async || {
        let nodes = b.outbox().engine().stores().browse.nodes(Duration::from_secs(60)).await.unwrap();
        nodes.iter().any(|node| node.id == sweeper.node_id() && node.last_seen == b.clock().now())
    };
    eventually("the sweeper reports that it lives", has_begun).await;
}

macro_rules! sending_suite {
    ($run:ident) => {
        sending_suite! { @cases $run;
            delivery: committed_notices_are_dispatched_and_reported,
                notices_without_a_dispatch_are_found_by_the_sweep_or_a_wake,
                a_delayed_notice_is_sent_at_its_time,
                failures_are_retried_by_the_intervals_and_end_as_a_dead_letter,
                the_producer_learns_the_outcome_of_the_first_attempt,
                a_handler_sees_the_notice_and_may_rewrite_its_description,
                a_notice_whose_sender_died_is_sent_again_and_the_crash_is_counted,
                a_notice_that_kills_its_process_each_time_runs_out,
                a_long_wait_for_the_handler_keeps_its_lease;
            handler_results: a_skipped_notice_is_cancelled_with_its_reason,
                a_handler_can_say_when_to_retry,
                a_handler_can_give_up_at_once,
                a_panic_is_a_failure_of_its_notice_alone,
                a_time_out_is_a_failure,
                a_parameter_that_does_not_fit_is_a_dead_letter_that_says_so,
                a_raw_parameter_keeps_its_bytes,
                texts_of_a_handler_are_stored_by_every_database,
                a_named_strategy_decides_and_a_panicking_one_falls_back;
            classes: a_permanent_error_is_not_retried,
                permanent_error_is_retried_where_a_rule_says_so,
                rule_can_refuse_any_retry_of_a_class,
                a_class_with_more_tries_than_the_others_uses_all_of_them,
                a_class_has_its_own_intervals,
                a_class_of_the_application_follows_its_rule,
                rules_that_change_while_a_retry_waits_hold_for_the_next_failure,
                wrong_rules_pause_the_definition_until_they_are_corrected,
                a_classifier_of_the_application_wins_and_may_panic,
                each_attempt_shows_its_class_and_its_causes,
                an_unreadable_parameter_is_retried_where_a_rule_says_so,
                a_notice_that_kills_its_process_follows_the_rule_for_crashes;
            batches: batch_gets_several_notices_and_answers_for_each,
                batch_that_is_not_full_is_sent_after_its_wait,
                bad_notice_that_fails_its_whole_batch_dies_alone,
                batch_that_must_wait_is_not_repeated_in_parts,
                bad_notice_that_hangs_its_batch_dies_alone,
                unreadable_param_fails_alone_in_a_batch,
                attempt_that_timed_out_is_not_sent_with_its_batch,
                batch_that_hangs_is_dropped_and_fails_each_notice;
            large_params: large_parameter_reaches_every_kind_of_handler_as_it_was_added,
                description_beside_a_large_parameter_is_hidden_after_a_crash;
            configs: refused_config_pauses_its_definition_until_it_is_corrected,
                definition_that_its_handler_refuses_is_not_stored,
                check_that_panics_refuses_the_config;
            masks: masked_value_is_on_no_way_out_to_people,
                wrong_or_later_mask_shows_nothing_that_it_may_hide;
            encryption: encrypted_parameter_is_on_no_way_out_to_people,
                batch_handler_gets_decrypted_parameters_of_each_key,
                node_without_the_cipher_leaves_the_definition_alone,
                altered_parameters_are_dead_letters_and_copied_ones_wait,
                plaintext_of_before_is_sent_and_stays_out_of_texts,
                nack_of_an_encrypted_parameter_keeps_no_text,
                a_target_gets_an_encrypted_parameter_by_its_filter,
                a_target_encrypts_only_under_a_definition_that_encrypts;
            missing_keys: notice_of_an_unknown_key_waits_and_counts_nothing,
                notice_that_no_node_can_decrypt_raises_one_alert,
                notice_that_another_node_can_decrypt_raises_no_alert,
                node_without_a_cipher_alerts_only_where_notices_wait,
                node_with_the_key_sends_what_another_one_left,
                notice_that_was_cancelled_while_it_waited_raises_no_alert,
                notice_of_another_key_under_the_same_id_waits;
            responses: what_the_receiver_answered_is_kept_for_failures_and_successes,
                response_before_a_panic_or_a_time_out_is_kept,
                status_of_an_http_error_is_kept_by_itself,
                response_that_may_repeat_the_parameter_is_masked;
            series: attempts_are_counted_once_over_two_sweepers,
                the_minutes_of_a_running_sweeper_are_stored_apart,
                housekeeping_purges_the_series_until_nothing_old_is_left;
            pausing: a_receiver_that_wants_no_more_pauses_its_definition,
                of_many_refusals_on_two_nodes_one_pauses_and_alerts,
                a_refusal_of_before_an_edit_pauses_nothing,
                a_target_is_paused_alone,
                alerts_are_not_paused_by_their_receiver;
            own_limits: an_expired_notice_is_a_dead_letter_that_no_handler_saw,
                expired_notices_keep_none_from_being_sent_at_the_rate,
                a_notice_that_expires_before_its_retry_ends_at_once,
                a_missed_ack_that_expires_before_its_retry_ends_at_once,
                an_expired_retry_keeps_its_last_error,
                a_notice_uses_its_own_tries_instead_of_the_definitions,
                a_notice_added_as_skipped_is_sent_only_if_an_operator_retries_it;
            definitions: an_invalid_row_pauses_only_its_own_notices_and_heals,
                a_disabled_definition_sends_and_counts_nothing,
                a_definition_without_a_handler_here_is_left_to_others,
                a_renamed_definition_keeps_its_notices,
                a_deleted_definition_sends_its_notices_in_flight,
                a_definition_that_this_process_disabled_is_claimed_no_more,
                a_try_that_an_edit_has_just_given_is_used,
                an_edit_by_hand_comes_into_force_without_a_wake,
                a_lowered_limit_ends_a_notice_without_another_try,
                an_outcome_is_judged_by_the_definition_as_it_is_when_the_attempt_ends,
                notices_of_a_missing_row_wait_and_count_nothing;
            testkit: attempts_fail_as_often_as_a_test_wants_and_of_no_other_definition,
                time_that_passes_stops_at_each_retry,
                the_clock_stops_at_ticks_openings_and_ack_deadlines,
                a_rate_lets_through_what_it_allows_while_time_passes,
                an_added_notice_is_found_live_and_ended;
            versions: a_preview_shows_the_effects_on_the_notices,
                an_edit_by_hand_becomes_a_version_by_itself;
            slices: no_more_run_at_once_than_max_concurrency,
                a_backlog_of_one_definition_does_not_starve_another,
                old_retries_do_not_hide_fresh_notices,
                fresh_notices_do_not_hide_old_retries,
                definitions_take_turns_where_the_node_is_full,
                crash_looping_notices_are_sent_one_at_a_time,
                a_large_backlog_is_sent_completely_and_once,
                notices_of_one_key_are_sent_in_order_and_other_keys_meanwhile,
                a_notice_blocked_by_its_key_leaves_the_sweeper_idle;
            limits: three_sweepers_keep_one_rate_in_every_window,
                three_sweepers_send_no_more_at_once_than_the_total,
                a_limited_backlog_takes_nothing_from_others,
                a_circuit_opens_is_probed_and_closes,
                the_switch_pauses_everything_without_loss_or_alert;
            paused_retries: retries_wait_uncounted_while_first_attempts_go_on,
                nack_and_missing_ack_lead_to_a_retry_that_waits;
            targets: definition_with_targets_needs_no_handler_of_its_own,
                each_target_gets_each_notice_once_from_two_sweepers,
                a_filter_lets_through_what_it_accepts,
                an_invalid_filter_pauses_its_target_only_and_loses_nothing,
                a_filter_that_cannot_be_judged_lets_only_that_notice_wait,
                a_failing_target_has_its_own_circuit_retries_and_alerts,
                a_target_that_fails_stops_the_order_of_no_other,
                each_target_awaits_its_own_ack,
                a_notice_whose_sender_died_is_passed_on_once,
                an_edit_of_the_definition_holds_for_its_targets_at_once,
                a_deleted_target_sends_what_it_has_and_gets_no_more;
            families: paused_target_gets_its_notices_and_they_wait,
                target_created_before_the_add_gets_the_notice,
                filter_ends_a_notice_only_by_its_present_row,
                filters_judge_values_as_they_are_written,
                definition_of_invalid_targets_sends_nothing_itself,
                target_that_demands_encryption_is_owed_a_plaintext,
                first_attempt_names_the_targets_that_kept_earlier_notices,
                first_target_is_followed_by_each_node_when_its_call_returns,
                encrypted_notices_of_a_moved_target_wait_for_its_return;
            costly: waiting_for_a_filter_ends_with_the_shutdown,
                waiting_for_a_filter_ends_with_the_time_out,
                few_notices_wait_for_a_filter,
                texts_that_no_thread_searches_are_hidden_as_a_whole,
                operator_reads_a_costly_mask_off_the_runtime;
            target_parts: a_large_notice_is_passed_on_in_parts_once_to_each,
                begun_parts_go_on_with_their_targets_when_some_are_deleted;
            test_sends: handlers_see_the_mark_of_a_test_in_each_attempt,
                a_test_waits_while_its_definition_is_paused;
            clocks: attempts_survive_a_store_clock_that_is_set_ahead_two_minutes,
                expired_leases_of_others_wait_after_the_store_clock_was_set,
                attempts_survive_a_store_clock_that_is_set_back_a_year,
                timetable_ticks_again_after_a_clock_was_a_year_ahead;
            lifecycle: a_shutdown_waits_for_running_handlers,
                after_the_grace_period_notices_are_handed_back_uncounted,
                handed_back_retry_keeps_the_class_of_its_failure,
                a_dropped_sweeper_ends_what_is_running_and_claims_nothing_more,
                run_until_idle_sends_what_is_due_and_ends,
                history_is_purged_by_what_the_definition_says,
                a_purged_undelivered_notice_is_logged_without_its_parameter,
                a_purge_by_an_operator_is_logged_without_parameters,
                a_broken_row_purges_nothing;
            timetables: each_tick_is_sent_once_by_two_sweepers,
                ticks_that_were_missed_follow_the_rule_of_the_definition,
                an_edited_timetable_begins_anew,
                any_sweeper_ticks_for_one_that_has_the_handler,
                an_invalid_or_deleted_definition_produces_nothing,
                housekeeping_is_done_by_rows_that_operators_edit,
                keys_of_inboxes_are_purged_by_housekeeping,
                without_housekeeping_nothing_is_purged;
            bulk_acts: bulk_act_changes_each_notice_once_beside_two_sweepers,
                bulk_act_keeps_to_its_definition_when_names_change,
                bulk_act_obeys_its_rate_and_continues_after_a_cancel,
                bulk_act_that_is_cancelled_while_it_runs_takes_no_further_step,
                paused_bulk_act_changes_nothing_until_it_is_resumed,
                bulk_act_continues_at_its_cursor_after_a_crash,
                unreadable_bulk_act_is_a_dead_letter_that_says_so,
                bulk_verbs_change_no_bulk_acts,
                built_in_notice_without_authority_is_a_dead_letter;
            windows: outside_of_its_window_nothing_is_sent_or_counted_until_it_opens,
                a_retry_that_is_due_waits_for_the_window_and_keeps_its_time,
                an_attempt_may_end_after_its_window_has_closed,
                dead_senders_and_overdue_acks_are_judged_outside_of_the_window,
                a_backlog_is_counted_from_the_opening_of_the_window;
            ack: a_delivery_that_needs_an_ack_waits_for_it,
                an_overdue_ack_is_a_failed_attempt,
                a_refusal_is_a_failed_attempt_with_its_reason,
                a_handler_can_ask_for_an_ack_itself,
                a_handler_learns_whether_its_delivery_must_be_acked,
                a_token_acks_a_later_attempt_too,
                ack_or_nack_before_the_handler_returned_decides,
                fast_ack_of_a_notice_without_history_is_no_lost_lease,
                the_next_notice_of_a_key_is_sent_after_the_ack_of_the_first;
            alerts: a_final_failure_raises_an_alert_with_all_details,
                every_trigger_raises_the_alerts_that_it_names,
                suppressed_alerts_come_in_a_digest_before_the_recovery,
                alert_that_no_node_sends_waits_until_one_does,
                a_single_alert_is_followed_by_its_recovery,
                an_alert_goes_to_whom_the_definition_names_when_it_is_sent,
                no_alert_is_raised_about_an_alert,
                an_alert_that_could_not_be_sent_is_sent_again,
                a_digest_that_could_not_be_sent_loses_nothing,
                an_alert_needs_no_ack,
                sweepers_share_a_cool_down,
                an_overdue_ack_raises_an_alert,
                conditions_outside_of_attempts_raise_alerts_too,
                a_pile_of_dead_letters_raises_an_alert_by_default,
                a_pile_that_is_not_checked_has_not_recovered,
                a_notice_behind_its_ordering_key_is_backlog,
                a_silenced_alert_is_a_digest_when_the_silence_ends,
                a_silence_that_ends_after_the_problem_has_no_digest,
                a_silence_that_an_operator_ends_is_over_at_once,
                a_silenced_condition_is_reported_when_the_silence_ends,
                an_acknowledged_alert_sends_only_its_recovery;
        }
    };
    (@cases $run:ident; $($group:ident: $($case:ident),+;)+) => {
        $(mod $group {
            $(#[test]
            fn $case() {
                super::$run(|backend| Box::pin(crate::$group::$case(backend)));
            })+
        })+
    };
}

test_support::on_each_store!(sending_suite);
