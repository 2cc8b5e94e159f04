//! No wake-up is lost on a device whose calls take longer now and then.

use crate::toy::Toy;
use reef_core::scheduler::Reef;
use reef_core::{Cells, ClientConfig, Dispatcher, PreemptLevel, Task};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Much longer than any step takes here.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A device that dozes from a seed that is printed.
fn dozing() -> Toy {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64;
    let seed = std::env::var("REEF_CONFORMANCE_SEED").map_or(now, |n| n.parse().expect("a number"));
    println!("REEF_CONFORMANCE_SEED={seed}");
    Toy::dozing(seed)
}

/// The worker wakes up because its command ends, late for a preemption that is over when it looks.
/// The next command of its client must run, also if no preemption follows that would wake it.
#[test]
fn late_worker_runs_the_next_command_after_a_preemption() {
    let device = dozing();
    let reef = Reef::default().level(PreemptLevel::DeviceQueue);
    let dispatcher = Dispatcher::start(&device, reef).unwrap();
    let cells = Cells::new(&device, 1).unwrap();
    let mut be = dispatcher.best_effort(ClientConfig::default()).unwrap();
    let mut rt = dispatcher.real_time().unwrap();
    let task = Task::new([cells.append(0, 0)]).unwrap();
    for round in 0..500 {
        let first = be.submit(&[cells.append(0, round % 40)]).unwrap();
        let ticket = rt.submit(&task).unwrap();
        let outcome = ticket.wait_timeout(TEST_TIMEOUT);
        outcome.unwrap_or_else(|| panic!("round {round}: the task doesn't end")).unwrap();
        for command in [None, Some(cells.append(0, 0))] {
            let seq = command.map_or(first, |command| be.submit(&[command]).unwrap());
            let outcome = be.wait_timeout(seq, TEST_TIMEOUT);
            assert_eq!(
                outcome,
                Some(Ok(())),
                "round {round}: command {seq:?} of the client is never run"
            );
        }
    }
}
