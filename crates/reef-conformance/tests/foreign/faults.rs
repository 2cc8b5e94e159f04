//! The suite finds what is wrong with a broken device.

use crate::toy::{Fault, Toy};
use reef_conformance::cases::{
    clients, errors, graphs, operands, order, padding, preemption, starvation, times,
};
use reef_core::PreemptLevel;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

type Case = fn(&Toy, PreemptLevel);

/// Longer than all tries take, and finite: a fault may show as a hang.
const HANG_TIMEOUT: Duration = Duration::from_secs(90);

/// Time for which a fault is tried again: it shows when threads run at the same time, which on a
/// busy machine they may not in one try, nor in three.
const RETRY_TIMEOUT: Duration = Duration::from_secs(40);

/// Checks that `case` fails on a device with `fault`, and passes on one without.
fn finds(fault: Fault, level: PreemptLevel, case: Case) {
    case(&Toy::broken(Fault::None), level);
    let (done, result) = mpsc::channel();
    thread::spawn(move || {
        reef_conformance::use_short_timeouts();
        let device = || Toy::broken(fault);
        let fails = |()| catch_unwind(AssertUnwindSafe(|| case(&device(), level))).is_err();
        let begun = Instant::now();
        let mut tries = std::iter::repeat(()).take_while(|()| begun.elapsed() < RETRY_TIMEOUT);
        let _ = done.send(tries.any(fails));
    });
    let found = result.recv_timeout(HANG_TIMEOUT);
    let hangs = Err(mpsc::RecvTimeoutError::Timeout);
    assert!(found == Ok(true) || found == hangs, "a device that {fault:?} passes at level {level}");
}

macro_rules! found {
    ($($fault:ident at $level:ident by $($case:path),+;)+) => {
        $(#[test]
        #[allow(non_snake_case)] // the fault's name
        fn $fault() {
            $(finds(Fault::$fault, PreemptLevel::$level, $case);)+
        })+
    };
}

found! {
    EvictsNothing at DeviceQueue by preemption::each_block_runs_once_in_order,
        preemption::a_preemption_is_as_deep_as_its_level, preemption::a_group_is_preempted_by_one_flag;
    ResetsNothing at All by preemption::a_preemption_is_as_deep_as_its_level;
    LosesStopped at All by preemption::each_block_runs_once_in_order,
        clients::all_clients_finish_their_work;
    CommitsStopped at All by preemption::each_block_runs_once_in_order;
    StopsForever at All by starvation::a_kernel_longer_than_the_real_time_period_ends;
    ForgetsCheckpoint at DeviceQueue by preemption::each_block_runs_once_in_order;
    LosesQueued at DeviceQueue by preemption::each_block_runs_once_in_order,
        operands::operands_may_be_dropped_at_once;
    DrainsEarly at DeviceQueue by preemption::a_preemption_is_as_deep_as_its_level;
    CompletesEarly at HostQueue by order::completed_work_has_taken_effect;
    RunsUnordered at HostQueue by clients::all_clients_finish_their_work;
    SkipsCopies at HostQueue by order::copies_fills_and_host_code_keep_their_order;
    SkipsFills at HostQueue by order::copies_fills_and_host_code_keep_their_order;
    ReachesEventsEarly at HostQueue by order::a_queue_waits_for_an_event_of_another;
    ChecksNoBounds at HostQueue by errors::a_copy_out_of_bounds_ends_its_queue_alone;
    PadsNothing at HostQueue by padding::padding_never_outlasts_its_kernel;
    RunsGraphsThrough at All by graphs::a_graph_stops_midway;
    SkipsNodes at DeviceQueue by graphs::a_graph_is_preempted_inside;
    CapsBlocksAway at All by padding::a_capped_queue_runs_each_block_once;
    TicksSeldom at HostQueue by times::tasks_note_when_they_begin_and_end;
    NotesBetweenAtOnce at HostQueue by times::tasks_note_when_they_begin_and_end;
}
