use super::*;
use crate::memory::Free;
use crate::refusal::Refusal;
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Two GPUs.
const GPUS: [Uuid; 2] = [[1; 16], [2; 16]];

/// Processes as the driver has them: every call refuses what the real one does.
#[derive(Debug, Default)]
struct Fake {
    states: Mutex<HashMap<u32, State>>,
    /// Calls that are refused, by name and process.
    refuses: Vec<(&'static str, u32, u32)>,
    calls: Mutex<Vec<(&'static str, u32)>>,
    pairs: Mutex<Vec<Pair>>,
}

/// Free memory: a process has 4 GiB of the first GPU until it is suspended.
#[derive(Debug, Default)]
struct Bytes(AtomicU64);

impl Free for Bytes {
    fn free(&self, device: &Uuid) -> Option<u64> {
        (*device == GPUS[0]).then(|| self.0.load(Ordering::SeqCst))
    }

    fn of(&self, device: &Uuid, _pid: u32) -> Option<u64> {
        (*device == GPUS[0]).then_some(4 << 30)
    }
}

impl Fake {
    fn of(pids: &[u32]) -> Self {
        let states = pids.iter().map(|pid| (*pid, State::Running)).collect();
        Self { states: Mutex::new(states), ..Self::default() }
    }

    fn step(&self, name: &'static str, pid: u32, from: State, to: State) -> Result<(), Refusal> {
        self.calls.lock().unwrap().push((name, pid));
        let refused = self.refuses.iter().find(|(of, who, _)| (*of, *who) == (name, pid));
        let mut states = self.states.lock().unwrap();
        match (states.get(&pid).copied(), refused) {
            (None, _) => Err(Refusal { function: name, code: 1 }),
            (Some(have), _) if have != from => Err(Refusal { function: name, code: 401 }),
            (_, Some((.., code))) => Err(Refusal { function: name, code: *code }),
            _ => {
                states.insert(pid, to);
                Ok(())
            }
        }
    }

    fn are_all(&self, state: State) -> bool {
        self.states.lock().unwrap().values().all(|have| *have == state)
    }
}

impl Api for Fake {
    fn state(&self, pid: u32) -> Result<State, Refusal> {
        let state = self.states.lock().unwrap().get(&pid).copied();
        state.ok_or(Refusal { function: "state", code: 1 })
    }

    fn lock(&self, pid: u32, timeout: Duration) -> Result<(), Refusal> {
        assert!(timeout <= Duration::from_secs(5), "the timeout is that of all together");
        self.step("lock", pid, State::Running, State::Locked)
    }

    fn checkpoint(&self, pid: u32) -> Result<(), Refusal> {
        self.step("checkpoint", pid, State::Locked, State::Suspended)
    }

    fn restore(&self, pid: u32, pairs: &[Pair]) -> Result<(), Refusal> {
        self.pairs.lock().unwrap().extend(pairs);
        let done = self.step("restore", pid, State::Suspended, State::Locked);
        if done.is_err() {
            self.states.lock().unwrap().insert(pid, State::Failed); // as the driver's does
        }
        done
    }

    fn unlock(&self, pid: u32) -> Result<(), Refusal> {
        self.step("unlock", pid, State::Locked, State::Running)
    }
}

fn devices(memory: &Bytes) -> Devices<'_> {
    Devices { uuids: GPUS.to_vec(), memory: Some(memory) }
}

/// This process and its parent: both are there.
fn pids() -> Vec<u32> {
    vec![std::process::id(), std::os::unix::process::parent_id()]
}

#[test]
fn all_are_locked_before_the_first_is_checkpointed() {
    let (fake, memory) = (Fake::of(&pids()), Bytes::default());
    let devices = devices(&memory);
    let all = Group::new(&fake, &devices).suspend(&pids(), Duration::from_secs(5)).unwrap();
    let names: Vec<_> = fake.calls.lock().unwrap().iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["lock", "lock", "checkpoint", "checkpoint"]);
    assert!(fake.are_all(State::Suspended));
    assert_eq!(all.iter().map(Suspended::bytes).collect::<Vec<_>>(), [4 << 30; 2]);
}

#[test]
fn return_without_room_begins_nothing() {
    let (fake, memory) = (Fake::of(&pids()), Bytes::default());
    let devices = devices(&memory);
    let group = Group::new(&fake, &devices);
    let all = group.suspend(&pids(), Duration::from_secs(5)).unwrap();
    memory.0.store((8 << 30) + MARGIN - 1, Ordering::SeqCst);
    let error = group.resume(&all, None).unwrap_err().to_string();
    assert!(
        error.contains("needs 8192 MiB on GPU 0 with 512 MiB to spare, 8703 MiB are free"),
        "{error}"
    );
    assert!(fake.are_all(State::Suspended));
    memory.0.store((8 << 30) + MARGIN, Ordering::SeqCst);
    group.resume(&all, None).unwrap();
    assert!(fake.are_all(State::Running));
}

#[test]
fn room_is_there_if_all_figures_are_known() {
    let (fake, memory) = (Fake::of(&pids()), Bytes(AtomicU64::new(1 << 40)));
    let known = devices(&memory);
    let group = Group::new(&fake, &known);
    let all = group.suspend(&pids(), Duration::from_secs(5)).unwrap();
    assert!(group.has_room(&all, None));
    let without_record = [Suspended::unknown(pids()[0]).unwrap()];
    assert!(!group.has_room(&without_record, None));
    let without_figures = Devices { uuids: GPUS.to_vec(), memory: None };
    assert!(!Group::new(&fake, &without_figures).has_room(&all, None));
}

#[test]
fn process_that_cannot_be_saved_runs_on() {
    let mut fake = Fake::of(&pids());
    fake.refuses.push(("checkpoint", pids()[1], 801));
    let memory = Bytes(AtomicU64::new(1 << 40));
    let devices = devices(&memory);
    let error = Group::new(&fake, &devices).suspend(&pids(), Duration::from_secs(5)).unwrap_err();
    assert!(matches!(error, Error::Unsupported { pid, .. } if pid == pids()[1]), "{error}");
    assert!(fake.are_all(State::Running), "the first one came back too");
}

#[test]
fn busy_process_keeps_none_locked() {
    let mut fake = Fake::of(&pids());
    fake.refuses.push(("lock", pids()[1], Refusal::NOT_READY));
    let memory = Bytes::default();
    let devices = devices(&memory);
    let error = Group::new(&fake, &devices).suspend(&pids(), Duration::from_secs(5)).unwrap_err();
    assert!(matches!(error, Error::Busy { .. }), "{error}");
    assert!(fake.are_all(State::Running));
}

#[test]
fn move_names_every_gpu_once() {
    let (fake, memory) = (Fake::of(&pids()[..1]), Bytes(AtomicU64::new(1 << 40)));
    let devices = devices(&memory);
    let group = Group::new(&fake, &devices);
    let all = group.suspend(&pids()[..1], Duration::from_secs(5)).unwrap();
    group.resume(&all, Some(GPUS[1])).unwrap();
    let pairs = fake.pairs.lock().unwrap().clone();
    assert_eq!(pairs, [Pair { from: GPUS[0], to: GPUS[1] }, Pair { from: GPUS[1], to: GPUS[0] }]);
}

#[test]
fn locked_process_of_an_interrupted_suspension_is_unlocked() {
    let (fake, memory) = (Fake::of(&[1]), Bytes::default());
    fake.lock(1, Duration::from_secs(1)).unwrap();
    let devices = devices(&memory);
    let group = Group::new(&fake, &devices);
    group.unlock(1).unwrap();
    assert!(matches!(group.unlock(1), Err(Error::State { have: State::Running, .. })));
}

proptest! {
    /// Whatever call is refused: after a failed suspension no process is locked or suspended,
    /// unless the message says which does not run.
    #[test]
    fn failed_suspension_leaves_all_running_or_says_which_not(
        refused in proptest::collection::vec((0..4_usize, 0..2_usize, 0..4_usize), 0..3),
    ) {
        let names = ["lock", "checkpoint", "restore", "unlock"];
        let codes = [Refusal::NOT_READY, 801, 2, 999];
        let mut fake = Fake::of(&pids());
        fake.refuses = refused.iter().map(|(n, p, c)| (names[*n], pids()[*p], codes[*c])).collect();
        let memory = Bytes(AtomicU64::new(1 << 40));
        let devices = devices(&memory);
        match Group::new(&fake, &devices).suspend(&pids(), Duration::from_secs(5)) {
            Ok(all) => prop_assert!(all.len() == 2 && fake.are_all(State::Suspended)),
            Err(error) => {
                let said = error.to_string();
                for (pid, state) in fake.states.lock().unwrap().iter() {
                    let is_said = said.contains(&format!("process {pid} does not run"));
                    let was_unlock = fake.refuses.iter().any(|(name, who, _)| (*name, who) == ("unlock", pid));
                    prop_assert!(*state == State::Running || is_said || was_unlock, "{pid} {state:?}: {said}");
                }
            }
        }
    }
}

#[test]
fn record_keeps_memory_of_each_gpu() {
    let memory = Bytes::default();
    let devices = devices(&memory);
    let held = devices.held(&[3, 0], &[10, 20], &[14, 20]);
    assert_eq!(held, [Held::new(&GPUS[0], 4)]);
}
