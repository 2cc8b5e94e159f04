//! A device whose calls and wake-ups take longer now and then, as they do for threads that get no
//! processor.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, Thread};
use std::time::Duration;

/// Upper bound of a doze in microseconds: several times what waking a thread takes.
const MAX_DOZE_MICROS: u64 = 400;

/// Dozing of calls, and delay of wake-ups.
#[derive(Debug)]
pub(crate) enum Dozes {
    Never,
    Sometimes { calls: Box<Mutex<ChaCha8Rng>>, wakes: Sender<Thread> },
}

impl Dozes {
    pub(crate) fn from_seed(seed: u64) -> Self {
        let (wakes, woken) = channel();
        thread::spawn(move || wake_late(&woken, ChaCha8Rng::seed_from_u64(!seed)));
        let calls = Box::new(Mutex::new(ChaCha8Rng::seed_from_u64(seed)));
        Self::Sometimes { calls, wakes }
    }

    /// Sleeps in one of four calls, unless the device never does.
    pub(crate) fn doze(&self) {
        let Self::Sometimes { calls, .. } = self else { return };
        let time = {
            let mut rng = calls.lock().unwrap();
            rng.random_ratio(1, 4).then(|| short(&mut rng))
        };
        time.map(thread::sleep).unwrap_or_default();
    }

    /// Unparks it, now or soon.
    pub(crate) fn wake(&self, thread: &Thread) {
        match self {
            Self::Never => thread.unpark(),
            Self::Sometimes { wakes, .. } => wakes.send(thread.clone()).unwrap_or_default(),
        }
    }
}

fn short(rng: &mut ChaCha8Rng) -> Duration {
    Duration::from_micros(rng.random_range(0..MAX_DOZE_MICROS))
}

/// Unparks every other thread at once, and the rest when none has come for a while.
fn wake_late(woken: &Receiver<Thread>, mut rng: ChaCha8Rng) {
    let mut late: Vec<Thread> = Vec::new();
    loop {
        match woken.recv_timeout(short(&mut rng)) {
            Ok(thread) if rng.random() => late.push(thread),
            Ok(thread) => thread.unpark(),
            Err(error) => {
                late.drain(..).for_each(|thread| thread.unpark());
                if error == RecvTimeoutError::Disconnected {
                    return;
                }
                if let Ok(thread) = woken.recv() {
                    late.push(thread);
                }
            }
        }
    }
}
