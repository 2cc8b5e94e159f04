//! One queue while it is preempted and restored: its worker, its group, its submitter, and a device
//! that unparks the worker for what it was asked for, and for nothing else.
//!
//! All but the device is the code itself. Loom tries all orders of what it is shown: the words by
//! which these threads wake each other. Caps, parts and limits are none of them.
//!
//! A [`Fault`] of the device, or of a thread outside the queue, shows that the models can fail:
//! loom reports a worker that sleeps for ever as a deadlock.

mod backend;
mod device;
mod scenarios;

use crate::backend::command::Command;
use crate::backend::error::Error;
use crate::backend::info::PreemptLevel;
use crate::backend::preemptor::Preemptor as _;
use crate::sync::primitives::thread::{self, JoinHandle};
use crate::sync::ring::ring;
use crate::vqueue::config::Config;
use crate::vqueue::group::Group;
use crate::vqueue::launcher::Launcher;
use crate::vqueue::shared::{Shared, Shutdown};
use crate::vqueue::submitter::Submitter;
use crate::vqueue::worker::{Pace, work};
use backend::{HardwareQueue, Model, Padded};
use device::Device;
use std::sync::Arc;
use std::time::Duration;

/// Rule that is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// None is.
    None,
    /// The thread that pads the last command away doesn't wake the worker.
    PaddingWakesNone,
    /// The thread that tells the device to stop doesn't wake a worker that asked before.
    StopWakesNone,
    /// A queue of which the device has nothing when it is stopped has to be drained to go on.
    IdleQueuesStayStopped,
    /// A launch that a worker was in the middle of starts, though the device was told to stop.
    LateLaunchesStart,
}

/// Way in which a group stops the queue.
#[derive(Debug, Clone, Copy)]
struct Stop {
    /// Another queue of the group, which comes before this one, counts as busy.
    busy: bool,
    /// The device is told before real-time work goes to it: `Dispatch::stops_first`.
    stops_first: bool,
}

impl Stop {
    /// Of a queue that is alone in its group.
    const ALONE: Self = Self { busy: false, stops_first: false };
    const BUSY: Self = Self { busy: true, ..Self::ALONE };

    fn stops_first(self) -> Self {
        Self { stops_first: true, ..self }
    }
}

/// A group and the queue in it.
struct Queue {
    device: Arc<Device>,
    group: Arc<Group<Model>>,
    shared: Arc<Shared<Model>>,
    /// Of one thread at a time.
    submitter: std::sync::Mutex<Submitter<Model>>,
}

impl Queue {
    /// A queue on `device` that takes up to four commands.
    fn new(device: Device, window: u64) -> Self {
        let device = Arc::new(device);
        let group = Group::open(&Model(device.clone()), PreemptLevel::DeviceQueue).unwrap();
        let (commands, consumer) = ring(4);
        let (cursors, worker) = (consumer.cursors(), device.worker().clone());
        let launcher = Launcher::new(HardwareQueue(device.clone()), consumer, window);
        let shared = Arc::new(Shared::new(launcher, cursors, worker, None, None));
        let submitter = Submitter { commands, shared: shared.clone(), spin: Duration::ZERO };
        Self { device, group, shared, submitter: submitter.into() }
    }

    fn submit(&self) {
        self.submitter.lock().unwrap().submit(Command::Graph(())).expect("room");
    }

    fn is_completed_to(&self, end: u64) -> bool {
        self.shared.cursors().0 == end
    }

    /// The queue, and one before it that counts as busy, are members of the group.
    fn join_group(&self, stop: Stop) {
        if stop.busy {
            self.group.join(&failed_queue()).unwrap();
        }
        self.group.join(&self.shared).unwrap();
    }

    fn start_worker(&self) -> JoinHandle<()> {
        let config = Config { spin: Duration::ZERO, drain_timeout: None, ..Config::default() };
        let pace = Pace { wakes: true, stops: false, config }; // no model has a time
        let (shared, worker) = (self.shared.clone(), self.device.worker().clone());
        thread::spawn(move || {
            worker.begin();
            work(&shared, pace).unwrap();
        })
    }

    /// As the dispatcher does for real-time work.
    fn stop(&self, stop: Stop) {
        self.group.hold();
        if !stop.stops_first {
            self.device.take();
        }
        self.group.stop().unwrap();
        if stop.stops_first {
            self.device.take();
        }
        self.device.note_told();
    }

    fn restore(&self) {
        self.group.restore().unwrap();
    }

    /// Runs all that is left as padding.
    fn pad_all(&self, fault: Fault) {
        let mut launcher = self.shared.launcher();
        while launcher.commands.next().is_some() {
            launcher.continue_at(Padded);
            assert!(launcher.finish_padded());
            self.device.note_padded(launcher.commands.launched());
            match fault {
                Fault::PaddingWakesNone => self.shared.waiters().notify(),
                _ => self.shared.note_padded(&mut launcher),
            }
        }
    }

    /// Waits until `all` commands have completed, and ends the worker.
    fn close(&self, all: u64) {
        self.shared.waiters().wait_until(|| self.is_completed_to(all));
        self.shared.shut_down(Shutdown::Drain);
    }
}

/// A queue that ended with an error, and may have something on the device.
fn failed_queue() -> Arc<Shared<Model>> {
    let queue = Queue::new(Device::new(Fault::None, 0), 1);
    queue.shared.end(Error::Cancelled);
    queue.shared
}
