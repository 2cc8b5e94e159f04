//! Gates of best-effort guests, as one holder closes them.

use super::pass::Peer;
use crate::page::spans::Time;
use arc_swap::ArcSwap;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
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
        if !passes && self.is_held() {
            peer.page.hold(self.holder, Time::now());
            fence(Ordering::SeqCst);
            // The state or the list may have changed before: it was released then.
            if self.is_held() && self.peers.load().iter().any(|one| one.is(peer)) {
                return;
            }
        }
        peer.page.release(self.holder, Time::now());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hold::holders::Holders;
    use crate::page::{Class, Identity, PageFile};

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
