//! The one list of cases, and what is made of it.

use std::{fmt, future::Future, pin::Pin};

use crate::{clause::Clause, failure::Verdict, subject::Subject};

/// THE list: module, case, and the clause that the case shows. The tests, the runner, the listing
/// and the table of mutants are made of it. Calls `$callback` with it.
#[doc(hidden)]
#[macro_export]
macro_rules! __for_each_case {
    ($callback:path { $($arguments:tt)* }) => { $callback! { { $($arguments)* }
        claim {
            absent_key_is_acquired_as_attempt_one: C01,
            nothing_of_an_expired_claim_survives: C01,
            nothing_of_an_expired_release_survives: C01,
            nothing_of_an_expired_response_survives: C01,
            concurrent_claims_have_one_winner: C02,
            concurrent_claims_of_two_connections_have_one_winner: C02,
            concurrent_takeovers_of_an_abandoned_key_have_one_winner: C02,
            concurrent_takeovers_of_a_failed_key_have_one_winner: C02,
            own_token_claims_again_and_changes_nothing: C03,
            own_token_claims_again_after_its_lease: C03,
            own_token_of_a_later_attempt_claims_again: C03,
            token_released_as_failed_never_claims_again: C03,
            token_released_as_unknown_never_claims_again: C03,
            acquired_tells_what_is_left_of_the_lease: C09,
            acquired_after_its_own_lease_has_nothing_left: C09,
            acquired_tells_the_attempt_of_a_takeover: C09,
        }
        progress {
            live_claim_of_another_is_in_progress: C04,
            live_claim_is_in_progress_for_those_who_refuse_too: C04,
            refused_claims_change_nothing: C04,
            an_attempt_that_was_taken_over_runs_since_the_takeover: C04,
            a_watcher_is_told_and_changes_nothing: C04,
        }
        replay {
            completed_key_is_replayed_to_everybody: C05,
            replay_tells_its_age_and_what_is_left: C05,
            replay_changes_nothing: C05,
            response_of_a_takeover_is_replayed_with_its_attempt: C05,
            empty_response_is_a_response: C40,
            all_byte_values_come_back: C40,
            responses_around_round_sizes_come_back: C40,
            largest_response_comes_back: C40,
            too_large_a_response_is_refused_without_effect: C40,
        }
        fingerprint {
            mismatch_while_in_progress: C06,
            mismatch_when_abandoned: C06,
            mismatch_when_released_as_failed: C06,
            mismatch_when_released_as_unknown: C06,
            mismatch_when_completed: C06,
            mismatch_after_a_takeover: C06,
            mismatch_tells_the_stored_version: C06,
            every_byte_of_a_fingerprint_counts: C06,
        }
        takeover {
            a_lease_is_not_over_before_its_time: C07,
            an_abandoned_key_is_taken_over_soon: C07,
            a_takeover_holds_the_key: C07,
            every_takeover_counts: C07,
            a_takeover_gets_the_last_checkpoint: C07,
            a_checkpoint_outlives_attempts_that_left_none: C07,
            a_failed_key_is_taken_at_once_even_by_those_who_refuse: C07,
            an_unknown_outcome_is_taken_over_at_once: C07,
            a_takeover_remembers_when_the_first_attempt_began: C07,
            refusing_tells_what_is_abandoned: C08,
            refusing_tells_of_an_unknown_outcome_at_once: C08,
        }
        complete {
            the_holder_completes: C10,
            completing_drops_the_checkpoint: C10,
            retention_counts_from_completion: C10,
            the_retention_of_the_completion_counts: C10,
            the_first_response_stays: C11,
            a_stranger_cannot_complete: C12,
            a_stale_owner_cannot_complete: C12,
            another_attempt_of_the_token_cannot_complete: C12,
            another_fingerprint_cannot_complete: C12,
            the_holder_completes_after_its_lease: C13,
            the_holder_completes_after_its_failed_release: C13,
            the_holder_completes_after_its_unknown_release: C13,
            a_record_that_is_gone_is_restored: C14,
            an_expired_record_is_restored: C14,
            a_key_given_back_as_not_started_is_restored: C14,
        }
        renew {
            a_renewal_lengthens_the_lease: C20,
            a_renewal_never_shortens_the_lease: C20,
            a_checkpoint_is_replaced_only_when_given: C20,
            an_empty_checkpoint_is_a_checkpoint: C20,
            the_holder_renews_after_its_lease: C20,
            a_later_attempt_counts_its_renewals_from_one: C20,
            a_stranger_cannot_renew: C21,
            a_stale_owner_cannot_renew: C21,
            another_attempt_of_the_token_cannot_renew: C21,
            nobody_renews_what_is_completed: C21,
            nobody_renews_after_failed: C21,
            nobody_renews_after_unknown: C21,
            nobody_renews_after_not_started: C21,
            a_renewal_never_creates: C21,
            an_older_renewal_changes_nothing: C22,
            a_repeated_renewal_is_held: C22,
        }
        release {
            not_started_frees_the_key: C25,
            not_started_by_a_later_attempt_counts_as_failed: C25,
            failed_is_marked_and_keeps_the_record: C26,
            unknown_is_marked_and_keeps_the_record: C26,
            the_holder_releases_after_its_lease: C26,
            a_stranger_cannot_release: C27,
            a_stale_owner_cannot_release: C27,
            another_attempt_of_the_token_cannot_release: C27,
            nobody_releases_what_is_completed: C27,
            a_repeated_release_changes_nothing: C28,
            releasing_what_is_gone_creates_nothing: C28,
            not_started_repeated_is_released: C28,
            a_token_given_back_as_not_started_is_remembered: C29,
            a_token_given_back_does_not_hinder_others: C29,
        }
        retention {
            a_completed_key_is_absent_after_its_retention: C30,
            a_released_key_is_absent_after_its_retention: C30,
            an_abandoned_key_is_absent_after_its_retention: C30,
            in_progress_lives_until_lease_and_retention_end: C31,
            a_renewal_moves_the_end_of_the_record: C31,
            released_lives_until_its_retention_ends: C31,
            completed_lives_until_its_retention_ends: C31,
            the_record_keeps_the_retention_of_its_claim: C31,
            every_lease_the_type_allows_is_kept: C32,
            every_retention_the_type_allows_is_kept: C32,
            the_shortest_durations_are_rounded_up: C32,
            zero_and_endless_durations_are_refused: C32,
        }
        clock {
            the_stores_clock_keeps_time: C33,
            every_moment_of_a_record_is_of_one_clock: C33,
            two_connections_agree_on_the_time: C33,
            a_second_connection_takes_over_neither_early_nor_late: C33,
        }
        keys {
            keys_of_every_length_are_apart: C34,
            the_longest_keys_differ_in_their_last_byte: C34,
            keys_that_look_alike_are_apart: C34,
            scopes_that_look_alike_are_apart: C34,
            pairs_that_a_naive_join_confuses_are_apart: C34,
            random_keys_are_apart: C34,
            namespaces_never_meet: C34,
            a_hundred_thousand_random_triples_have_places_of_their_own: C34,
        }
        limits {
            the_largest_checkpoint_comes_back: C41,
            too_large_a_checkpoint_is_refused_without_effect: C41,
            all_the_limits_at_once_fit: C41,
            the_store_promises_what_its_harness_expects: C41,
        }
        corrupt {
            foreign_data_is_refused: C00,
            foreign_data_at_an_unused_key_is_refused: C00,
            a_truncated_record_is_refused: C00,
            a_record_of_a_newer_format_is_refused: C00,
            what_cannot_be_read_never_expires: C00,
            what_cannot_be_read_is_not_swept: C00,
            the_record_of_another_key_is_refused: C35,
            the_answer_of_another_key_is_never_replayed: C35,
        }
        cancel {
            a_dropped_claim_leaves_the_key_claimable_by_its_token: C45,
            a_dropped_completion_can_be_repeated: C45,
            a_dropped_renewal_can_be_repeated: C45,
            a_dropped_release_can_be_repeated: C45,
            a_claim_nobody_listens_to_ends_with_its_lease: C46,
            a_late_claim_holds_for_its_own_lease_only: C46,
        }
        late {
            a_late_claim_after_the_completion_is_replayed: C50,
            a_late_claim_after_a_takeover_is_in_progress: C50,
            copies_from_before_a_takeover_change_nothing: C50,
            a_late_not_started_does_not_free_a_successors_key: C50,
            copies_of_a_whole_life_change_nothing: C50,
            doubled_operations_have_one_effect: C50,
            a_refusal_says_that_nothing_happened: C50,
        }
        outage {
            a_refused_connection_is_an_error: C50,
            a_reply_that_is_lost_leaves_the_effect_unknown: C50,
            a_request_that_is_lost_can_be_repeated: C50,
            a_server_that_never_answers_is_an_error_in_time: C51,
            a_new_connection_to_a_hung_server_ends_in_time: C51,
        }
        sweep {
            a_sweep_leaves_what_lives: C55,
            a_sweep_removes_no_more_than_its_batch: C55,
            a_sweep_counts_what_it_removes: C55,
            sweepers_and_claims_do_not_disturb_each_other: C55,
        }
        races {
            completion_and_takeover_have_one_winner: C60,
            renewal_and_takeover_have_one_winner: C60,
            release_and_claim_have_an_order: C60,
            completion_and_release_have_an_order: C60,
            of_two_completions_at_once_one_stays: C60,
            whoever_is_answered_is_seen_by_all: C60,
            whoever_is_answered_is_seen_through_other_connections: C60,
        }
        model {
            programs_that_found_something_once_find_nothing: C60,
            random_programs_are_answered_as_by_the_machine: C60,
        }
        history {
            what_concurrent_workers_saw_has_an_order: C60,
            what_workers_saw_through_two_connections_has_an_order: C60,
        }
        executor {
            every_attempt_has_a_token_of_its_own: C47,
            tokens_do_not_follow_from_the_request: C47,
            a_repeated_try_has_the_same_token: C47,
            a_token_that_was_given_back_is_never_used_again: C47,
            a_lease_that_is_nearly_over_is_renewed_before_work_starts: C61,
            work_does_not_start_under_a_claim_that_is_lost: C61,
            the_work_is_told_no_later_than_its_lease_ends: C61,
            at_most_one_renewal_is_on_its_way: C62,
            no_renewal_is_beside_a_completion: C62,
            no_renewal_is_beside_a_release: C62,
            nothing_is_completed_after_lost: C62,
            tries_of_a_completion_stop_when_the_lease_ends: C62,
        }
        recovery {
            a_verdict_on_the_last_attempt_counts: C63,
            what_happened_is_replayed_and_not_done_again: C63,
            a_verdict_on_an_earlier_attempt_does_not_count: C63,
            the_second_question_is_asked_while_the_claim_is_held: C63,
            nothing_runs_while_nobody_can_tell: C63,
        }
    } };
}

type Running<'a> = Pin<Box<dyn Future<Output = Verdict> + Send + 'a>>;

/// One case of the suite.
#[derive(Clone, Copy)]
pub struct Case {
    name: &'static str,
    clause: Clause,
    run: for<'a> fn(&'a Subject) -> Running<'a>,
}

impl Case {
    /// `module::what_must_be_so`
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The clause that it shows.
    pub const fn clause(&self) -> Clause {
        self.clause
    }

    pub(crate) fn run<'a>(&self, subject: &'a Subject) -> Running<'a> {
        (self.run)(subject)
    }

    /// Whether `filter` is part of its name or of its clause's id.
    pub fn matches(&self, filter: &str) -> bool {
        self.name.contains(filter) || self.clause.id().eq_ignore_ascii_case(filter)
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.clause, self.name)
    }
}

macro_rules! listing {
    ({} $($module:ident { $($case:ident: $clause:ident,)* })*) => {
        /// Every case, in the order of the list.
        pub const CASES: &[Case] = &[$($(
            Case {
                name: concat!(stringify!($module), "::", stringify!($case)),
                clause: Clause::$clause,
                run: |subject| Box::pin(crate::case::$module::$case(subject)),
            },
        )*)*];
    };
}

__for_each_case! { listing {} }

/// A clause without a case does not compile.
#[expect(clippy::indexing_slicing, reason = "const, and within the length")]
const _: () = {
    let mut clause = 0;
    while clause < Clause::ALL.len() {
        assert!(is_shown(Clause::ALL[clause]), "a clause of the contract has no case");
        clause += 1;
    }
};

#[expect(clippy::indexing_slicing, reason = "const, and within the length")]
const fn is_shown(clause: Clause) -> bool {
    let mut case = 0;
    while case < CASES.len() {
        if CASES[case].clause as usize == clause as usize {
            return true;
        }
        case += 1;
    }
    false
}
