//! The conformance suite: in a session with a device of its own over a UNIX socket, over TCP and
//! over a slow line, and at the level of a shared device.

use crate::support::{self, Served};
use reef_conformance::suite;
use reef_remote::Remote;
use std::sync::OnceLock;

/// Text that opens the device of a server, which is started when the first test asks.
macro_rules! served {
    ($name:ident, $start:expr) => {
        fn $name() -> &'static str {
            static SERVED: OnceLock<(Served, String)> = OnceLock::new();
            let start = || {
                let served = $start();
                let device = served.device();
                (served, device)
            };
            &SERVED.get_or_init(start).1
        }
    };
}

served!(shared, support::each);
served!(own_unix, support::own);
served!(own_tcp, support::own_tcp);

suite!(remote_shared, Remote, shared());
suite!(remote_own_unix, Remote, own_unix());
suite!(remote_own_tcp, Remote, own_tcp());

/// Over a line with a round trip of a millisecond: what a preemption must do there, and clients.
mod remote_own_slow {
    use super::{Remote, own_tcp};
    use reef_conformance::PreemptLevel;

    fn run(name: &str, case: fn(&Remote, PreemptLevel)) {
        let device = format!("{}?remote.emulate=rtt:1ms", own_tcp());
        reef_conformance::run::<Remote>(name, &device, case, || ());
    }

    reef_conformance::tests! {
        preemption: a_newcomer_of_a_held_group_is_held, wrong_states_are_errors,
            a_group_is_preempted_by_one_flag;
        parking: a_parked_queue_continues_elsewhere, only_blocks_that_are_left_run;
        order: copies_fills_and_host_code_keep_their_order, completed_work_has_taken_effect,
            a_queue_waits_for_an_event_of_another, empty_work_completes;
        padding: padded_blocks_run_once;
        clients: a_burst_preempts_once, dropped_dispatcher_answers_all_clients;
        times: tasks_note_when_they_begin_and_end;
        errors: a_full_queue_gives_the_command_back, a_copy_out_of_bounds_ends_its_queue_alone;
    }
}
