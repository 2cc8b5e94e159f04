//! Launches of a stream in batches behind a gate: how work is held back whose kernels have no
//! guard.
//!
//! ```text
//! … started = batch │ wait for the gate │ launch │ timeline = position │ launch …
//!   … │ started = batch + 1 │ …
//! ```
//!
//! Behind each launch of a batch the position is written. While the gate is closed the batch that
//! runs goes on to its end, and what is behind it stays in the stream: nothing is taken back, and
//! nothing is launched twice.

use crate::driver::stream::{Stream, Writer};
use crate::hal::calls::Vendor;
use crate::launch::timeline::Timeline;
use crate::preempt::gate::{Gate, OPEN};
use reef_core::Result;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// The batches of one stream.
#[derive(Debug)]
pub(crate) struct Gated<V: Vendor> {
    gate: Arc<Gate<V>>,
    writer: Writer<V>,
    /// Maximum of launches of a batch.
    size: u32,
    /// Number of the newest batch.
    number: u32,
    /// Launches that it has; 0: the next launch begins another.
    filled: u32,
    /// Number of each batch that may not have ended, and the position behind it.
    batches: VecDeque<(u32, u64)>,
    /// Commands before this position wait for no gate.
    free: u64,
}

impl<V: Vendor> Gated<V> {
    pub(crate) fn new(gate: Arc<Gate<V>>, writer: Writer<V>, size: u32) -> Self {
        Self { gate, writer, size, number: 0, filled: 0, batches: VecDeque::new(), free: 0 }
    }

    /// Puts a launch, which brings the stream to `position`, into a batch.
    pub(crate) fn launch(
        &mut self,
        stream: &Stream<V>,
        timeline: &mut Timeline<V>,
        position: u64,
        launch: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        if self.filled == 0 || self.gate.closed_for().is_some() {
            self.begin(stream, timeline)?;
        }
        launch()?;
        timeline.launch(position);
        self.filled += 1;
        self.batches.back_mut().expect("one has begun").1 = position;
        self.filled %= self.size;
        // Here and not in `completed`: while the gate is closed no call of the driver may be needed
        // to know where the stream stands, because others may hang in one.
        timeline.mark(stream)
    }

    fn begin(&mut self, stream: &Stream<V>, timeline: &mut Timeline<V>) -> Result<()> {
        self.number = self.number.wrapping_add(1);
        self.writer.write(stream, self.gate.started(), self.number)?;
        // SAFETY: the gate outlives the stream's work.
        unsafe { stream.wait_value(self.gate.address(self.number), OPEN) }?;
        self.filled = 0;
        self.batches.push_back((self.number, timeline.launched()));
        Ok(())
    }

    /// A command has been launched that nothing holds back: the stream was empty.
    pub(crate) fn launch_free(&mut self, position: u64) {
        self.free = position;
        self.filled = 0;
    }

    /// The device has come to position `done`. Returns whether it stands at the closed gate, or has
    /// nothing to do.
    pub(crate) fn stands(&mut self, done: u64) -> bool {
        let ended = |&mut (_, end): &mut (u32, u64)| end <= done;
        while self.batches.len() > 1 && self.batches.pop_front_if(ended).is_some() {}
        let Some(running) = self.gate.running() else { return false };
        let has_run = |(number, end): &(u32, u64)| *number != running || *end <= done;
        self.free <= done && self.batches.iter().all(has_run)
    }

    /// Time that the gate has been closed.
    pub(crate) fn closed_for(&self) -> Option<Duration> {
        self.gate.closed_for()
    }

    /// Opens the gate of this stream, whatever its preemptor says.
    pub(crate) fn release_held(&self) {
        self.gate.open();
    }
}

#[cfg(test)]
mod tests {
    use crate::gpu::Gpu;
    use crate::hal::fake::{Fake, Put};
    use crate::hal::options::Options;
    use reef_core::{
        Args, Device, Error, Launch, PreemptLevel, Preemptor as _, Priority, Queue, Seq,
    };

    /// A queue of a device with two launches behind each gate, and what stops it.
    fn open() -> (
        Gpu<Fake>,
        crate::preempt::preemptor::Preemptor<Fake>,
        crate::launch::queue::hardware_queue::Queue<Fake>,
    ) {
        let options = Options { gates: Some(2), ..Options::default() };
        let gpu = Gpu::new(Fake::default(), options).unwrap();
        let preemptor = gpu.preemptor(PreemptLevel::DeviceQueue).unwrap();
        let queue = gpu.queue(Priority::BestEffort, Some(&preemptor)).unwrap();
        gpu.vendor().puts.lock().clear();
        gpu.vendor().slow_down();
        (gpu, preemptor, queue)
    }

    fn launch(
        gpu: &Gpu<Fake>,
        queue: &mut crate::launch::queue::hardware_queue::Queue<Fake>,
        count: u64,
    ) {
        let kernel = gpu.kernel("append").unwrap();
        // SAFETY: nothing runs.
        let launch = unsafe { Launch::new(kernel, [1; 3], [32, 1, 1], Args::new(&[0; 3])) };
        (0..count).for_each(|seq| queue.launch(Seq(seq), &launch, None).unwrap());
    }

    /// Drains an evicted queue: where it stands, and whether it holds launches.
    fn drain(queue: &mut crate::launch::queue::hardware_queue::Queue<Fake>) -> Option<(Seq, bool)> {
        queue.try_drain().unwrap().map(|stopped| (stopped.resume_at, stopped.held))
    }

    #[test]
    fn batch_reports_its_start_waits_and_reports_its_end() {
        let (gpu, _flag, mut queue) = open();
        launch(&gpu, &mut queue, 3);
        let puts: Vec<_> = gpu.vendor().puts.lock().iter().map(std::mem::discriminant).collect();
        let [wait, write, launch] = [Put::Wait(0, 0), Put::Write(0, 0), Put::Launch(0, 0)]
            .map(|put| std::mem::discriminant(&put));
        let full = [write, wait, launch, write, launch, write];
        assert_eq!(puts, [&full[..], &[write, wait, launch, write]].concat());
    }

    #[test]
    fn an_evicted_queue_holds_what_has_not_begun() {
        let (gpu, preemptor, mut queue) = open();
        launch(&gpu, &mut queue, 5);
        assert_eq!(queue.completed().unwrap(), Seq(0));
        gpu.vendor().proceed(3); // the first batch has come to the gate, run and ended
        preemptor.evict().unwrap();
        assert_eq!(drain(&mut queue), Some((Seq(2), true)), "two of five");
        assert_eq!(gpu.vendor().proceed(9), 1, "the second batch comes to the gate and waits");
        assert_eq!(drain(&mut queue), Some((Seq(2), true)), "it still does");
        preemptor.reactivate().unwrap();
        assert!(queue.try_drain().unwrap().is_none(), "it goes on");
        assert_eq!(gpu.vendor().proceed(9), 4, "two ends, the third batch's start and end");
        assert_eq!(queue.completed().unwrap(), Seq(5));
    }

    #[test]
    fn a_batch_that_was_at_the_gate_when_it_closed_runs_to_its_end() {
        let (gpu, preemptor, mut queue) = open();
        launch(&gpu, &mut queue, 5);
        gpu.vendor().proceed(4); // the second batch has come to the gate
        preemptor.evict().unwrap();
        assert_eq!(drain(&mut queue), None, "it may have seen the gate open");
        assert_eq!(gpu.vendor().proceed(9), 3, "it ends, and the third comes to the gate");
        assert_eq!(drain(&mut queue), Some((Seq(4), true)));
    }

    #[test]
    fn a_queue_without_work_is_drained_and_holds_nothing() {
        let (gpu, preemptor, mut queue) = open();
        launch(&gpu, &mut queue, 2);
        gpu.vendor().proceed(3);
        preemptor.evict().unwrap();
        assert_eq!(drain(&mut queue), Some((Seq(2), false)));
    }

    #[test]
    fn new_gate_of_an_evicted_preemptor_is_closed_until_release() {
        let (gpu, preemptor, _queue) = open();
        preemptor.evict().unwrap();
        let mut late = gpu.queue(Priority::BestEffort, Some(&preemptor)).unwrap();
        launch(&gpu, &mut late, 1);
        let gate = gpu.vendor().puts.lock().iter().find_map(|put| match put {
            Put::Wait(address, _) => Some(*address),
            _ => None,
        });
        // SAFETY: the word of a gate that is there.
        let value = || unsafe { std::ptr::read_volatile(gate.unwrap() as *const u32) };
        assert_ne!(value(), super::OPEN);
        late.release_held();
        assert_eq!(value(), super::OPEN);
    }

    #[test]
    fn running_blocks_are_not_stopped_by_gates() {
        let (gpu, ..) = open();
        let error = gpu.preemptor(PreemptLevel::All).unwrap_err();
        assert!(matches!(error, Error::Level { have: PreemptLevel::DeviceQueue, .. }), "{error}");
        assert_eq!(gpu.info().level, PreemptLevel::DeviceQueue);
    }
}
