//! State behind a lock, and an inbox for threads that must not wait for it.
//!
//! The thread that has the lock takes in the messages of all others, so a unit or a client that
//! finds it taken can go its way. (*Flat combining*: Hendler, Incze, Shavit and Tzafrir, SPAA
//! 2010.)
//!
//! A sender (1) pushes the message, (2) tries the lock, and takes all in if it gets it. The thread
//! that has the lock (3) gives it back, (4) looks into the inbox, and if there is something, tries
//! the lock again. A `SeqCst` fence stands between 1 and 2 and between 3 and 4: so if 2 finds the
//! lock taken, the poll of 4 comes after 1 and finds the message.

use crate::sync::primitives::{Inbox, Ordering, TryMutex, TryMutexGuard, fence};

/// State that takes in messages.
pub(crate) trait Takes {
    type Message;

    /// Takes one in, in the order in which its sender posted it.
    fn take(&mut self, message: Self::Message);
}

/// Guards `T`, whose messages anybody may post without waiting.
#[derive(Debug)]
pub(crate) struct Combined<T: Takes> {
    inbox: Inbox<T::Message>,
    state: TryMutex<T>,
}

impl<T: Takes> Combined<T> {
    pub(crate) fn new(state: T) -> Self {
        Self { inbox: Inbox::default(), state: TryMutex::new(state) }
    }

    /// Leaves a message. Doesn't wait. Call [`try_lock`](Self::try_lock) after it, or the message
    /// may stay in the inbox.
    pub(crate) fn post(&self, message: T::Message) {
        self.inbox.push(message); // 1
    }

    /// The state, with all that was posted before this call taken in. After it is given back, call
    /// [`unanswered`](Self::unanswered).
    pub(crate) fn lock(&self) -> TryMutexGuard<'_, T> {
        self.take_in(self.state.lock())
    }

    /// Like [`lock`](Self::lock), or `None` if another has it, which then takes in what was posted
    /// before this call.
    pub(crate) fn try_lock(&self) -> Option<TryMutexGuard<'_, T>> {
        fence(Ordering::SeqCst); // between 1 and 2
        self.state.try_lock().map(|state| self.take_in(state))
    }

    /// After giving the state back: it once more, if messages came that others rely on the caller
    /// to take in.
    pub(crate) fn unanswered(&self) -> Option<TryMutexGuard<'_, T>> {
        fence(Ordering::SeqCst); // between 3 and 4
        if self.inbox.is_empty() { None } else { self.try_lock() }
    }

    fn take_in<'a>(&self, mut state: TryMutexGuard<'a, T>) -> TryMutexGuard<'a, T> {
        while let Some(message) = self.inbox.pop() {
            state.take(message);
        }
        state
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::sync::primitives::thread;
    use loom::sync::Arc;

    /// Messages that senders posted, in order.
    #[derive(Default)]
    struct Received(Vec<u32>);

    impl Takes for Received {
        type Message = u32;

        fn take(&mut self, message: u32) {
            self.0.push(message);
        }
    }

    /// Step that the thread that gives the lock back leaves out.
    #[derive(Clone, Copy, PartialEq)]
    enum Rule {
        Kept,
        ChecksAgain,
        Fences,
    }

    /// Posts as `Units::post` does, whose state is the hardware.
    fn send(combined: &Combined<Received>, message: u32, broken: Rule) {
        combined.post(message);
        let entered = match broken {
            Rule::Fences => combined.state.try_lock().map(|state| combined.take_in(state)),
            _ => combined.try_lock(),
        };
        if entered.is_none() {
            return;
        }
        drop(entered);
        match broken {
            Rule::Kept => while combined.unanswered().is_some() {},
            Rule::ChecksAgain => {}
            Rule::Fences => {
                while !combined.inbox.is_empty()
                    && combined.state.try_lock().map(|state| combined.take_in(state)).is_some()
                {
                }
            }
        }
    }

    /// Two threads post. When both are back, all is taken in although no other thread comes.
    fn two_senders(broken: Rule) {
        loom::model(move || {
            let combined = Arc::new(Combined::new(Received::default()));
            let other = thread::spawn({
                let combined = combined.clone();
                move || send(&combined, 1, broken)
            });
            send(&combined, 2, broken);
            other.join().unwrap();
            let taken = combined.state.lock().0.len();
            assert_eq!(taken, 2, "a message was left");
        });
    }

    #[test]
    fn no_message_is_left() {
        two_senders(Rule::Kept);
    }

    #[test]
    #[should_panic = "a message was left"]
    fn one_is_left_if_none_checks_again() {
        two_senders(Rule::ChecksAgain);
    }

    #[test]
    #[should_panic = "a message was left"]
    fn one_is_left_without_fences() {
        two_senders(Rule::Fences);
    }

    /// A thread that waits for the lock, as a drain does, has what it posted before.
    #[test]
    fn waiter_finds_its_own_messages_in_order() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2); // all interleavings take a minute
        model.check(|| {
            let combined = Arc::new(Combined::new(Received::default()));
            let other = thread::spawn({
                let combined = combined.clone();
                move || send(&combined, 9, Rule::Kept)
            });
            send(&combined, 1, Rule::Kept);
            send(&combined, 2, Rule::Kept);
            let state = combined.lock();
            let own: Vec<_> = state.0.iter().copied().filter(|message| *message < 9).collect();
            drop(state);
            while combined.unanswered().is_some() {}
            other.join().unwrap();
            assert_eq!(own, [1, 2]);
        });
    }
}
