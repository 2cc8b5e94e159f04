//! A best-effort client's queue as schedulers and padding see it.

use crate::backend::command::Launch;
use crate::backend::device::Device;
use crate::backend::error::Result;
use crate::backend::info::{DeviceInfo, Seq};
use crate::backend::types::Checkpoint;
use crate::dispatch::padding_plan;
use crate::dispatch::queues::padding::Padded;
use crate::scheduler::policy::{QueueView, TaskView};
use crate::sync::ring::{Consumer, Producer, ring};
use crate::vqueue::virtual_queue::VirtualQueue;
use std::collections::VecDeque;
use std::time::Duration;

/// State that the dispatcher keeps of a best-effort client.
#[derive(Debug)]
pub(crate) struct BeQueue<D: Device> {
    pub(crate) id: u64,
    pub(crate) queue: VirtualQueue<D>,
    pub(crate) tasks: Tasks,
    pub(crate) weight: u32,
    pub(crate) priority: i32,
    pub(crate) served: Duration,
}

/// Tasks of a client that have not finished, oldest first.
///
/// They come by a ring, so that a pass waits for no lock of a client.
#[derive(Debug)]
pub(crate) struct Tasks {
    coming: Consumer<TaskView>,
    unfinished: VecDeque<TaskView>,
}

impl Tasks {
    /// Of a client with at most `commands` unfinished commands; the client writes into the other
    /// end.
    pub(crate) fn new(commands: usize) -> (Producer<TaskView>, Self) {
        // Each has a command, but for the one that is being submitted.
        let max_tasks = 2 * commands;
        let (producer, coming) = ring(max_tasks);
        (producer, Self { coming, unfinished: VecDeque::with_capacity(max_tasks) })
    }

    /// Takes what has come, and drops what ends before `completed`.
    fn update(&mut self, completed: u64) {
        while let Some((at, task)) = self.coming.next() {
            self.unfinished.push_back(*task);
            self.coming.launch();
            self.coming.complete_to(at + 1);
        }
        while self.unfinished.pop_front_if(|task| task.end.0 <= completed).is_some() {}
    }
}

impl<D: Device> BeQueue<D> {
    /// Returns its view for a scheduler.
    pub(crate) fn view(&mut self) -> QueueView {
        let shared = self.queue.shared();
        shared.watch(); // before the cursors are read, or a submission in between would be missed
        let (mut completed, mut submitted) = shared.cursors();
        if shared.failed().is_some() {
            // Nothing of it will run: all of it counts as finished, also what a half submitted task
            // lacks.
            (completed, submitted) = (u64::MAX, u64::MAX);
        }
        self.tasks.update(completed); // after the cursors: a task comes before its commands
        let lags = shared.is_lagging();
        if lags {
            submitted = completed; // it can use nothing, and must not keep the device from others
        }
        QueueView {
            id: self.id,
            completed: Seq(completed),
            submitted: Seq(submitted),
            task: self.tasks.unfinished.front().copied().filter(|_| !lags),
            weight: self.weight,
            priority: self.priority,
            served: self.served,
        }
    }

    /// Returns blocks of this client's next kernel that fit next to `rt`. Only while it is
    /// quiesced.
    pub(crate) fn padding(
        &mut self,
        device: &D,
        rt: &Launch<D>,
        info: &DeviceInfo,
    ) -> Result<Option<Padded<D>>> {
        let shared = self.queue.shared();
        if shared.failed().is_some() {
            return Ok(None);
        }
        let Some(mut launcher) = shared.try_launcher() else { return Ok(None) };
        if launcher.finish_padded() {
            shared.note_padded(&mut launcher);
        }
        let Some((be, record)) = launcher.head(device)? else { return Ok(None) };
        let profiles = rt.profile().zip(be.profile());
        let padding =
            profiles.and_then(|(rt, be)| padding_plan::plan(rt, be, record.remaining(), info));
        let owner = self.id;
        Ok(padding.map(|padding| Padded { owner, padding, be: be.clone(), record }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::command::Command;
    use crate::backend::info::PreemptLevel;
    use crate::dispatch::padding_plan::Profile;
    use crate::testing::fake::{Fake, eventually, kernel, launch};
    use crate::vqueue::config::Config;
    use crate::vqueue::submitter::Submitter;
    use std::sync::atomic::Ordering;
    use std::thread;

    fn client(device: &Fake) -> (Submitter<Fake>, BeQueue<Fake>) {
        let config = Config::default().window(1).level(PreemptLevel::All);
        let (submitter, queue) = VirtualQueue::enable(device, config).expect("a queue");
        let (_, tasks) = Tasks::new(8);
        let (weight, priority, served) = (1, 0, Duration::ZERO);
        (submitter, BeQueue { id: 0, queue, tasks, weight, priority, served })
    }

    /// A worker waits for the device while that has something of its queue. Work that was taken
    /// back, and run by others, ends without a report of the device.
    #[test]
    fn client_whose_last_kernel_ran_as_padding_continues() {
        let device = Fake::default();
        let be_hangs = |hangs| device.0.be_hangs.store(hangs, Ordering::SeqCst);
        device.0.claims_to_wake.store(true, Ordering::SeqCst);
        be_hangs(true);
        let (mut submitter, mut client) = client(&device);
        // They have no blocks, so padding has run all of them. The window is full with the first.
        let all_padded = || Command::Launch(launch(0));
        for command in [all_padded(), all_padded()] {
            submitter.submit(command).expect("room");
        }
        let launcher = || client.queue.shared().launcher();
        eventually("launched", || launcher().commands.in_flight() == 1);
        // sleep: a worker leaves no mark when it parks; one that doesn't park passes as well
        thread::sleep(Duration::from_millis(20));
        client.queue.group().hold();
        assert!(client.queue.group().try_quiesce());
        let rt = launch(1).with_profile(std::sync::Arc::new(Profile::default()));
        for _ in 0..3 {
            client.padding(&device, &rt, &device.info()).expect("nothing fails");
        }
        assert_eq!(submitter.completed(), Seq(2), "padding ran them");
        be_hangs(false);
        client.queue.restore().expect("it is preempted");
        submitter.submit(kernel()).expect("room");
        let ended = submitter.wait_timeout(Seq(2), Duration::from_secs(60));
        assert_eq!(ended, Some(Ok(())), "the worker sleeps");
    }
}
