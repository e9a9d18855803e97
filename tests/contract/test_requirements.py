"""Every requirement of the collector capture contract, and the test that holds it.

Nothing may claim support or speed unless both gates' receipts are present and passing; else "evidence only".
    test_gate_p::test_without_gate_s_no_arm_is_reached_whatever_the_figures
    test_gate_p::test_a_gain_that_is_too_small_is_a_result_with_its_figures_and_no_claim
    test_gate_s::test_both_arms_together_pass_the_gate
A no-go is a first-class result with its structural evidence.
    test_gate_s::test_a_structural_no_go_is_a_result_with_its_evidence

1. Boundary declaration
One declaration (configuration or decorator): entry, K, inputs, outputs, carriers, owners, exclusions.
    test_declarations::test_the_contract_takes_the_boundary_that_the_decorator_declares
    test_static_audits::test_configuration_takes_one_step_and_what_crosses
K other than 1, action sequences and speculative ticks are rejected before analysis.
    test_declarations::test_no_boundary_covers_anything_but_one_control_step
    test_declarations::test_action_sequences_and_speculative_ticks_have_no_boundary
    test_static_audits::test_configuration_refuses_more_than_one_step_with_the_place
    test_static_audits::test_a_comment_refuses_more_than_one_step_before_the_analysis
    test_static_audits::test_a_decorator_refuses_more_than_one_step_before_the_analysis
An entry that does not resolve is an error.
    cli/test_contract::test_an_entry_that_does_not_resolve_is_an_error

2. Capabilities and preflight
preflight is pure: no capture, no allocation, no RNG draw, no mode change.
    test_declarations::test_preflight_captures_allocates_draws_and_switches_nothing
Requested explicitly; one CUDA device; stable views; stepping; deferred validation; one registered generator.
    test_declarations::test_every_requirement_that_fails_is_a_reason_of_its_own
Every carrier is declared with shape, dtype, device and a fixed address.
    test_declarations::test_every_carrier_is_declared_fixed_and_in_its_place
Named stream contract with a readable non-negative stream id.
    test_declarations::test_a_stream_id_that_is_not_a_readable_non_negative_integer_is_malformed
Masked reset; a full refresh is rejected; driver and memory-pool facts.
    test_declarations::test_every_requirement_that_fails_is_a_reason_of_its_own
Allocator snapshot of non-negative integers.
    test_declarations::test_an_allocator_snapshot_holds_non_negative_integers
The list of semantic-owner rejections is empty.
    test_declarations::test_every_requirement_that_fails_is_a_reason_of_its_own
A missing or unknown capability is unsupported, never a wildcard.
    test_declarations::test_a_capability_that_is_not_declared_is_unsupported
    test_declarations::test_a_capability_that_nobody_knows_is_unsupported_and_no_wildcard
    test_declarations::test_whatever_is_declared_is_refused_with_a_reason_or_malformed
Supported means no reason, unsupported a non-empty one; not requested is unsupported with a reason.
    test_declarations::test_a_verdict_can_neither_support_with_reasons_nor_refuse_without
    test_declarations::test_all_reasons_are_given_at_once_and_in_one_order

3. Carrier manifest
Name, owner path, shape, dtype, device, address, role, writers.
    test_carriers::test_a_malformed_field_is_refused_by_name
    test_carriers::test_a_name_is_declared_once
The canonical carriers and their shapes.
    test_carriers::test_the_canonical_layout_is_that_of_the_g1_motion_workload
Drift of address, shape, dtype or device after capture invalidates before the next replay.
    test_carriers::test_a_change_of_any_attribute_is_drift
    test_carriers::test_drift_invalidates_before_the_next_replay
Comparison clones are evidence carriers, allocated outside capture.
    test_carriers::test_comparison_clones_are_evidence_and_lie_elsewhere
    test_carriers::test_comparison_clones_are_never_allocated_inside_a_capture
    test_declarations::test_every_carrier_is_declared_fixed_and_in_its_place

4. Lifecycle
Allocate, warm-up, preflight, capture, replay, completion, publication, invalidation, fallback or fail-closed.
    test_lifecycle::test_a_capture_goes_through_its_whole_life
    test_cpu_run::test_a_collector_runs_its_whole_life_on_the_cpu_with_immediate_receipts
Four states; illegal transitions raise.
    test_lifecycle::test_a_step_that_is_not_due_is_refused_and_changes_nothing
    test_lifecycle::test_no_order_of_events_reaches_an_illegal_state
Seven invalidation reasons, each before the next replay.
    test_lifecycle::test_every_reason_invalidates_before_the_next_replay
    test_lifecycle::test_there_are_no_other_reasons
    test_lifecycle::test_what_is_invalidated_while_it_records_never_becomes_ready
The mode is chosen on the cold path and never changes inside a tick.
    test_lifecycle::test_the_mode_never_changes_inside_a_tick
    test_lifecycle::test_cold_path_work_is_refused_while_a_capture_records
Fallback only where allowed, unpublished and with the RNG restored; counted, with its reason.
    test_lifecycle::test_an_unpublished_failure_with_a_restored_rng_falls_back_counted_and_with_its_reason
    test_lifecycle::test_nothing_falls_back_by_itself
Otherwise it fails closed.
    test_lifecycle::test_without_every_condition_of_a_fallback_it_fails_closed
    test_lifecycle::test_an_unsupported_candidate_fails_closed_before_capture

5. Completion receipts
Version, operation, monotonic sequence, producer and capture identity of at most 256 bytes, stream id, event.
    test_receipts::test_a_malformed_field_of_a_receipt_is_refused
    test_receipts::test_an_identity_may_have_256_bytes
    test_receipts::test_the_event_form_needs_an_event
A stale sequence, a foreign identity or a malformed field raises.
    test_receipts::test_sequences_only_grow
    test_receipts::test_a_foreign_identity_is_refused
    test_lifecycle::test_a_stale_or_foreign_receipt_completes_nothing
Ingress waits on the receipt before its first read.
    test_receipts::test_a_slot_is_handed_out_only_behind_the_receipts_wait
    test_receipts::test_the_event_form_orders_the_reading_stream_and_leaves_the_host_alone
Publication events and tick counters stay contiguous.
    test_receipts::test_ticks_are_published_without_gaps
    test_receipts::test_no_order_of_calls_loses_or_repeats_a_transition
    test_lifecycle::test_a_tick_completes_publishes_and_ends_once_each_in_this_order
Published and released counters are equal at the end.
    test_receipts::test_an_ingress_closes_with_equal_counters_only

6. RNG evidence
CPU state tensor, device label, monotonic state version and draw version.
    test_rng::test_malformed_evidence_is_refused
    test_rng::test_every_tick_raises_the_draw_version_by_its_draws
    test_rng::test_the_state_version_never_goes_back
The recorded draw order is checked.
    test_rng::test_the_first_tick_records_the_order_and_every_later_one_is_held_to_it
    test_rng::test_a_replay_counts_as_the_recorded_order
A rollback restores the whole pre-boundary state and the next draws equal eager bit for bit.
    test_rng::test_a_rollback_restores_the_whole_state_and_the_next_draws_equal_eager_ones
    test_rng::test_a_torch_generator_draws_the_same_after_a_rollback_bit_for_bit
An empty mask consumes nothing.
    test_rng::test_an_empty_mask_leaves_the_masked_draws_out_and_consumes_nothing
    test_rng::test_a_draw_under_an_empty_mask_is_found

7. Gate S
Eager and graph trajectories equal in every field that the record lists.
    test_gate_s::test_the_fields_are_those_that_the_decision_record_lists
    test_gate_s::test_every_field_must_be_equal
Empty, partial and full masks.
    test_gate_s::test_empty_partial_and_full_masks_are_what_they_say
Null and MPS arms; eager, graph and warm-up-then-replay.
    test_gate_s::test_complete_and_equal_evidence_passes_on_its_arm_and_nowhere_else
    test_gate_s::test_every_trajectory_has_its_manifest
Fault injection behaves as declared.
    test_gate_s::test_the_planted_faults_cover_what_the_contract_names
    test_gate_s::test_every_fault_is_planted
    test_gate_s::test_every_fault_ends_as_declared_and_in_no_other_way
The static audits report zero.
    test_gate_s::test_all_three_audits_are_run_and_zero
    test_static_audits::test_findings_count_for_the_packages_that_hold_them
A missing field or an arm not run is "not reached", never a pass.
    test_gate_s::test_a_field_that_was_not_observed_under_some_mask_on_some_trajectory_is_not_reached
    test_gate_s::test_less_evidence_never_turns_into_a_pass
    test_gate_s::test_comparing_nothing_is_no_pass

8. Gate P
Refused unless Gate S passed for the same arm and head.
    test_gate_p::test_gate_s_must_have_passed_on_the_same_arm
    test_gate_p::test_gate_s_must_have_passed_for_the_same_head
Three fresh-process paired repeats per mode, interleaved.
    test_gate_p::test_a_run_that_is_missing_is_not_reached
    test_gate_p::test_two_runs_never_share_a_process
    test_gate_p::test_modes_are_interleaved
300 iterations, median of the last 100 tail_env_steps_per_sec.
    test_gate_p::test_the_metric_is_the_median_of_the_last_hundred_iterations
    test_gate_p::test_a_registration_that_asks_for_less_than_the_contract_never_passes
At least one arm gains at least 10 % and every safety observation holds.
    test_gate_p::test_ten_percent_over_the_baseline_is_the_line
    test_gate_p::test_every_safety_observation_must_hold_in_every_run
Each arm authorises only itself.
    test_gate_p::test_one_passing_arm_passes_the_gate_and_authorises_itself_alone
Thresholds, shapes, K, semantic surface and mode rules are hashed before the run; a changed hash voids the result.
    test_gate_p::test_whatever_is_changed_after_registration_voids_the_result
    test_gate_p::test_a_run_that_was_started_under_another_registration_voids_the_result
    test_gate_p::test_thresholds_are_registered_before_the_first_run

9. Run manifest
Everything that a claim rests on is in it.
    test_manifest::test_a_manifest_says_everything_that_a_claim_rests_on
Strictly typed, and closed against anything malformed, missing or extra.
    test_manifest::test_no_field_has_a_default
    test_manifest::test_a_contradiction_or_a_wrong_type_is_refused_by_field
    test_manifest::test_whatever_is_corrupted_the_manifest_is_refused
    test_manifest::test_hostile_text_is_one_clear_error
Enabled means graph, requested, ready, a capture id and no reasons; disabled no capture id and a reason.
    test_manifest::test_a_contradiction_or_a_wrong_type_is_refused_by_field
    test_lifecycle::test_no_order_of_events_reaches_an_illegal_state

The library
Pure Python at import; torch only where tensors are touched.
    test_import::test_the_whole_contract_imports_no_framework_and_is_quick
On the CPU, lifecycle, gates and manifests are testable with Warp's CPU device and immediate receipts.
    test_cpu_run::test_a_collector_runs_its_whole_life_on_the_cpu_with_immediate_receipts
"""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
FILES = {"cli/test_contract": HERE.parent / "cli" / "test_contract.py",
         "test_static_audits": HERE.parent / "audit" / "test_static_audits.py"}  # fmt: skip


def requirements() -> dict[str, list[str]]:
    """Each sentence with its tests; a sentence stands at the margin, its tests are indented below it."""
    found: dict[str, list[str]] = {}
    sentence = ""
    for line in (__doc__ or "").splitlines()[2:]:
        if line.startswith("    "):
            found[sentence].append(line.strip())
        elif line.endswith(".") and line:
            sentence = line
            found[sentence] = []
    return found


def test_every_requirement_has_a_test_that_exists() -> None:
    assert len(requirements()) >= 45
    for sentence, tests in requirements().items():
        assert tests, sentence
        for test in tests:
            file, name = test.split("::")
            source = FILES.get(file, HERE / f"{file}.py").read_text(encoding="utf-8")
            assert re.search(rf"^def {name}\(", source, re.MULTILINE), test
