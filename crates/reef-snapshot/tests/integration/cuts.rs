//! A task that is stopped at any block ends as if it had not been.

use crate::common::{Journal, contents, cpu, finish, rng, spoil, stopped_at, through_a_file};
use rand::RngExt;
use reef_core::{Config, Parked, PreemptLevel, Seq, VirtualQueue};
use reef_cpu::Cpu;
use reef_snapshot::{Error, Work, write};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// Tasks that move.
const TASKS: usize = 4;
/// Times that they run: on a busy machine few are stopped in the middle of a command.
const MAX_RUNS: u32 = 200;

/// Contents after `tasks` undisturbed tasks.
fn undisturbed(tasks: usize) -> Vec<Vec<u8>> {
    let device = cpu(0, 2);
    let journal = Journal::new(&device);
    let work = journal.work();
    let all = (0..tasks).flat_map(|_| work.task.iter().cloned()).collect();
    finish(&work, Parked::new(Seq(0), all, None).expect("no host code"), PreemptLevel::HostQueue);
    contents(&work)
}

#[test]
fn task_cut_anywhere_ends_as_undisturbed() {
    let mut rng = rng();
    let folder = tempfile::tempdir().expect("a folder");
    let (want, here, there) = (undisturbed(2), cpu(0, 2), cpu(1, 3));
    for level in PreemptLevel::ALL {
        let commands = Journal::new(&here).work().task.len();
        for at in 0..=2 * commands {
            let (one, two) = (Journal::new(&here), Journal::new(&there));
            let (work, other) = (one.work(), two.work());
            let parked = stopped_at(&work, 2, at, level, &mut rng);
            spoil(&other);
            let restored = through_a_file(folder.path(), &work, &parked, &other);
            finish(&other, restored, level);
            assert!(contents(&other) == want, "level {level}, cut at command {at}");
        }
    }
}

/// Queues that are stopped at random times, each again and again on its way, until one was stopped
/// in the middle of a command.
#[test]
fn preempted_task_moves_from_device_to_device() {
    let mut rng = rng();
    let folder = tempfile::tempdir().expect("a folder");
    let (want, devices) = (undisturbed(TASKS), [cpu(0, 2), cpu(1, 1)]);
    for level in PreemptLevel::ALL {
        let (mut moves, mut partial) = (0, 0);
        for _ in 0..MAX_RUNS {
            let run = moved_at_random(folder.path(), &devices, &want, level, &mut rng);
            (moves, partial) = (moves + run[0], partial + run[1]);
            if moves > 1 && (partial > 0 || level == PreemptLevel::HostQueue) {
                break;
            }
        }
        println!("level {level}: {moves} moves, {partial} in the middle of a command");
        assert!(moves > 1, "level {level}: it was never stopped");
        assert!(partial > 0 || level == PreemptLevel::HostQueue, "level {level}: {moves} moves");
    }
}

/// Runs tasks that go from one device to the other whenever they are stopped. Returns how often
/// they were, and how often of that in the middle of a command.
fn moved_at_random(
    folder: &Path,
    devices: &[Cpu; 2],
    want: &[Vec<u8>],
    level: PreemptLevel,
    rng: &mut impl RngExt,
) -> [u32; 2] {
    let journals = devices.each_ref().map(|device| Journal::slow(device, 100));
    let works = journals.each_ref().map(Journal::work);
    let all: Vec<_> = (0..TASKS).flat_map(|_| works[0].task.iter().cloned()).collect();
    let mut parked = Parked::new(Seq(0), all, None).expect("no host code");
    let (mut at, mut moves, mut partial) = (0, 0, 0);
    while !parked.commands().is_empty() {
        let config = Config::default().level(level);
        let queue = VirtualQueue::enable_parked(works[at].device, config, parked);
        let (submitter, queue) = queue.expect("a queue");
        // sleep: any length is right
        std::thread::sleep(Duration::from_micros(rng.random_range(0..1_500)));
        queue.preempt(true).expect("it runs");
        let stopped = queue.park(submitter).map_err(|(error, ..)| error).expect("parked");
        partial += u32::from(stopped.partial().is_some());
        spoil(&works[1 - at]);
        parked = through_a_file(folder, &works[at], &stopped, &works[1 - at]);
        (at, moves) = (1 - at, moves + 1);
    }
    assert!(contents(&works[at]) == want, "level {level}, {moves} moves");
    [moves, partial]
}

/// The file counts tasks of one command; the work that it is restored to has eight in each.
#[test]
fn more_commands_than_a_queue_takes_are_refused() {
    let (folder, device) = (tempfile::tempdir().expect("a folder"), cpu(0, 1));
    let (one, two) = (Journal::new(&device), Journal::new(&device));
    let whole = one.work();
    let short = Work { task: whole.task[..1].into(), ..one.work() };
    for (tasks, is_taken) in
        [(Config::MAX_CAPACITY / 8, true), (Config::MAX_CAPACITY / 8 + 1, false)]
    {
        let all = vec![whole.task[0].clone(); tasks];
        let parked = Parked::new(Seq(0), all, None).expect("no host code");
        write(folder.path(), &short, &parked, Value::Null).expect("written");
        let mut snapshot = reef_snapshot::Snapshot::open(folder.path()).expect("whole");
        let restored = snapshot.restore(&two.work()).map(|parked| parked.commands().len());
        let said = restored.as_ref().map_err(ToString::to_string);
        match said {
            Ok(commands) => assert!(is_taken && *commands == Config::MAX_CAPACITY),
            Err(said) => {
                let want =
                    "queue: 8193 tasks of 8 commands are left, must be at most 65536 commands";
                assert!(!is_taken && said.ends_with(want), "{said}");
            }
        }
    }
}

/// Positions, commands and blocks of another task.
#[test]
fn commands_of_other_work_are_refused_by_position() {
    let (folder, device) = (tempfile::tempdir().expect("a folder"), cpu(0, 1));
    let journal = Journal::new(&device);
    let work = journal.work();
    let mut commands = work.task.to_vec();
    commands.swap(2, 4);
    let parked = Parked::new(Seq(8), commands, None).expect("no host code");
    let said = write(folder.path(), &work, &parked, Value::Null).expect_err("another order");
    let want = "command 10: must be command 2 of the task that is stored, got another one";
    assert_eq!(said.to_string(), want);
}

#[test]
fn other_plan_is_taken_between_tasks_alone() {
    let (folder, device) = (tempfile::tempdir().expect("a folder"), cpu(0, 2));
    let (one, two) = (Journal::new(&device), Journal::new(&device));
    let work = one.work();
    let other = Work { plan: reef_snapshot::Digest::of(b"another"), ..two.work() };
    let commands = work.task.len();
    for (at, is_taken) in [(commands, true), (commands + 3, false)] {
        let parked = stopped_at(&work, 3, at, PreemptLevel::All, &mut rng());
        let whole = || Parked::new(Seq(at as u64), work.task.to_vec(), None).expect("whole");
        let parked = if is_taken { whole() } else { parked };
        write(folder.path(), &work, &parked, Value::Null).expect("written");
        let mut snapshot = reef_snapshot::Snapshot::open(folder.path()).expect("whole");
        match snapshot.restore(&other) {
            Ok(parked) => assert!(is_taken && parked.commands().len() == commands),
            Err(error) => {
                assert!(!is_taken && matches!(error, Error::Plan { at: 3, .. }), "{error}");
                let said = error.to_string();
                assert!(said.contains("in the middle of a task, at command 3 of 8"), "{said}");
                assert!(said.contains("(--drain)"), "{said}");
            }
        }
    }
}
