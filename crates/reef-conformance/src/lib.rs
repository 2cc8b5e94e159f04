//! Conformance suite: properties of every backend at every level. A backend that passes may be
//! relied on.
//!
//! A backend takes all cases into a test file with one line:
//!
//! ```
//! reef_conformance::suite!(cpu, reef_cpu::Cpu, "units=2");
//! ```
//!
//! That makes a module `cpu` with one test for each case. A test opens device 0 with the options
//! and runs its case at each level up to [`DeviceInfo::level`](reef_core::DeviceInfo::level). If
//! there is no device, it says `skipped` with the reason, and the last line of the run counts the
//! tests that were skipped; with `REEF_CONFORMANCE_REQUIRE=1` it fails instead.
//!
//! The kernel of these tests, `append`, does `cell = cell * 3 + value`: a block that runs twice,
//! not at all, or out of order gives another result ([`Device::kernel`](reef_core::Device::kernel)
//! says exactly what it must do). Schedules are random, from a seed that is printed and can be set
//! with `REEF_CONFORMANCE_SEED`; `REEF_CONFORMANCE_CYCLES` (default 1000) is the number of
//! preemptions per level and test.
//!
//! [`Null`] is a device that needs no hardware, for benches and tests of what stands above a
//! device.
//!
//! `before:` names a function that is called before the device is opened, `after:` one that is
//! called after each level, for checks of the backend's own:
//!
//! ```
//! fn no_memory_is_left() {}
//!
//! reef_conformance::suite!(cpu, reef_cpu::Cpu, "units=2", after: no_memory_is_left);
//! # fn main() {} // so that the function stands where the macro looks for it
//! ```

pub mod cases;
pub mod null;
mod run;
mod subject;
mod tensors;

pub use null::Null;
pub use run::{open, run, skip};
#[doc(hidden)]
pub use subject::use_short_timeouts;

/// One test for each case, on one device: see the [crate's docs](crate).
#[macro_export]
macro_rules! suite {
    ($name:ident, $device:ty, $options:expr
     $(, before: $before:expr)? $(, after: $after:expr)? $(,)?) => {
        mod $name {
            #[allow(unused_imports)] // paths from the root need none
            use super::*;

            #[allow(dead_code)] // doc tests have no tests
            fn run(name: &str, case: fn(&$device, $crate::PreemptLevel)) {
                $(($before)();)?
                $crate::run::<$device>(name, $options, case, || { $(($after)();)? });
            }

            $crate::tests! {
                preemption: each_block_runs_once_in_order, a_preemption_is_as_deep_as_its_level,
                    nothing_runs_while_a_queue_is_held,
                    a_group_is_preempted_by_one_flag, a_newcomer_of_a_held_group_is_held,
                    a_dropped_queue_leaves_a_prefix, wrong_states_are_errors;
                parking: a_parked_queue_continues_elsewhere, only_blocks_that_are_left_run,
                    host_code_and_events_are_not_parked, parked_clients_continue;
                starvation: a_kernel_longer_than_the_real_time_period_ends;
                order: copies_fills_and_host_code_keep_their_order,
                    adopted_host_memory_is_copied_from_and_to, completed_work_has_taken_effect,
                    operands_live_until_their_work_has_run, a_queue_waits_for_an_event_of_another,
                    empty_work_completes;
                operands: a_queue_keeps_what_it_launched, operands_may_be_dropped_at_once;
                padding: padded_blocks_run_once, padding_never_outlasts_its_kernel,
                    best_effort_work_ends_as_padding_alone, a_client_leaves_while_it_pads,
                    a_capped_queue_runs_each_block_once, a_queue_changes_its_width_in_order;
                graphs: a_graph_is_preempted_inside, a_graph_stops_midway, clients_run_graphs,
                    a_graph_holds_launches_copies_and_fills;
                clients: all_clients_finish_their_work, clients_come_and_go,
                    clients_pad_real_time_kernels, best_effort_work_ends_next_to_faster_requests,
                    a_burst_preempts_once,
                    dropped_dispatcher_answers_all_clients;
                times: tasks_note_when_they_begin_and_end;
                errors: a_full_queue_gives_the_command_back, a_copy_out_of_bounds_ends_its_queue_alone,
                    a_task_refused_midway_ends_first, a_failing_host_function_ends_its_queue_alone,
                    sizes_that_contradict_are_refused;
            }
        }
    };
}

/// The tests of [`suite!`], which has a function `run` next to them.
#[doc(hidden)]
#[macro_export]
macro_rules! tests {
    ($($module:ident: $($case:ident),+;)+) => {
        $($(#[test]
        fn $case() {
            run(stringify!($case), $crate::cases::$module::$case);
        })+)+
    };
}

#[doc(hidden)] // for `suite!` where the caller has no `reef-core`
pub use reef_core::PreemptLevel;
