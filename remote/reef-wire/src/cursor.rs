//! Completion cursor of a lane: the server pushes it, the client's threads read it and may sleep
//! until it has come far enough.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Thread;

/// Number of the first command of a lane that has not finished, as far as the client knows.
#[derive(Debug, Default)]
pub struct Cursor {
    /// Only grows. Written by the thread that reads frames, read by the lane's owner.
    done: AtomicU64,
    /// Position at which the thread is unparked; 0 for none. Set by the lane's owner, which then
    /// reads `done`; cleared by whichever side sees that `done` has reached it. `advance` writes
    /// `done` before it reads this, so one of the two sides sees the other's write.
    wake_at: AtomicU64,
    thread: Mutex<Option<Thread>>,
}

impl Cursor {
    /// All commands before the returned position have finished.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::SeqCst)
    }

    /// Moves the cursor, and unparks the thread if it waits for no more than this.
    pub fn advance(&self, to: u64) {
        self.done.fetch_max(to, Ordering::SeqCst);
        let wake_at = self.wake_at.load(Ordering::SeqCst);
        if wake_at != 0 && wake_at <= to {
            self.wake_at.store(0, Ordering::SeqCst);
            self.wake();
        }
    }

    /// Names the thread that is unparked.
    ///
    /// # Panics
    ///
    /// Never: the lock is not held by code that can panic.
    pub fn set_thread(&self, thread: Thread) {
        *self.thread.lock().expect("no panic under this lock") = Some(thread);
    }

    /// Asks for the thread to be unparked when the cursor is at `position` or further. Returns
    /// whether it is already; then no thread is unparked.
    pub fn wake_at(&self, position: u64) -> bool {
        self.wake_at.store(position, Ordering::SeqCst);
        let is_there = self.done.load(Ordering::SeqCst) >= position;
        if is_there {
            self.wake_at.store(0, Ordering::SeqCst);
        }
        is_there
    }

    /// Unparks the thread now, as after an error.
    ///
    /// # Panics
    ///
    /// Never: the lock is not held by code that can panic.
    pub fn wake(&self) {
        if let Some(thread) = &*self.thread.lock().expect("no panic under this lock") {
            thread.unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;

    #[test]
    fn parked_thread_is_woken_at_its_position() {
        let cursor = Arc::new(Cursor::default());
        let waiter = thread::spawn({
            let cursor = cursor.clone();
            move || {
                cursor.set_thread(thread::current());
                while !cursor.wake_at(5) {
                    thread::park();
                }
                cursor.done()
            }
        });
        cursor.advance(4);
        cursor.advance(6);
        assert_eq!(waiter.join().unwrap(), 6);
        cursor.advance(3);
        assert_eq!(cursor.done(), 6, "a cursor never goes back");
    }
}
