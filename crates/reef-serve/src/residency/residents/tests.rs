use super::*;
use crate::class::Class;
use crate::residency::facts::ProcessName;
use reef_suspend::Uuid;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

const GPU: Uuid = [7; 16];
const MIB: u64 = 1 << 20;
/// Memory of the device and of each process, in MiB: one fits, with what is kept free.
const ALL: u64 = 1024;
const MODEL_BYTES: u64 = 400;
const MINUTE: Duration = Duration::from_secs(60);

/// A device with processes 1 to `count`.
#[derive(Debug)]
struct Device {
    count: u32,
    away: Mutex<BTreeSet<u32>>,
    /// Process that is suspended; 0: none.
    suspended: AtomicU32,
    /// True if it is moved to another device, and not suspended.
    is_moved: AtomicBool,
    /// True if it is for a real-time program's memory, and not by an operator.
    is_for_memory: AtomicBool,
    /// True if every departure is refused.
    refuses: AtomicBool,
    /// True while departures of turnovers do not end.
    holds: AtomicBool,
    /// Number of turnovers that were begun.
    turnovers: AtomicU32,
}

#[derive(Debug)]
struct TestMover(Arc<Device>);

impl Mover for TestMover {
    fn leave(&self, pid: u32) -> Result<Held> {
        if self.0.refuses.load(SeqCst) {
            return Err(Error::Unavailable("too little host memory".into()));
        }
        assert!(self.0.away.lock().insert(pid), "it left twice");
        Ok(self.bytes(pid, None))
    }

    fn come_back(&self, pid: u32) -> Result<()> {
        assert!(self.0.away.lock().remove(&pid), "it was there");
        Ok(())
    }

    fn turn_over(
        &self,
        leaver: u32,
        had: &Held,
        returner: u32,
        left: &mut dyn FnMut(Result<Held>),
        back: &mut dyn FnMut(Result<()>),
    ) {
        assert_eq!(*had, self.bytes(leaver, None));
        self.0.turnovers.fetch_add(1, SeqCst);
        if self.0.refuses.load(SeqCst) {
            left(self.leave(leaver));
            return back(Err(Error::Unavailable("too little memory".into())));
        }
        back(self.come_back(returner));
        wait("the end of the hold", || !self.0.holds.load(SeqCst));
        left(self.leave(leaver));
    }

    fn free(&self, _: Uuid) -> Option<u64> {
        let there = u64::from(self.0.count) - self.0.away.lock().len() as u64;
        Some(ALL.saturating_sub(MODEL_BYTES * there) * MIB)
    }

    fn bytes(&self, _: u32, _: Option<Uuid>) -> Held {
        vec![(GPU, MODEL_BYTES * MIB)]
    }

    fn suspender(&self, pid: u32) -> Option<Suspender> {
        if self.0.suspended.load(SeqCst) == pid {
            let [is_moved, is_for_memory] =
                [&self.0.is_moved, &self.0.is_for_memory].map(|flag| flag.load(SeqCst));
            return Some(match (is_moved, is_for_memory) {
                (true, _) => Suspender::Move,
                (false, true) => Suspender::Memory,
                (false, false) => Suspender::Operator,
            });
        }
        self.0.away.lock().contains(&pid).then_some(Suspender::Idle)
    }

    fn forget(&self, pid: u32) {
        let _ = self.0.suspended.compare_exchange(pid, 0, SeqCst, SeqCst);
    }

    fn adopt(&self, _: u32, _: &[Suspended]) -> Result<()> {
        Ok(())
    }

    fn write(&self, _: u32, _: AdoptedFolder) -> Result<()> {
        Ok(())
    }

    fn sockets(&self) -> PathBuf {
        PathBuf::new()
    }
}

/// Starts processes that leave after this time without a request.
fn start(
    count: u32,
    idle: Duration,
    refuses: bool,
) -> (Arc<Device>, Arc<Residents>, Vec<Resident>) {
    start_each(&vec![idle; count as usize], refuses)
}

/// Starts processes, each of which leaves after its time without a request.
fn start_each(idles: &[Duration], refuses: bool) -> (Arc<Device>, Arc<Residents>, Vec<Resident>) {
    start_bounded(idles, refuses, None)
}

/// Starts processes that take at most this number of bytes of the host's memory.
fn start_bounded(
    idles: &[Duration],
    refuses: bool,
    max_away: Option<u64>,
) -> (Arc<Device>, Arc<Residents>, Vec<Resident>) {
    let (count, refuses) = (idles.len() as u32, AtomicBool::new(refuses));
    let (away, suspended, is_moved, is_for_memory, holds, turnovers) = Default::default();
    let device =
        Device { count, away, suspended, is_moved, is_for_memory, refuses, holds, turnovers };
    let device = Arc::new(device);
    let residents = Residents::new(Box::new(TestMover(device.clone())), max_away);
    let one = |(&idle, number): (&Duration, u32)| {
        let (model, class, device) = (format!("m{number}"), Class::BestEffort, "cuda:0".into());
        let name = ProcessName { model, version: 1, class, instance: 0, device };
        let facts = Facts { name, title: "m/1".into(), idle, limit: 0, device: None };
        let resident = residents.add(facts).unwrap();
        resident.wait_for_room(MINUTE, &|| false).unwrap();
        resident.note_start(number);
        resident
    };
    let all = idles.iter().zip(1..).map(one).collect();
    (device, residents, all)
}

fn wait(what: &str, is: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < MINUTE, "{what}: not in a minute");
        thread::sleep(Duration::from_millis(1)); // sleep: poll of a condition
    }
}

/// A process that is written to a folder does not move, and takes no request.
#[test]
fn request_waits_while_its_process_is_frozen() {
    let (_device, _residents, all) = start(1, Duration::from_millis(1), false);
    let frozen = all[0].freeze(&|| false).unwrap();
    assert!(all[0].enter(Duration::ZERO, &|| false).is_err(), "it waits");
    assert!(all[0].is_away());
    drop(frozen);
    drop(all[0].enter(MINUTE, &|| false).unwrap());
    assert!(all[0].freeze(&|| true).is_none(), "it is over");
}

#[test]
fn one_process_is_frozen_at_a_time() {
    let (_device, residents, all) = start(2, Duration::from_millis(1), false);
    wait("their departures", || all.iter().all(Resident::is_away));
    let frozen = all[0].freeze(&|| false).unwrap();
    assert!(!residents.state.lock().table.try_freeze(all[1].id));
    drop(frozen);
    drop(all[1].freeze(&|| false).unwrap());
}

/// Each of four processes has a client that asks all the time, and one process fits.
#[test]
fn clients_of_processes_that_do_not_fit_all_get_answers() {
    let (device, residents, all) = start(4, Duration::from_millis(1), false);
    wait("their departures", || all.iter().all(Resident::is_away));
    thread::scope(|scope| {
        for (resident, pid) in all.iter().zip(1..) {
            let device = &device;
            scope.spawn(move || {
                for _ in 0..25 {
                    let _used = resident.enter(MINUTE, &|| false).unwrap();
                    assert!(!device.away.lock().contains(&pid), "it is on the GPU");
                    thread::yield_now();
                    assert!(!device.away.lock().contains(&pid), "it stays there");
                }
            });
        }
    });
    let returns: u64 = residents.all().iter().map(|one| one.returns).sum();
    assert!(returns >= 4, "{returns}");
    drop(all);
    wait("the end of its thread", || !residents.state.lock().has_thread);
}

/// Starts a process that leaves at once, and one that stays for a minute.
fn start_one_away() -> (Arc<Device>, Arc<Residents>, Vec<Resident>) {
    let (device, residents, all) = start_each(&[Duration::from_millis(1), MINUTE], false);
    wait("the departure of the first one", || all[0].is_away());
    wait("the size of the other one", || residents.all()[1].bytes.is_some());
    (device, residents, all)
}

#[test]
fn request_is_served_before_the_departure_for_it_ends() {
    let (device, residents, all) = start_one_away();
    device.holds.store(true, SeqCst);
    let used = all[0].enter(MINUTE, &|| false).unwrap();
    assert_eq!(residents.all()[1].state, ResidencyState::Leaving);
    device.holds.store(false, SeqCst);
    wait("the end of the departure", || all[1].is_away());
    assert_eq!(device.turnovers.load(SeqCst), 1);
    drop(used);
    drop(all[1].enter(MINUTE, &|| false).unwrap());
}

#[test]
fn process_stays_away_if_the_departure_for_it_is_refused() {
    let (device, residents, all) = start_one_away();
    device.refuses.store(true, SeqCst);
    let has_begun = || device.turnovers.load(SeqCst) > 0;
    assert_eq!(all[0].enter(MINUTE, &has_begun).map(drop), Err(Refusal::Away(no_room())));
    wait("the end of its return", || all[0].is_away());
    assert_eq!(residents.all()[0].returns, 0);
    drop(all[1].enter(MINUTE, &|| false).unwrap());
    device.refuses.store(false, SeqCst);
}

#[test]
fn idle_process_leaves_and_comes_back_for_a_request() {
    let (device, residents, all) = start(1, Duration::from_millis(1), false);
    wait("its departure", || residents.all()[0].state == ResidencyState::Away);
    assert_eq!(residents.all()[0].bytes, Some(0));
    let used = all[0].enter(MINUTE, &|| false).unwrap();
    assert!(device.away.lock().is_empty());
    let now = &residents.all()[0];
    assert_eq!(
        (now.state, now.returns, now.bytes),
        (ResidencyState::Resident, 1, Some(MODEL_BYTES * MIB))
    );
    assert!(now.returned.is_some());
    drop(used);
    wait("its next departure", || all[0].is_away());
}

#[test]
fn moves_are_kept_for_a_trace() {
    let begin = Instant::now();
    let (device, residents, all) = start(1, Duration::from_millis(1), false);
    wait("its departure", || all[0].is_away());
    drop(all[0].enter(MINUTE, &|| false).unwrap());
    let moves = residents.moves_since(begin);
    let first: Vec<_> = moves.iter().take(2).map(|one| (one.is_return, one.is_done)).collect();
    assert_eq!(first, [(false, true), (true, true)]);
    assert!(moves.iter().all(|one| one.title == "m/1" && begin <= one.begin));
    device.refuses.store(true, SeqCst);
    let is_refused = || {
        drop(all[0].enter(MINUTE, &|| false).unwrap());
        residents.moves_since(begin).iter().any(|one| !one.is_done)
    };
    wait("a departure that is refused", is_refused);
    assert!(residents.moves_since(Instant::now() + MINUTE).is_empty());
}

/// One of two may be away: they change places for requests.
#[test]
fn host_memory_of_processes_that_are_away_is_bounded() {
    let begin = Instant::now();
    let idles = [Duration::from_millis(1); 2];
    let (device, residents, all) = start_bounded(&idles, false, Some(MODEL_BYTES * MIB));
    let is_refused = || residents.moves_since(begin).iter().any(|one| !one.is_done);
    wait("a departure that is refused", is_refused);
    assert_eq!(device.away.lock().len(), 1);
    for resident in all.iter().cycle().take(4) {
        drop(resident.enter(MINUTE, &|| false).unwrap());
        assert!(device.away.lock().len() <= 1);
    }
    assert!(device.turnovers.load(SeqCst) > 0);
    let (device, residents, all) = start_bounded(&idles[..1], false, Some(MODEL_BYTES * MIB - 1));
    let is_refused = || residents.moves_since(begin).iter().any(|one| !one.is_done);
    wait("a departure that is refused", is_refused);
    assert!(device.away.lock().is_empty() && !all[0].is_away(), "it does not fit alone");
}

#[test]
fn process_whose_departure_is_refused_stays_and_answers() {
    let (_, residents, all) = start(1, Duration::from_millis(1), true);
    for _ in 0..20 {
        drop(all[0].enter(MINUTE, &|| false).unwrap());
        thread::sleep(Duration::from_millis(2)); // sleep: lets it try to leave in between
    }
    assert_eq!(residents.all()[0].returns, 0);
}

#[test]
fn request_for_a_process_of_an_operator_is_refused_at_once() {
    let (device, _residents, all) = start(1, MINUTE, false);
    device.suspended.store(1, SeqCst);
    let refused = all[0].enter(MINUTE, &|| false).map(drop);
    let want = "the model's process 1 was suspended by an operator: `reef resume 1` brings it back";
    assert_eq!(refused, Err(Refusal::Away(Error::Unavailable(want.into()))));
    device.is_for_memory.store(true, SeqCst);
    let refused = all[0].enter(MINUTE, &|| false).map(drop);
    assert!(matches!(&refused, Err(Refusal::Away(why)) if may_be_repeated(why)), "{refused:?}");
    device.suspended.store(0, SeqCst);
    drop(all[0].enter(MINUTE, &|| false).unwrap());
}

#[test]
fn process_that_was_suspended_at_its_start_takes_no_request() {
    let (device, _residents, all) = start(1, MINUTE, false);
    device.suspended.store(1, SeqCst);
    all[0].note_start(1);
    let refused = all[0].enter(MINUTE, &|| false).map(drop);
    assert!(matches!(refused, Err(Refusal::Away(_))), "{refused:?}");
}

/// It waits in the process, which is back once the move has ended.
#[test]
fn request_for_a_process_that_is_moved_is_taken() {
    let (device, _residents, all) = start(1, MINUTE, false);
    device.is_moved.store(true, SeqCst);
    device.suspended.store(1, SeqCst);
    drop(all[0].enter(MINUTE, &|| false).unwrap());
}

#[test]
fn suspended_model_takes_no_request_until_it_is_resumed() {
    let (_device, residents, all) = start(2, MINUTE, false);
    for _ in 0..2 {
        residents.suspend("m1", MINUTE).unwrap();
        assert!(all[0].is_away());
    }
    let refused = all[0].enter(MINUTE, &|| false).map(drop);
    let want = "the model was suspended by an operator: `reef ctl resume` brings it back";
    assert_eq!(refused, Err(Refusal::Away(Error::Unavailable(want.into()))));
    drop(all[1].enter(MINUTE, &|| false).unwrap());
    residents.resume("m1").unwrap();
    drop(all[0].enter(MINUTE, &|| false).unwrap());
}

#[test]
fn model_that_works_takes_requests_after_a_suspension_in_vain() {
    let (_device, residents, all) = start(1, MINUTE, false);
    let used = all[0].enter(MINUTE, &|| false).unwrap();
    let said = residents.suspend("m1", Duration::from_millis(1));
    assert!(matches!(said, Err(Error::Deadline(_))), "{said:?}");
    drop(used);
    drop(all[0].enter(MINUTE, &|| false).unwrap());
    let want = "model m7: must have residency = \"on-demand\" to leave its device";
    for said in [residents.suspend("m7", MINUTE), residents.resume("m7")] {
        assert_eq!(said, Err(Error::Invalid(want.into())));
    }
}

#[test]
fn suspension_of_a_model_that_is_resumed_meanwhile_is_an_error() {
    let (_device, residents, all) = start(1, MINUTE, false);
    let used = all[0].enter(MINUTE, &|| false).unwrap();
    let suspended = thread::spawn({
        let residents = residents.clone();
        move || residents.suspend("m1", MINUTE)
    });
    wait("its begin", || all[0].enter(MINUTE, &|| false).is_err());
    residents.resume("m1").unwrap();
    let said = suspended.join().unwrap();
    assert!(matches!(said, Err(Error::Unavailable(_))), "{said:?}");
    drop(used);
}

#[test]
fn process_of_a_suspended_model_starts_again_once_it_is_resumed() {
    let (_device, residents, all) = start(1, MINUTE, false);
    residents.suspend("m1", MINUTE).unwrap();
    all[0].note_end();
    let asked = AtomicU32::new(0);
    thread::scope(|scope| {
        let start = scope.spawn(|| {
            let is_over = || {
                asked.fetch_add(1, SeqCst);
                false
            };
            all[0].wait_for_room(MINUTE, &is_over)
        });
        wait("its wait", || asked.load(SeqCst) > 2);
        assert_eq!(residents.all()[0].state, ResidencyState::Absent);
        residents.resume("m1").unwrap();
        start.join().unwrap().unwrap();
    });
}

/// Its requests get the error of a model that is off the GPU.
#[test]
fn start_without_room_is_told_from_one_that_goes_on() {
    let (_device, residents, all) = start(2, MINUTE, false);
    assert!(!all[0].waits_for_start(), "it has started");
    all[0].note_end();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let more = vec![(GPU, 2 * ALL * MIB)];
        let start = scope.spawn(|| all[0].wait_for(more, MINUTE, &|| is_over.load(SeqCst)));
        wait("its wait for room", || all[0].waits_for_start());
        assert!(!all[0].is_off() && residents.all()[0].state == ResidencyState::Starting);
        is_over.store(true, SeqCst);
        assert!(start.join().unwrap().is_err());
    });
    assert!(!all[0].waits_for_start());
    all[0].wait_for(vec![(GPU, MIB)], MINUTE, &|| false).unwrap();
    assert!(!all[0].waits_for_start(), "it has room");
}

#[test]
fn request_without_room_or_client_does_not_wait_on() {
    let (_, _residents, all) = start(2, Duration::from_millis(1), false);
    wait("their departures", || all.iter().all(Resident::is_away));
    let used = all[0].enter(MINUTE, &|| false).unwrap();
    let no_room = Err(Refusal::Away(no_room()));
    assert_eq!(all[1].enter(Duration::from_millis(1), &|| false).map(drop), no_room);
    assert_eq!(all[1].enter(MINUTE, &|| true).map(drop), no_room);
    drop(used);
    drop(all[1].enter(MINUTE, &|| false).unwrap());
}

/// As those of a network, which serves several at a time.
#[test]
fn requests_for_the_same_return_are_all_answered() {
    let (device, _residents, all) = start(1, Duration::from_millis(1), false);
    wait("its departure", || all[0].is_away());
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let _used = all[0].enter(MINUTE, &|| false).unwrap();
                    assert!(device.away.lock().is_empty(), "it is on the GPU");
                }
            });
        }
    });
    wait("its departure after the last one", || all[0].is_away());
}
