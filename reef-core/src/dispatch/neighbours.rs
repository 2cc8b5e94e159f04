//! Work on the same device that isn't this dispatcher's.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

/// Time between the end of real-time work and the release of neighbours: the next request may be on
/// its way.
const HYSTERESIS: Duration = Duration::from_micros(200);

/// Neighbours that work on the dispatcher's device, such as programs in processes of their own.
///
/// Passes call both, one at a time and on the threads of real-time clients, so neither may block or
/// wait for a lock that best-effort work holds.
///
/// ```
/// use reef_core::scheduler::Reef;
/// use reef_core::{Device, Dispatcher, Neighbours};
/// use reef_cpu::Cpu;
/// use std::sync::Arc;
///
/// #[derive(Debug)]
/// struct Programs;
///
/// impl Neighbours for Programs {
///     fn hold(&self, is_held: bool) {
///         println!("their best-effort work {}", if is_held { "stops" } else { "goes on" });
///     }
///
///     fn have_real_time(&self) -> bool {
///         false
///     }
/// }
///
/// let dispatcher = Dispatcher::start(&Cpu::open(0, "units=1")?, Reef::default())?;
/// dispatcher.set_neighbours(Some(Arc::new(Programs)));
/// # Ok::<(), reef_core::Error>(())
/// ```
pub trait Neighbours: Debug + Send + Sync {
    /// Holds their best-effort work, before a real-time task is launched; or releases it, once
    /// there has been none for 200 µs.
    fn hold(&self, is_held: bool);

    /// Returns whether real-time work of theirs wants the device: best-effort queues are preempted
    /// meanwhile. After a change, the neighbour calls
    /// [`Dispatcher::run_pass`](crate::Dispatcher::run_pass).
    fn have_real_time(&self) -> bool;
}

/// The neighbours of a dispatcher, and whether it holds them.
#[derive(Debug, Default)]
pub(super) struct Neighbourhood {
    neighbours: Option<Arc<dyn Neighbours>>,
    is_held: bool,
    /// Since when there has been no real-time work while they are held.
    idle: Option<Duration>,
}

impl Neighbourhood {
    /// Replaces the neighbours; those before are released.
    pub(super) fn set(&mut self, neighbours: Option<Arc<dyn Neighbours>>) {
        self.apply(false);
        *self = Self { neighbours, ..Self::default() };
    }

    pub(super) fn have_real_time(&self) -> bool {
        self.neighbours.as_ref().is_some_and(|neighbours| neighbours.have_real_time())
    }

    /// Holds them while there is real-time work, and for a little longer. Returns the time at which
    /// to ask again, if they are held only for that.
    pub(super) fn note(&mut self, has_work: bool, now: Duration) -> Option<Duration> {
        if has_work {
            self.idle = None;
            self.apply(true);
            return None;
        }
        if !self.is_held {
            return None;
        }
        let release = self.idle.get_or_insert(now).saturating_add(HYSTERESIS);
        if now < release {
            return Some(release);
        }
        self.apply(false);
        None
    }

    fn apply(&mut self, is_held: bool) {
        let neighbours = self.neighbours.as_ref();
        if let Some(neighbours) = neighbours.filter(|_| self.is_held != is_held) {
            neighbours.hold(is_held);
            self.is_held = is_held;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::device::Device;
    use crate::dispatch::dispatcher::Dispatcher;
    use crate::dispatch::queues::task::Task;
    use crate::limits::ClientConfig;
    use crate::scheduler::Reef;
    use crate::testing::fake::{AtLast, Fake, eventually, kernel};
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    #[derive(Debug, Default)]
    struct TestNeighbours {
        is_held: AtomicBool,
        holds: AtomicU32,
        are_real_time: AtomicBool,
    }

    impl Neighbours for TestNeighbours {
        fn hold(&self, is_held: bool) {
            self.is_held.store(is_held, Ordering::SeqCst);
            self.holds.fetch_add(u32::from(is_held), Ordering::SeqCst);
        }

        fn have_real_time(&self) -> bool {
            self.are_real_time.load(Ordering::SeqCst)
        }
    }

    fn begin() -> (Fake, Dispatcher<Fake>, Arc<TestNeighbours>) {
        let (device, others) = (Fake::default(), Arc::new(TestNeighbours::default()));
        let dispatcher = Dispatcher::start(&device, Reef::default()).expect("started");
        dispatcher.set_neighbours(Some(others.clone()));
        (device, dispatcher, others)
    }

    #[test]
    fn neighbours_are_held_from_the_first_task_to_after_the_last() {
        let (device, dispatcher, others) = begin();
        let _at_last = AtLast(device.clone());
        device.0.rt_hangs_at.store(1, Ordering::SeqCst);
        let mut rt = dispatcher.real_time().expect("a client");
        let task = Task::new(vec![kernel()]).expect("launches");
        let ticket = rt.submit(&task).expect("room");
        // By the submission itself, unless the service thread is inside of its first pass.
        eventually("held", || others.is_held.load(Ordering::SeqCst));
        let end = device.clock() + 5 * HYSTERESIS;
        while device.clock() < end {
            dispatcher.run_pass();
        }
        assert!(others.is_held.load(Ordering::SeqCst), "it runs");
        device.0.rt_hangs_at.store(0, Ordering::SeqCst);
        ticket.wait().expect("it ends");
        eventually("released", || !others.is_held.load(Ordering::SeqCst));
        assert_eq!(others.holds.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn consecutive_requests_hold_once() {
        let mut all = Neighbourhood::default();
        let others = Arc::new(TestNeighbours::default());
        all.set(Some(others.clone()));
        let at = |micros| Duration::from_micros(micros);
        assert_eq!(all.note(false, at(0)), None, "nothing is held");
        for begin in [0, 150, 300] {
            assert_eq!(all.note(true, at(begin)), None);
            assert_eq!(all.note(false, at(begin + 10)), Some(at(begin + 210)));
        }
        assert_eq!(all.note(false, at(509)), Some(at(510)));
        assert!(others.is_held.load(Ordering::SeqCst));
        assert_eq!(all.note(false, at(510)), None);
        assert!(!others.is_held.load(Ordering::SeqCst));
        assert_eq!(others.holds.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn neighbour_real_time_work_preempts_only_while_it_lasts() {
        let (device, dispatcher, others) = begin();
        device.0.be_hangs.store(true, Ordering::SeqCst);
        let mut be = dispatcher.best_effort(ClientConfig::default()).expect("a client");
        let _at_last = AtLast(device.clone());
        let last = be.submit(&[kernel()]).expect("room");
        others.are_real_time.store(true, Ordering::SeqCst);
        dispatcher.run_pass();
        // Maybe by another thread's pass.
        eventually("preempted", || dispatcher.is_preempted());
        eventually("counted", || dispatcher.stats().preemptions == 1);
        let mut rt = dispatcher.real_time().expect("a client");
        rt.run(&Task::new(vec![kernel()]).expect("launches")).expect("real-time work is not held");
        assert!(dispatcher.is_preempted());
        device.0.be_hangs.store(false, Ordering::SeqCst);
        others.are_real_time.store(false, Ordering::SeqCst);
        dispatcher.run_pass();
        be.wait(last).expect("it goes on");
        eventually("restored", || !dispatcher.is_preempted());
    }

    /// Capped queues run next to real-time work of this dispatcher, and not next to that of its
    /// neighbours.
    #[test]
    fn neighbour_real_time_work_stops_capped_queues_too() {
        let (device, dispatcher, others) = begin();
        let _at_last = AtLast(device.clone());
        device.0.capped.store(2, Ordering::SeqCst);
        device.0.rt_hangs_at.store(1, Ordering::SeqCst);
        let mut rt = dispatcher.real_time().expect("a client");
        let ticket = rt.submit(&Task::new(vec![kernel()]).expect("launches")).expect("room");
        // The preemption may be over: queues run capped after 10 ms.
        eventually("counted", || dispatcher.stats().preemptions == 1);
        let runs_capped = || dispatcher.stats().padded_launches >= 1 && !dispatcher.is_preempted();
        eventually("real-time work lasts, so queues run capped", runs_capped);
        others.are_real_time.store(true, Ordering::SeqCst);
        eventually("stopped", || {
            dispatcher.run_pass();
            dispatcher.is_preempted()
        });
        others.are_real_time.store(false, Ordering::SeqCst);
        device.0.rt_hangs_at.store(0, Ordering::SeqCst);
        ticket.wait().expect("it ends");
        eventually("restored in full", || !dispatcher.is_preempted());
    }

    #[test]
    fn dropped_dispatcher_releases_neighbours() {
        let (_device, dispatcher, others) = begin();
        let mut rt = dispatcher.real_time().expect("a client");
        rt.run(&Task::new(vec![kernel()]).expect("launches")).expect("it runs");
        drop(dispatcher);
        assert!(!others.is_held.load(Ordering::SeqCst));
        assert_eq!(others.holds.load(Ordering::SeqCst), 1);
    }
}
