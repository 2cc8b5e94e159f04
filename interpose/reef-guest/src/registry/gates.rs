//! Gates of best-effort guests, as one holder closes them.

use super::pass::Peer;
use super::sync::{Arc, ArcSwap, AtomicU32, Ordering, fence};
use crate::page::spans::Time;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// Gates of best-effort guests, as seen by one holder: the daemon for a device, or a real-time
/// guest for its peers.
///
/// Holding never blocks: the list of pages is replaced as a whole when a guest joins or leaves. A
/// thread that changes the list or the state reads the other one afterwards. So a guest that joins
/// during a hold is held, whichever comes first.
#[derive(Debug)]
pub struct Gates {
    /// Number of the holder's bit.
    holder: u32,
    peers: ArcSwap<Peers>,
    /// [`OPEN`], [`HELD`] or, for good, [`OVER`].
    state: AtomicU32,
    /// True if the device has real-time guests. Not used for holding.
    has_real_time: Mutex<bool>,
    real_time: Condvar,
}

type Peers = Vec<Peer>;

const OPEN: u32 = 0;
const HELD: u32 = 1;
const OVER: u32 = 2;

impl Gates {
    pub(super) fn of(holder: u32) -> Self {
        let (peers, state) = (ArcSwap::default(), AtomicU32::new(OPEN));
        Self { holder, peers, state, has_real_time: Mutex::new(false), real_time: Condvar::new() }
    }

    /// Closes all gates, and those of guests that join later, or opens them for this holder. Any
    /// thread may call it at any time. Doesn't block. If a job has guests on two devices and the
    /// daemon holds both, its guests continue as soon as one device is released.
    pub fn hold(&self, is_held: bool) {
        let wanted = if is_held { HELD } else { OPEN };
        let change = |state| (state != wanted && state != OVER).then_some(wanted);
        if self.state.fetch_update(Ordering::SeqCst, Ordering::SeqCst, change).is_ok() {
            fence(Ordering::SeqCst);
            self.settle();
        }
    }

    /// Opens all gates for good: later holds in this name have no effect.
    pub(super) fn end(&self) {
        self.state.store(OVER, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        self.settle();
    }

    /// Returns whether [`end`](Self::end) was called.
    pub(super) fn is_over(&self) -> bool {
        self.state.load(Ordering::SeqCst) == OVER
    }

    /// Returns whether this holder holds the gates. May be out of date when it returns.
    pub fn is_held(&self) -> bool {
        self.state.load(Ordering::SeqCst) == HELD
    }

    /// Sleeps until the device has real-time guests, at most for `time`. Returns whether it has
    /// some.
    pub fn wait_for_real_time(&self, time: Duration) -> bool {
        let has_none = |has: &mut bool| !*has;
        match self.real_time.wait_timeout_while(self.has_real_time(), time, has_none) {
            Ok((has, _)) => *has,
            Err(_) => false, // nothing panics while it has this lock
        }
    }

    /// Sets whether there are real-time guests, and wakes [waiting](Self::wait_for_real_time)
    /// threads.
    pub(super) fn set_real_time(&self, has: bool) {
        *self.has_real_time() = has;
        self.real_time.notify_all();
    }

    fn has_real_time(&self) -> MutexGuard<'_, bool> {
        self.has_real_time.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Lets one guest pass, or no longer, while the gates are held. Has no effect on a guest that
    /// isn't in the list, or when they aren't held.
    pub(super) fn set_passing(&self, peer: &Peer, passes: bool) {
        loop {
            let is_held = !passes && self.holds(peer);
            let now = Time::now();
            if is_held {
                peer.page.hold(self.holder, now);
            } else {
                peer.page.release(self.holder, now);
            }
            fence(Ordering::SeqCst);
            // The state or the list may have changed before, also to and fro.
            if passes || self.holds(peer) == is_held {
                return;
            }
        }
    }

    /// Returns whether the gates are held, and this guest is in the list.
    fn holds(&self, peer: &Peer) -> bool {
        self.is_held() && self.peers.load().iter().any(|one| one.is(peer))
    }

    /// Returns the guests whose gates these are.
    pub(super) fn peers(&self) -> Arc<Vec<Peer>> {
        self.peers.load_full()
    }

    /// Replaces the list of guests. Those that are no longer in the list are released.
    pub(super) fn set_peers(&self, peers: Vec<Peer>) {
        let before = self.peers.swap(Arc::new(peers));
        fence(Ordering::SeqCst);
        if self.is_held() {
            self.settle(); // or new pages would not be held
        }
        self.release_gone(&before);
    }

    /// Returns whether the gates are not held and have no pages.
    pub(super) fn is_empty(&self) -> bool {
        !self.is_held() && self.peers.load().is_empty()
    }

    /// Brings all pages to the current state, until neither the state nor the list has changed in
    /// the meantime. A thread that was late to apply an old state applies the new one.
    fn settle(&self) {
        loop {
            let (is_held, now, peers) = (self.is_held(), Time::now(), self.peers());
            for page in peers.iter().map(|peer| &peer.page) {
                if is_held { page.hold(self.holder, now) } else { page.release(self.holder, now) }
            }
            fence(Ordering::SeqCst);
            let is_same_list = Arc::ptr_eq(&peers, &self.peers.load());
            if !is_same_list {
                self.release_gone(&peers);
            } else if self.is_held() == is_held {
                return;
            }
        }
    }

    /// Releases guests of an older list that aren't in the list any more.
    fn release_gone(&self, older: &Peers) {
        let (list, now) = (self.peers.load(), Time::now());
        let is_gone = |peer: &&Peer| !list.iter().any(|it| it.is(peer));
        older.iter().filter(is_gone).for_each(|peer| peer.page.release(self.holder, now));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::hold::holders::Holders;
    use crate::page::file::PageFile;
    use crate::page::layout::{Class, Identity};

    fn peer() -> Peer {
        let who = Identity { guest: 1, class: Class::BestEffort, holder: 0, pid: 1 };
        Peer { page: Arc::new(PageFile::create(&who).unwrap().1), pass: Arc::default() }
    }

    /// This fails within a few hundred rounds if the list isn't read again after a hold, or the
    /// state after a change of the list.
    #[test]
    fn page_added_during_holds_ends_in_the_final_state() {
        let gates = Gates::of(Holders::DAEMON);
        for round in 0..2000 {
            let (first, second) = (peer(), peer());
            gates.set_peers(vec![first.clone()]);
            std::thread::scope(|scope| {
                scope.spawn(|| gates.hold(round % 2 == 0));
                scope.spawn(|| gates.set_peers(vec![first.clone(), second.clone()]));
            });
            for page in [&first, &second] {
                assert_eq!(page.page.holders.is_closed(), gates.is_held(), "round {round}");
            }
        }
    }

    /// This fails within a few thousand rounds if a release uses only the list that it began with.
    #[test]
    fn removed_pages_and_ended_gates_stay_open_during_holds() {
        for round in 0..4000 {
            let gates = Gates::of(3);
            let (stays, leaves) = (peer(), peer());
            gates.set_peers(vec![stays.clone(), leaves.clone()]);
            std::thread::scope(|scope| {
                scope.spawn(|| gates.hold(true));
                scope.spawn(|| gates.set_peers(vec![stays.clone()]));
            });
            assert!(
                stays.page.holders.is_closed() && !leaves.page.holders.is_closed(),
                "round {round}"
            );
            gates.hold(false);
            std::thread::scope(|scope| {
                scope.spawn(|| gates.hold(true));
                scope.spawn(|| gates.end());
            });
            gates.hold(true);
            assert!(!stays.page.holders.is_closed() && gates.is_over(), "round {round}");
        }
    }

    /// This fails within a few thousand rounds if a window's end doesn't look at the state and the
    /// list again.
    #[test]
    fn window_that_ends_during_a_change_leaves_no_gate_closed() {
        for round in 0..4000 {
            let gates = Gates::of(3);
            let (stays, leaves) = (peer(), peer());
            gates.set_peers(vec![stays.clone(), leaves.clone()]);
            gates.hold(true);
            [&stays, &leaves].into_iter().for_each(|peer| gates.set_passing(peer, true));
            assert!(!stays.page.holders.is_closed());
            std::thread::scope(|scope| {
                scope.spawn(|| gates.set_passing(&leaves, false));
                scope.spawn(|| gates.set_peers(vec![stays.clone()]));
            });
            assert!(!leaves.page.holders.is_closed(), "round {round}: it has left");
            std::thread::scope(|scope| {
                scope.spawn(|| gates.set_passing(&stays, false));
                scope.spawn(|| gates.end());
            });
            assert!(!stays.page.holders.is_closed(), "round {round}: the holder has ended");
        }
    }

    #[test]
    fn window_of_one_guest_leaves_the_other_held() {
        let gates = Gates::of(3);
        let (one, other) = (peer(), peer());
        gates.set_peers(vec![one.clone(), other.clone()]);
        gates.set_passing(&one, false);
        assert!(!one.page.holders.is_closed(), "nothing is held");
        gates.hold(true);
        gates.set_passing(&one, true);
        assert!(!one.page.holders.is_closed() && other.page.holders.is_closed());
        gates.set_passing(&one, false);
        assert!(one.page.holders.is_closed());
    }
}

/// The relay of a real-time guest steps, while the registry changes what it steps on.
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::hold::Activity;
    use loom::thread;

    fn held(peers: &[&Peer]) -> Arc<Gates> {
        let gates = Gates::of(3);
        gates.set_peers(peers.iter().copied().cloned().collect());
        gates.hold(true);
        Arc::new(gates)
    }

    fn close_of_a_window(of: &Peer, and: impl FnOnce(&Gates) + Send + 'static) -> Arc<Gates> {
        let gates = held(&[of]);
        gates.set_passing(of, true);
        let registry = gates.clone();
        let other = thread::spawn(move || and(&registry));
        gates.set_passing(of, false);
        other.join().unwrap();
        gates
    }

    #[test]
    fn gate_that_closes_as_its_holder_ends_is_open() {
        loom::model(|| {
            let peer = Peer::default();
            close_of_a_window(&peer, |gates| gates.end());
            assert!(!peer.page.holders.is_closed());
        });
    }

    #[test]
    fn gate_that_closes_as_its_guest_leaves_is_open() {
        loom::model(|| {
            let peer = Peer::default();
            close_of_a_window(&peer, |gates| gates.set_peers(Vec::new()));
            assert!(!peer.page.holders.is_closed());
        });
    }

    #[test]
    fn gate_that_closes_as_another_guest_joins_is_closed() {
        loom::model(|| {
            let (peer, other) = (Peer::default(), Peer::default());
            let list = vec![peer.clone(), other.clone()];
            close_of_a_window(&peer, |gates| gates.set_peers(list));
            assert!(peer.page.holders.is_closed() && other.page.holders.is_closed());
        });
    }

    /// A guest is exempt for a moment, while it is suspended.
    #[test]
    fn gate_that_closes_as_its_guest_leaves_and_returns_is_closed() {
        let mut models = loom::model::Builder::new();
        models.preemption_bound = Some(3); // it loops: all interleavings are too many
        models.check(|| {
            let peer = Peer::default();
            let list = vec![peer.clone()];
            close_of_a_window(&peer, |gates| {
                gates.set_peers(Vec::new());
                gates.set_peers(list);
            });
            assert!(peer.page.holders.is_closed());
        });
    }

    /// A window that opens while another guest joins may be lost. The next step closes both.
    #[test]
    fn window_that_opens_as_another_guest_joins_ends_closed() {
        loom::model(|| {
            let (peer, other) = (Peer::default(), Peer::default());
            let gates = held(&[&peer]);
            let (registry, list) = (gates.clone(), vec![peer.clone(), other.clone()]);
            let joining = thread::spawn(move || registry.set_peers(list));
            gates.set_passing(&peer, true);
            gates.set_passing(&peer, false);
            joining.join().unwrap();
            assert!(peer.page.holders.is_closed() && other.page.holders.is_closed());
        });
    }

    #[test]
    fn window_of_a_step_that_ends_the_hold_ends_open() {
        loom::model(|| {
            let (peer, other) = (Peer::default(), Peer::default());
            let gates = held(&[&peer]);
            let (registry, list) = (gates.clone(), vec![peer.clone(), other.clone()]);
            let joining = thread::spawn(move || registry.set_peers(list));
            gates.hold(false);
            gates.set_passing(&peer, false);
            joining.join().unwrap();
            assert!(!peer.page.holders.is_closed() && !other.page.holders.is_closed());
        });
    }

    /// The relay opens a window and closes it in each of its rounds, while its guest is busy.
    #[test]
    fn relay_with_windows_ends_open_after_a_release() {
        loom::model(|| {
            let (peer, guest) = (Peer::default(), Arc::new(Activity::default()));
            assert!(guest.launch() && guest.hold());
            let (of, seen) = (peer.clone(), guest.clone());
            let relay = thread::spawn(move || {
                let gates = held(&[&of]);
                let apply = |is_over: &mut bool, word| {
                    *is_over = !Activity::means_busy(word);
                    gates.hold(!*is_over);
                    if !*is_over {
                        gates.set_passing(&of, true);
                        assert!(!of.page.holders.is_closed(), "a window");
                        gates.set_passing(&of, false);
                        assert!(of.page.holders.is_closed());
                    }
                };
                let rest = |is_over: &mut bool, word, ()| {
                    if !*is_over {
                        seen.wait(word);
                    }
                };
                seen.follow(&mut false, |is_over| *is_over, apply, rest);
            });
            assert!(guest.release(1));
            relay.join().unwrap();
            assert!(!peer.page.holders.is_held());
        });
    }

    /// The daemon may die after any of its steps. Its guest learns of that later, and opens its
    /// own gate, as it did for a starvation relief before.
    #[test]
    fn gate_of_a_dead_daemon_is_open_whatever_it_did_last() {
        for steps in 0..=4 {
            loom::model(move || {
                let peer = Peer::default();
                let of = peer.clone();
                let daemon = thread::spawn(move || {
                    let gates = Gates::of(3);
                    let step = |at: u32| match at {
                        0 => gates.set_peers(vec![of.clone()]),
                        1 => gates.hold(true),
                        at => gates.set_passing(&of, at % 2 == 0),
                    };
                    (0..steps).for_each(step);
                    // It dies: nothing is released.
                });
                let holders = &peer.page.holders;
                holders.override_all();
                assert!(!holders.is_closed(), "a starvation relief");
                daemon.join().unwrap();
                holders.clear();
                holders.end_override();
                assert!(!holders.is_closed() && !holders.is_held());
            });
        }
    }
}
