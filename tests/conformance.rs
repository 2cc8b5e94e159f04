//! The conformance suite on each backend that is compiled in: see `reef_conformance`.

#![cfg(any(feature = "cpu", feature = "cuda", feature = "hip"))]

#[cfg(feature = "hip")]
mod software;

use reef_conformance::suite;

#[cfg(feature = "cpu")]
suite!(cpu, reef::cpu::Cpu, "");
#[cfg(feature = "cuda")]
suite!(cuda, reef::cuda::Cuda, "");
#[cfg(feature = "cuda")]
suite!(cuda_few, reef::cuda::Cuda, "colocated_blocks=24");
#[cfg(feature = "cuda")]
suite!(cuda_gates, reef::cuda::Cuda, "gates=3");
#[cfg(feature = "hip")]
suite!(hip, reef::hip::Hip, "", before: software::load, after: software::check);
#[cfg(feature = "hip")]
suite!(hip_gates, reef::hip::Hip, "gates=3", before: software::load, after: software::check);

/// Cases in which it matters that real-time kernels are padded, on a device that does so if it is
/// asked to.
#[cfg(any(feature = "cuda", feature = "hip"))]
macro_rules! padded {
    ($name:ident, $device:ty, $before:expr, $after:expr) => {
        mod $name {
            fn run(name: &str, case: fn(&$device, reef_conformance::PreemptLevel)) {
                $before();
                reef_conformance::run::<$device>(name, "colocation=padded", case, $after);
            }

            reef_conformance::tests! {
                padding: padded_blocks_run_once, padding_never_outlasts_its_kernel,
                    best_effort_work_ends_as_padding_alone, a_client_leaves_while_it_pads;
                parking: a_parked_queue_continues_elsewhere, parked_clients_continue;
                operands: operands_may_be_dropped_at_once;
                clients: all_clients_finish_their_work, clients_come_and_go,
                    clients_pad_real_time_kernels, best_effort_work_ends_next_to_faster_requests,
                    a_burst_preempts_once, dropped_dispatcher_answers_all_clients;
                errors: a_task_refused_midway_ends_first;
            }
        }
    };
}

#[cfg(feature = "cuda")]
padded!(cuda_padded, reef::cuda::Cuda, crate::nothing, crate::nothing);
#[cfg(feature = "cuda")]
fn nothing() {}
#[cfg(feature = "hip")]
padded!(hip_padded, reef::hip::Hip, crate::software::load, crate::software::check);
