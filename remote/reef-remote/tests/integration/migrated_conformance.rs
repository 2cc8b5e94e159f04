//! Cases of the conformance suite in sessions that are moved between two servers all the time.

use crate::support::{self, Served};
use reef_conformance::PreemptLevel;
use reef_remote::Remote;
use reef_remote::migration::Target;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Pause between two rounds of moves.
const MOVE_INTERVAL: Duration = Duration::from_millis(3);

/// Moves that were made.
static MOVES: AtomicU64 = AtomicU64::new(0);

/// Moves each session of a server to the other one. One may end meanwhile.
fn move_all(from: &Served, to: &Served) {
    let target = Target::new(to.address.parse().unwrap());
    for session in from.sessions.list() {
        let Ok(migration) = from.sessions.migration(session.id) else { continue };
        match migration.migrate(&target) {
            Ok(_) => {
                MOVES.fetch_add(1, Ordering::Relaxed);
            }
            Err(why) => assert!(
                ["it has ended", "it has not begun"].iter().any(|fine| why.contains(fine)),
                "{why}"
            ),
        }
    }
}

/// Device of a server whose sessions are moved.
fn device() -> &'static str {
    static SERVED: OnceLock<String> = OnceLock::new();
    SERVED.get_or_init(|| {
        let servers = [support::own(), support::own()];
        let device = servers[0].device();
        let body = move || {
            loop {
                move_all(&servers[0], &servers[1]);
                move_all(&servers[1], &servers[0]);
                std::thread::sleep(MOVE_INTERVAL); // sleep: pace of the moves
            }
        };
        std::thread::Builder::new().name("mover".into()).spawn(body).unwrap();
        device
    })
}

fn run(name: &str, case: fn(&Remote, PreemptLevel)) {
    let before = MOVES.load(Ordering::Relaxed);
    reef_conformance::run::<Remote>(name, device(), case, || ());
    println!("{} moves meanwhile", MOVES.load(Ordering::Relaxed) - before);
}

reef_conformance::tests! {
    preemption: a_newcomer_of_a_held_group_is_held, wrong_states_are_errors,
        a_group_is_preempted_by_one_flag;
    parking: a_parked_queue_continues_elsewhere, only_blocks_that_are_left_run;
    order: copies_fills_and_host_code_keep_their_order, completed_work_has_taken_effect,
        a_queue_waits_for_an_event_of_another, empty_work_completes;
    padding: padded_blocks_run_once;
    clients: a_burst_preempts_once, dropped_dispatcher_answers_all_clients;
    errors: a_full_queue_gives_the_command_back, a_copy_out_of_bounds_ends_its_queue_alone;
}

/// The mover has not stopped: sessions have moved, and move still.
#[test]
fn session_is_moved_again_and_again() {
    let device = device();
    let before = MOVES.load(Ordering::Relaxed);
    let _session = <Remote as reef_core::Device>::open(0, device).unwrap();
    let begin = std::time::Instant::now();
    while MOVES.load(Ordering::Relaxed) < before + 20 {
        assert!(begin.elapsed() < Duration::from_secs(300), "the mover has stopped");
        std::thread::sleep(Duration::from_millis(1)); // sleep: poll of a condition
    }
}
