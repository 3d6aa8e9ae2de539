"""The contract: one test at least for each promise, figure and rule that the README states, and none for any other.

This is the list. The tests stand in tests/contract by subject; each says by ``proves`` which lines of the README it
holds to.
"""

from __future__ import annotations

import re

import pytest

pytest.register_assert_rewrite("tests.contract")

from tests.contract.fixtures import (  # noqa: E402, F401
    bench,
    benches,
    relay,
)
from tests.contract.keeping import (  # noqa: E402, F401
    test_a_queue_that_stands_still_is_told_although_the_process_lives,
    test_how_old_due_work_may_be,
    test_how_old_waiting_messages_may_be,
    test_retention_can_be_left_to_the_command,
    test_retention_happens_by_itself,
    test_what_is_not_sent_says_why,
    test_what_waits_for_a_later_time_is_not_given_up,
    test_without_a_worker_nothing_is_lost_and_nothing_is_sent,
)
from tests.contract.processes import (  # noqa: E402, F401
    live,
    test_a_kill_leaves_one_message_for_each_connection_in_doubt,
    test_a_worker_killed_before_its_record_sends_a_second_equal_copy,
    test_each_embedded_door_delivers_within_seconds,
    test_eight_processes_deliver_two_thousand_rows_once_each,
    test_kill_9_in_mid_send_is_recovered,
    test_on_unknown_hold_is_never_sent_a_second_time_by_itself,
    test_term_finishes_what_is_in_hand_and_releases_the_rest_at_once,
)
from tests.contract.producing import (  # noqa: E402, F401
    shop,
    test_a_connection_in_autocommit_is_refused,
    test_a_key_has_to_be_given,
    test_a_key_is_remembered_as_long_as_its_row,
    test_a_producer_writes_one_table_and_needs_only_the_ring,
    test_a_rollback_takes_the_mail_along_and_a_commit_stores_both,
    test_a_rollback_to_a_savepoint_takes_the_mail_along,
    test_a_table_on_another_connection_is_refused_unless_meant,
    test_after_the_commit_the_message_is_stored_and_no_relay_was_asked,
    test_the_same_key_again_adds_nothing_and_the_transaction_goes_on,
    test_the_same_key_for_other_recipients_is_a_conflict_and_writes_nothing,
)
from tests.contract.promises import PROVEN  # noqa: E402
from tests.contract.rules import (  # noqa: E402, F401
    test_a_wrong_relay_password_leaves_every_row_pending,
    test_careful_a_closed_port_counts_nothing_and_mail_goes_when_it_opens,
    test_careful_a_port_that_stays_closed_is_given_up_after_three_days,
    test_careful_after_72_hours_it_is_rejected,
    test_careful_declaring_the_key_lost_rejects_at_once_and_is_audited,
    test_careful_it_waits_is_named_and_goes_when_the_ring_is_back,
    test_how_long_the_final_dot_may_take,
    test_how_many_hand_overs_are_announced_at_once,
    test_no_reply_to_the_final_dot_is_doubt_and_not_failure,
    test_plain_a_closed_port_costs_eight_attempts_at_the_formulas_times,
    test_plain_a_payload_whose_key_is_lost_is_rejected_and_cleared_in_that_cycle,
    test_plain_a_wrong_relay_password_counts_and_still_rejects_nothing,
    test_what_a_5xx_means,
)
from tests.contract.sealing import (  # noqa: E402, F401
    test_a_damaged_payload_is_rejected_and_cleared_and_the_next_one_is_sent,
    test_a_payload_opens_for_its_purpose_and_row_alone,
    test_a_restored_database_without_its_ring_holds_and_with_it_sends,
    test_no_content_is_found_in_database_dump_logs_or_pages,
    test_the_readme_lists_every_column_of_every_table_once,
    test_what_is_listed_as_sealed_is_what_the_package_seals,
)
from tests.contract.sending import (  # noqa: E402, F401
    test_15_s_25_rows_and_5_attempts_work_as_well,
    test_a_backlog_is_drained_without_a_pause,
    test_a_claim_takes_twenty_rows_at_most,
    test_a_late_worker_cannot_overwrite_its_successor,
    test_a_message_with_several_recipients_has_an_outcome_for_each,
    test_a_refusal_leaves_a_restricted_cause_in_clear_and_its_text_sealed,
    test_a_sending_row_of_4_59_stays_and_of_5_01_is_reclaimed,
    test_a_temporary_failure_then_success,
    test_eight_deferrals_at_the_formulas_times_then_failed_with_payload,
    test_of_two_dispatchers_that_read_the_same_candidate_one_goes_on,
    test_sent_is_written_after_the_relay_accepted,
    test_the_oldest_goes_first_among_equal_priorities,
    test_the_payload_goes_in_the_same_update_that_ends_a_message,
    test_the_time_limits_reach_the_session,
    test_the_waits_after_attempts_1_to_12,
    test_without_a_relay_development_simulates_and_production_does_not_start,
    test_without_starttls_nothing_is_sent_and_nothing_is_lost,
)
from tests.support import readme  # noqa: E402


def stated() -> list[str]:
    """Every line of the README that has to be proved, by its label."""
    promises = re.findall(r"^- \*\*(\w+)\*\* ", readme.part("promises"), re.MULTILINE)
    figures = [cells[0] for cells in readme.rows("figures")]
    rules = [cells[0].strip("`") for cells in readme.rows("rules")]
    return promises + figures + rules


def test_every_line_of_the_readme_is_proved_and_every_proof_is_stated() -> None:
    assert sorted(PROVEN) == sorted(stated())


def test_every_proof_is_a_test_of_this_module() -> None:
    here = set(globals())
    assert {test for tests in PROVEN.values() for test in tests} <= here
