//! What must hold on every backend at every level; a backend that passes may be relied on.
//!
//! The kernel of these tests, `append`, does `cell = cell * 3 + value`: a block that runs twice, not
//! at all, or out of order gives another result. Schedules are random, from a seed that is printed
//! and can be set with `REEF_CONFORMANCE_SEED`; `REEF_CONFORMANCE_CYCLES` (default 1000) is the number
//! of preemptions per level and test.

#![cfg(any(feature = "cpu", feature = "cuda", feature = "hip"))]

#[path = "conformance/clients.rs"]
mod clients;
#[path = "conformance/errors.rs"]
mod errors;
#[path = "conformance/graphs.rs"]
mod graphs;
#[path = "conformance/order.rs"]
mod order;
#[path = "conformance/padding.rs"]
mod padding;
#[path = "conformance/preemption.rs"]
mod preemption;
#[cfg(feature = "hip")]
#[path = "conformance/software.rs"]
mod software;
#[path = "conformance/subject.rs"]
mod subject;

use reef::PreemptLevel;

/// Runs each test on each backend that is compiled in, at each level.
macro_rules! suite {
    ($backend:ident, $device:ty, $name:literal, $options:literal: $($test:path => $case:ident),+ $(,)?) => {
        mod $backend {
            use super::*;

            $(#[test]
            fn $case() {
                let Some(device) = subject::open::<$device>($name, $options) else { return };
                for level in PreemptLevel::EACH.into_iter().filter(|&l| l <= subject::level(&device)) {
                    println!("{} at level {level}", stringify!($case));
                    $test(&device, level);
                    #[cfg(feature = "hip")]
                    software::check();
                }
            })+
        }
    };
}

macro_rules! every_backend {
    ($($test:path => $case:ident),+ $(,)?) => {
        #[cfg(feature = "cpu")]
        suite!(cpu, reef::cpu::Cpu, "cpu", "": $($test => $case),+);
        #[cfg(feature = "cuda")]
        suite!(cuda, reef::cuda::Cuda, "cuda", "": $($test => $case),+);
        #[cfg(feature = "cuda")]
        suite!(cuda_gates, reef::cuda::Cuda, "cuda", "gates=3": $($test => $case),+);
        #[cfg(feature = "hip")]
        suite!(hip, reef::hip::Hip, "hip", "": $($test => $case),+);
        #[cfg(feature = "hip")]
        suite!(hip_gates, reef::hip::Hip, "hip", "gates=3": $($test => $case),+);
    };
}

every_backend! {
    preemption::each_block_runs_once_in_order => each_block_runs_once_in_order,
    preemption::nothing_runs_while_a_queue_is_held => nothing_runs_while_a_queue_is_held,
    preemption::a_group_is_preempted_by_one_flag => a_group_is_preempted_by_one_flag,
    preemption::a_newcomer_of_a_held_group_is_held => a_newcomer_of_a_held_group_is_held,
    preemption::a_dropped_queue_leaves_a_prefix => a_dropped_queue_leaves_a_prefix,
    preemption::wrong_states_are_errors => wrong_states_are_errors,
    order::copies_fills_and_host_code_keep_their_order => copies_fills_and_host_code_keep_their_order,
    order::memory_of_others_is_copied_from_and_to => memory_of_others_is_copied_from_and_to,
    order::a_queue_waits_for_an_event_of_another => a_queue_waits_for_an_event_of_another,
    order::empty_work_completes => empty_work_completes,
    order::a_queue_counts_as_idle_after_its_timeout => a_queue_counts_as_idle_after_its_timeout,
    padding::padded_blocks_run_once => padded_blocks_run_once,
    padding::padding_never_outlasts_its_kernel => padding_never_outlasts_its_kernel,
    graphs::a_graph_is_preempted_inside => a_graph_is_preempted_inside,
    graphs::clients_run_graphs => clients_run_graphs,
    graphs::a_graph_holds_launches_copies_and_fills => a_graph_holds_launches_copies_and_fills,
    clients::everybody_gets_their_work_done => everybody_gets_their_work_done,
    clients::clients_come_and_go => clients_come_and_go,
    clients::clients_pad_real_time_kernels => clients_pad_real_time_kernels,
    clients::a_burst_preempts_once => a_burst_preempts_once,
    clients::a_dropped_dispatcher_answers_everybody => a_dropped_dispatcher_answers_everybody,
    errors::a_full_queue_gives_the_command_back => a_full_queue_gives_the_command_back,
    errors::a_copy_out_of_bounds_ends_its_queue_alone => a_copy_out_of_bounds_ends_its_queue_alone,
    errors::a_task_refused_midway_ends_first => a_task_refused_midway_ends_first,
    errors::a_failing_host_function_ends_its_queue_alone => a_failing_host_function_ends_its_queue_alone,
    errors::sizes_that_contradict_are_refused => sizes_that_contradict_are_refused,
}
