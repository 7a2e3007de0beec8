//! The suite that every store must pass: a case for every promise of the design that a store can break.
//!
//! A case gets a fresh, empty [`Backend`] with a hand-turned clock. [`suite!`] makes
//! a visible test of each case for a backend; it has the only list of the cases.
//!
//! The promises of sweepers are tested elsewhere, because this crate does not depend on the sweeper.

pub mod acks;
pub mod adding;
pub mod alarming;
pub mod applying;
pub mod auditing;
mod backend;
pub mod browsing;
pub mod bulk_acts;
pub mod bulk_steps;
pub mod claiming;
pub mod counting;
pub mod definitions;
pub mod encrypting;
pub mod families;
pub mod filtering;
pub mod grouping;
pub mod inbox;
pub mod kept_notices;
pub mod keys;
pub mod leases;
pub mod limiting;
pub mod operating;
mod outcomes;
pub mod own_limits;
pub mod purging;
pub mod responding;
pub mod retiming;
pub mod retrying;
pub mod series;
pub mod settling;
pub mod silencing;
pub mod switching;
pub mod targets;
pub mod test_sends;
pub mod ticking;
pub mod versions;

use futures_util::future::LocalBoxFuture;

pub use backend::Backend;
pub(crate) use outcomes::{LEASE, crash, fail, slice_claim};
pub use outcomes::{outcome, succeed};

/// A case: what it does with a backend. All cases have one type, so that what runs them is compiled once and not once per case.
pub type Case = fn(&dyn Backend) -> LocalBoxFuture<'_, ()>;

/// Makes a test of every case. `suite!(run)` takes the name of a function in the same module, `fn run(case: Case)`. The
/// function makes a backend, and runs the case to its end in a runtime of tokio.
#[macro_export]
macro_rules! suite {
    ($run:ident) => {
        $crate::suite! { @cases $run;
            adding: a_committed_notice_exists_and_one_of_rolled_back_work_does_not,
                a_notice_is_due_at_once_unless_it_says_otherwise,
                a_delayed_notice_is_due_when_its_delay_is_over,
                a_notice_can_be_sent_at_a_given_time,
                the_parameter_keeps_its_bytes,
                any_json_value_can_be_a_parameter,
                an_unknown_definition_is_refused_with_the_nearest_name,
                names_are_compared_byte_by_byte,
                values_that_some_database_cannot_store_are_refused_before_any_sql,
                everything_that_is_said_of_a_notice_is_kept;
            own_limits: own_limits_of_a_notice_come_with_its_claim_and_its_record,
                own_limits_stay_with_an_ended_notice,
                limits_that_no_notice_can_have_are_refused,
                a_skipped_notice_is_in_history_from_its_commit_on,
                a_skipped_notice_takes_no_dedupe_key,
                a_skipped_notice_of_the_same_call_takes_no_dedupe_key,
                a_skipped_notice_is_no_duplicate_of_a_live_one,
                a_skipped_notice_has_no_first_attempt,
                a_revived_notice_keeps_an_expiry_ahead_and_drops_a_past_one,
                waiting_retries_are_counted_by_their_own_limit_of_tries;
            encrypting: an_encrypting_definition_stores_no_plaintext,
                without_a_cipher_nothing_of_an_encrypting_definition_is_added,
                duplicates_are_found_where_parameters_are_encrypted,
                a_definition_encrypts_from_its_edit_on,
                an_edited_parameter_is_encrypted_again,
                the_limit_of_a_parameter_counts_what_was_given;
            definitions: a_definition_with_only_a_name_has_the_documented_defaults,
                the_code_wins_where_it_replaces_a_definition,
                every_column_of_a_definition_is_kept,
                define_creates_what_is_missing_and_never_changes_what_is_there,
                an_update_succeeds_only_if_the_row_is_still_what_the_editor_saw,
                a_name_that_is_taken_cannot_be_given_twice,
                a_deleted_definition_takes_no_notices_and_frees_its_name,
                an_invalid_definition_is_refused_with_every_wrong_column,
                notices_of_a_missing_definition_stay_and_count_nothing,
                of_many_who_define_at_once_one_creates;
            applying: a_plan_shows_each_change_and_applying_it_makes_them,
                applying_what_is_stored_writes_nothing,
                a_row_that_was_edited_since_the_plan_is_not_touched,
                what_is_not_listed_is_deleted_only_if_asked_and_never_if_built_in,
                a_list_that_names_a_built_in_definition_edits_its_row, the_rows_of_a_table_applied_to_it_change_nothing,
                of_ten_who_apply_at_once_each_change_is_made_once;
            claiming: a_claim_takes_the_longest_due_up_to_its_limit,
                claim_takes_only_its_definition_and_slice,
                a_claim_by_ids_takes_only_what_exists_was_never_attempted_and_is_due,
                a_claimed_notice_is_sending_with_a_lease_and_one_attempt_more,
                a_notice_whose_process_died_twice_is_claimed_apart_from_the_others,
                a_large_parameter_is_left_in_the_store_until_it_is_read,
                sixteen_claimers_get_each_attempt_once,
                earliest_due_time_is_returned_per_definition_and_slice;
            keys: notices_of_one_key_go_one_at_a_time_in_the_order_of_their_insertion,
                a_live_notice_holds_back_those_behind_it_until_it_has_ended,
                a_revived_notice_waits_for_the_claimed_one_of_its_key,
                a_key_orders_only_the_notices_of_its_definition,
                ordering_keys_are_compared_byte_by_byte,
                the_next_notice_of_a_key_can_be_claimed_when_the_first_has_ended,
                a_claim_by_ids_takes_the_first_of_each_key_and_all_without_a_key,
                of_sixteen_claimers_one_gets_the_notice_of_a_key,
                a_dedupe_key_is_given_once_among_the_live_notices_of_a_definition,
                a_key_that_is_unique_until_claimed_is_free_after_the_claim,
                duplicates_are_found_among_many_dedupe_keys_of_both_kinds,
                of_rolled_back_work_no_dedupe_key_is_left,
                of_many_who_add_the_same_key_at_once_one_does,
                many_are_added_at_once_each_with_its_own_id_in_their_order,
                of_many_at_once_all_are_added_or_none,
                many_large_notices_are_added_at_once,
                duplicates_are_found_among_many_notices;
            settling: a_success_moves_to_history,
                success_without_history_is_deleted,
                a_failure_waits_for_its_time_with_its_errors,
                a_dead_letter_moves_to_history_with_its_reason,
                a_notice_that_was_handed_back_is_due_and_counted_nothing,
                the_fence_goes_up_with_every_claim_and_never_back,
                a_lost_lease_cannot_settle,
                an_expired_lease_without_a_new_claim_can_still_settle,
                outcomes_of_a_batch_are_independent,
                an_outcome_whose_answer_was_lost_is_settled_already,
                an_id_is_never_given_again,
                any_text_can_be_an_error_or_a_description,
                a_large_batch_settles_at_once,
                a_stale_outcome_beside_one_of_the_next_attempt_changes_nothing;
            responding: a_response_is_kept_with_a_failure_and_with_the_final_success,
                an_outcome_without_a_response_keeps_the_last_one,
                a_response_stays_with_a_notice_that_is_acked_cancelled_or_retried,
                any_text_can_be_a_response;
            leases: lease_does_not_grow_with_the_batch,
                an_expired_lease_is_overdue_and_a_running_one_is_not,
                a_rescue_loses_against_a_settle_that_was_faster,
                a_late_settle_loses_against_a_rescue,
                a_late_outcome_of_a_dead_letter_is_not_stored_and_says_why,
                a_rescue_loses_against_an_extension,
                of_two_rescuers_one_wins,
                only_a_held_lease_can_be_extended,
                any_number_of_leases_is_extended_at_once,
                worker_reads_the_claims_that_the_store_counts_as_its_own,
                a_node_that_beats_hears_the_time_of_the_store,
                node_is_listed_with_what_it_last_reported,
                node_lives_near_the_time_at_which_it_was_seen,
                stopped_node_is_not_listed_and_its_handlers_live_on_for_a_while;
            limiting: no_more_begin_within_any_window_than_the_rate_allows,
                an_expired_notice_uses_up_no_place_of_a_rate,
                an_expired_notice_is_no_probe_of_an_open_circuit,
                no_more_are_sent_at_once_than_the_total_allows,
                of_sixteen_claimers_all_together_get_what_the_quota_allows,
                claimers_of_different_notices_share_the_quota,
                failures_in_a_row_open_the_circuit_and_one_probe_closes_it,
                a_probe_whose_process_died_blocks_no_longer_than_its_lease,
                signs_of_a_batch_are_folded_in_their_order_and_only_of_what_is_stored,
                signs_of_many_who_settle_at_once_are_all_counted,
                an_opened_circuit_is_reported_once,
                an_operator_closes_an_open_circuit_once,
                a_purged_definition_leaves_no_limit_behind,
                explain_returns_the_limit_that_delays_a_due_notice;
            purging: only_what_is_old_enough_is_purged_in_steps,
                a_purge_returns_what_the_log_needs_of_an_undelivered_notice,
                a_purge_takes_only_its_definition_and_status,
                a_deleted_definition_is_purged_when_nothing_refers_to_it;
            ticking: of_many_nodes_that_see_a_tick_one_adds_its_notices,
                a_tick_of_a_row_that_has_changed_adds_nothing,
                a_tick_is_no_edit,
                many_ticks_are_added_at_once_in_their_order,
                the_time_of_the_store_comes_with_the_due_slices,
                time_of_the_store_follows_its_clock;
            switching: the_switch_is_turned_once_and_written_down,
                a_pause_of_retries_and_one_of_everything_replace_each_other,
                explain_names_the_pause_of_retries_for_a_retry_only;
            targets: a_notice_is_passed_on_to_each_target_with_what_was_said_of_it,
                an_outcome_that_is_not_stored_is_passed_on_to_no_target,
                an_outcome_whose_answer_was_lost_is_passed_on_once,
                of_many_who_settle_at_once_one_passes_on,
                a_target_has_one_live_notice_of_a_dedupe_key,
                notices_of_a_key_keep_their_order_for_each_target,
                a_passed_on_notice_keeps_its_parent_when_it_has_ended,
                many_notices_are_passed_on_at_once,
                parts_of_passing_on_reach_each_target_once,
                first_part_compares_the_targets_with_the_rows,
                a_definition_is_purged_after_its_targets,
                a_target_is_stored_with_the_id_of_its_definition,
                a_list_of_definitions_has_targets;
            kept_notices: record_says_which_target_kept_its_earlier_notice,
                kept_notices_are_returned_where_no_record_is_kept,
                key_that_a_target_gave_back_is_passed_on_again,
                parts_say_which_targets_kept_their_earlier_notices;
            families: target_that_is_owed_a_notice_gets_it_last,
                outcome_that_other_targets_decided_is_not_stored,
                refusal_by_an_edited_filter_is_not_stored,
                edit_that_breaks_a_target_is_refused_and_names_it,
                rollback_that_breaks_a_target_is_refused,
                deleted_definition_gets_no_new_target;
            acks: a_delivery_that_awaits_its_ack_is_overdue_after_its_time,
                an_ack_can_be_awaited_for_ever,
                an_ack_ends_a_notice_in_every_live_state,
                an_ack_of_an_earlier_attempt_ends_a_resend,
                an_acked_dead_letter_becomes_a_success_and_is_audited,
                acks_of_cancelled_and_of_missing_notices_differ,
                a_refusal_makes_the_delivery_overdue_at_once_with_its_reason,
                acks_and_nacks_by_an_operator_are_audited,
                a_refusal_before_the_handler_returned_is_not_lost,
                an_outcome_beside_the_judgement_of_its_refusal_changes_nothing,
                ack_or_nack_counts_if_and_only_if_its_transaction_commits,
                a_notice_that_awaits_its_ack_blocks_its_ordering_key,
                of_many_who_ack_at_once_one_does;
            inbox: a_key_is_seen_for_the_first_time_once,
                a_rolled_back_mark_leaves_the_key_free,
                receivers_and_senders_share_no_keys,
                keys_that_some_store_cannot_keep_are_refused,
                old_keys_are_purged_in_steps_and_free_again;
            alarming: an_alarm_adds_a_notice_of_the_built_in_definition,
                a_pause_is_stored_with_its_version_and_its_alert_once,
                an_alarm_of_an_outcome_that_is_not_stored_is_none,
                an_alarm_whose_answer_was_lost_is_stored_once,
                an_alarm_makes_the_row_due_at_the_end_of_the_cool_down,
                the_step_of_a_due_alert_is_stored_with_its_notice_once,
                an_alarm_before_the_step_of_a_due_alert_is_not_lost,
                of_sixteen_nodes_that_advance_an_alert_one_does,
                many_alarms_of_one_batch_are_one_alert_and_a_digest,
                a_cool_down_is_of_one_definition_and_reason,
                of_many_nodes_that_alarm_at_once_one_alerts,
                alarms_of_many_who_settle_at_once_are_counted_once_each,
                an_alert_that_is_over_is_closed_and_the_facts_show_it;
            silencing: alarms_of_a_silenced_definition_are_counted_and_not_sent,
                a_silence_of_one_reason_leaves_the_others, a_silence_needs_a_person_and_a_reason,
                the_end_of_a_silence_makes_what_was_suppressed_due,
                an_open_alert_is_acknowledged_once,
                silences_are_listed_until_they_end,
                alarms_beside_a_silence_are_sent_or_counted;
            operating: a_dead_letter_comes_back_with_its_attempts_and_all_its_tries,
                a_late_outcome_of_an_old_attempt_loses_against_a_revived_notice,
                a_cancelled_notice_that_was_never_tried_comes_back_as_a_first_send,
                retrying_what_is_no_dead_letter_answers_why_not,
                retrying_what_waits_makes_it_due_now,
                retrying_a_notice_on_its_last_try_gives_one_more,
                a_waiting_notice_is_cancelled_and_an_ended_one_is_not,
                a_claimed_notice_is_cancelled_and_its_outcome_comes_too_late,
                a_claimed_ordered_notice_is_cancelled_only_after_its_lease,
                an_edited_dead_letter_is_retried_with_its_new_parameter,
                a_notice_that_waits_is_edited_in_its_place,
                a_notice_that_waits_is_due_when_the_operator_says,
                a_dead_letter_stays_while_a_live_notice_has_its_dedupe_key,
                a_revived_notice_goes_before_those_behind_it_in_its_key,
                explain_returns_the_reason_why_a_notice_waits;
            counting: the_snapshot_says_how_many_there_are_of_each_state,
                a_definition_that_was_never_counted_says_so,
                definition_is_counted_again_only_when_it_is_due,
                definition_is_counted_before_it_is_due_on_demand,
                of_sixteen_nodes_one_counts,
                only_the_successes_of_the_last_five_minutes_are_counted,
                a_definition_that_is_gone_is_not_in_the_snapshot;
            browsing: a_notice_shows_its_retries_and_its_last_change,
                dead_letters_are_listed_the_latest_first_page_by_page,
                a_page_continues_after_the_last_one_despite_changes,
                dead_letters_are_found_by_class_and_time,
                live_and_ended_notices_are_listed_by_state,
                a_bulk_retry_is_spread_by_its_rate,
                a_bulk_retry_of_many_takes_steps_and_each_once,
                a_bulk_retry_changes_only_what_is_as_it_was_seen,
                a_bulk_retry_passes_over_taken_dedupe_keys_and_ends,
                a_bulk_retry_takes_only_dead_letters_and_cancelled_notices,
                a_bulk_cancel_ends_what_waits_and_leaves_what_is_being_sent;
            bulk_acts: bulk_act_is_added_as_a_notice_that_is_due_at_once,
                progress_is_stored_only_under_the_last_claim,
                progress_is_stored_only_while_the_notice_is_being_sent,
                act_that_lost_its_claim_moves_no_cursor,
                cancelled_act_stores_no_step_and_continues_at_its_cursor,
                authority_is_kept_with_its_notice_and_purged_after_it,
                authority_is_used_by_each_claim,
                notice_that_the_library_did_not_add_has_no_authority;
            bulk_steps: step_changes_notices_of_many_definitions,
                step_of_many_definitions_ends_at_its_rate,
                step_compares_each_dedupe_key_in_its_definition,
                step_of_an_act_whose_claim_was_lost_changes_nothing;
            test_sends: a_test_is_a_marked_notice_with_its_entry_in_the_audit,
                a_test_is_passed_on_to_targets_as_a_test,
                a_test_of_what_sends_no_notices_of_the_application_is_refused,
                a_notice_of_an_application_is_no_test;
            filtering: a_tag_is_kept_live_and_ended_and_listed,
                tag_and_keys_select_live_and_ended_notices,
                a_dedupe_key_selects_what_no_longer_has_it,
                ids_select_those_that_are_in_the_state,
                values_are_compared_byte_by_byte,
                pages_of_a_filter_break_ties_by_id,
                a_text_is_found_in_errors_and_parameters_of_a_time,
                a_text_finds_nothing_that_a_mask_hides,
                a_purge_deletes_what_its_filter_selects_and_is_audited,
                a_purge_of_many_takes_steps_and_only_what_is_as_it_was_seen,
                a_bad_filter_is_refused_by_each_call;
            grouping: dead_letters_are_grouped_by_definition_class_and_message,
                a_group_is_listed_counted_and_retried_alone,
                a_dead_letter_that_is_retried_or_acked_leaves_its_group,
                the_message_of_a_group_is_masked;
            series: counters_are_summed_over_nodes_and_steps,
                a_write_that_is_repeated_or_late_counts_nothing_twice,
                old_minutes_are_purged,
                a_series_that_cannot_be_read_is_refused;
            auditing: the_audit_is_read_page_by_page_the_latest_first,
                the_audit_is_filtered_by_what_it_is_about_by_whom_and_when,
                the_audit_of_a_notice_has_the_steps_that_changed_it,
                the_audit_of_a_definition_whose_row_is_gone_is_found_by_its_id;
            versions: each_edit_keeps_one_version_with_who_made_it_and_what_it_changed,
                an_edit_that_changes_nothing_or_conflicts_keeps_no_version,
                an_edit_by_hand_is_kept_once_though_many_see_it,
                a_row_deleted_by_hand_is_kept_once_as_deleted,
                an_edit_by_hand_becomes_a_version_before_it_is_overwritten,
                numbers_of_older_conventions_in_a_row_are_read_as_words,
                an_operator_creates_a_definition_in_that_name,
                a_roll_back_makes_a_definition_what_it_was,
                a_roll_back_to_an_unusable_version_says_why,
                of_many_who_roll_back_what_they_saw_one_does,
                versions_are_purged_with_their_definition;
            retiming: waiting_retries_are_counted_by_what_decides_about_them,
                a_preview_of_an_edit_changes_nothing_and_counts_retimed_notices,
                retiming_moves_waiting_retries_by_the_new_intervals_and_counts_nothing,
                retiming_leaves_alone_what_does_not_wait_for_its_retry,
                retiming_and_its_preview_obey_the_limits_of_a_notice,
                retiming_many_takes_steps_and_each_once,
                retiming_changes_only_what_is_as_it_was_seen,
                a_definition_that_cannot_be_followed_is_not_retimed;
            retrying: retry_of_a_notice_that_waits_begins_a_new_message;
        }
    };
    (@cases $run:ident; $($group:ident: $($case:ident),+;)+) => {
        $(mod $group {
            $(#[test]
            fn $case() {
                super::$run(|backend| Box::pin($crate::$group::$case(backend)));
            })+
        })+
    };
}
