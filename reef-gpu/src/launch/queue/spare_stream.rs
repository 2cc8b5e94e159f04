//! The second stream of a queue on a device whose capped queues run on few units.
//!
//! A queue puts all it has into one of its two streams until that has ended, and only then goes to
//! the other: so order holds without either waiting for the other, and whatever is asked of the
//! stream in use is asked of the queue.

use crate::driver::context::Context;
use crate::driver::stream::Stream;
use crate::hal::calls::{StreamKind, Vendor};
use crate::launch::timeline::Timeline;
use reef_core::Result;
use std::sync::Arc;

/// The stream that a queue doesn't use just now.
#[derive(Debug)]
pub(crate) struct SpareStream<V: Vendor> {
    stream: Stream<V>,
    /// The one in use is on few units.
    is_capped: bool,
}

impl<V: Vendor> SpareStream<V> {
    /// One on few units, where the device has such streams.
    pub(crate) fn open(context: &Arc<Context<V>>) -> Result<Option<Self>> {
        if context.vendor.facts().capped_units.is_none() {
            return Ok(None);
        }
        let stream = Stream::open(context, StreamKind::Capped)?;
        Ok(Some(Self { stream, is_capped: false }))
    }

    /// Makes `in_use` the one on few units if `capped`, else the other. While something is in it,
    /// it stays: a queue changes its width when it was drained.
    pub(crate) fn choose(&mut self, capped: bool, in_use: &mut Stream<V>, timeline: &Timeline<V>) {
        if self.is_capped != capped && timeline.is_idle() {
            std::mem::swap(&mut self.stream, in_use);
            self.is_capped = capped;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::Gpu;
    use crate::hal::calls::StreamKind::{BestEffort, Capped, RealTime};
    use crate::hal::fake::Fake;
    use crate::hal::options::Options;
    use crate::launch::queue::hardware_queue::Queue;
    use crate::preempt::preemptor::Preemptor;
    use reef_core::{
        Args, Command, Device, Launch, PreemptLevel, Preemptor as _, Priority, Queue as _, Seq,
    };

    /// A device whose capped queues run on few units, and a queue that can be stopped.
    fn bench() -> (Gpu<Fake>, Preemptor<Fake>, Queue<Fake>) {
        let gpu = Gpu::new(Fake::with_capped_units(), Options::default()).unwrap();
        let preemptor = gpu.preemptor(PreemptLevel::All).unwrap();
        let queue = gpu.queue(Priority::BestEffort, Some(&preemptor)).unwrap();
        gpu.vendor().launched_in.lock().clear();
        (gpu, preemptor, queue)
    }

    fn launch_of(gpu: &Gpu<Fake>, blocks: u32) -> Launch<Gpu<Fake>> {
        let kernel = gpu.kernel("append").unwrap();
        // SAFETY: the fake's blocks compute nothing.
        unsafe { Launch::new(kernel, [blocks, 1, 1], [32, 1, 1], Args::new(&[0; 3])) }
    }

    /// The streams of the launches since this was asked last.
    fn launched_in(gpu: &Gpu<Fake>) -> Vec<StreamKind> {
        std::mem::take(&mut *gpu.vendor().launched_in.lock())
    }

    #[test]
    fn capped_launches_go_to_few_units_and_others_do_not() {
        let (gpu, _, mut queue) = bench();
        let launch = launch_of(&gpu, 8);
        for (seq, (cap, want)) in
            [(None, BestEffort), (Some(3), Capped), (None, BestEffort)].into_iter().enumerate()
        {
            queue.cap_blocks(cap);
            let seq = 2 * seq as u64;
            queue.launch(Seq(seq), &launch, None).unwrap();
            queue.record(Seq(seq + 1), &gpu.event().unwrap()).unwrap();
            assert_eq!(launched_in(&gpu), [want; 2], "{cap:?}");
            assert_eq!(queue.completed(), Ok(Seq(seq + 2)));
        }
    }

    #[test]
    fn graphs_of_capped_queues_go_to_few_units() {
        let (gpu, _, mut queue) = bench();
        let commands = [3, 2].map(|blocks| Command::Launch(launch_of(&gpu, blocks)));
        let graph = crate::Graph::new(&gpu, &commands).unwrap();
        queue.cap_blocks(Some(3));
        queue.launch_graph(Seq(0), &graph, None).unwrap();
        assert_eq!(launched_in(&gpu), [Capped; 2]);
    }

    #[test]
    fn a_queue_keeps_its_stream_while_something_is_in_it() {
        let (gpu, _, mut queue) = bench();
        gpu.vendor().slow_down();
        let launch = launch_of(&gpu, 8);
        queue.launch(Seq(0), &launch, None).unwrap();
        queue.cap_blocks(Some(3));
        queue.launch(Seq(1), &launch, None).unwrap();
        assert_eq!(launched_in(&gpu), [BestEffort; 2], "else the second might be first");
        while queue.completed().unwrap() < Seq(2) {
            gpu.vendor().proceed(1);
        }
        queue.launch(Seq(2), &launch, None).unwrap();
        assert_eq!(launched_in(&gpu), [Capped]);
    }

    #[test]
    fn evicted_launch_resumes_and_reports_on_few_units() {
        let (gpu, preemptor, mut queue) = bench();
        gpu.vendor().hurry();
        let launch = launch_of(&gpu, 4);
        let (mut left, mut rounds) = (None, 0);
        for (cap, want) in [(None, BestEffort), (Some(3), Capped)].into_iter().cycle().take(20) {
            rounds += 1;
            queue.cap_blocks(cap);
            queue.launch(Seq(0), &launch, left.as_ref()).unwrap();
            preemptor.evict().unwrap();
            let drained = queue.try_drain().unwrap().expect("the fake reports at once");
            preemptor.reactivate().unwrap();
            let places = launched_in(&gpu); // of one launch or several, and of the report
            assert!(places.len() > 1 && places.iter().all(|place| *place == want), "{places:?}");
            if drained.resume_at == Seq(1) {
                break;
            }
            left = drained.partial;
        }
        assert!(rounds > 2, "it was evicted");
        let mut ran = gpu.vendor().ran.lock().clone();
        ran.sort_unstable();
        assert_eq!(ran, [0, 1, 2, 3], "each block once");
    }

    /// Streams that the device has opened for a queue, while all that are there are in use.
    fn opened_for(gpu: &Gpu<Fake>, class: Priority, flag: Option<&Preemptor<Fake>>) -> u32 {
        let queue = || gpu.queue(class, flag).unwrap();
        let opened = || gpu.vendor().opened.load(std::sync::atomic::Ordering::Relaxed);
        let _first = queue();
        let before = opened();
        let _second = queue();
        opened() - before
    }

    #[test]
    fn only_queues_that_are_ever_capped_have_two_streams() {
        let (gpu, preemptor, _) = bench();
        assert_eq!(opened_for(&gpu, Priority::BestEffort, Some(&preemptor)), 2);
        assert_eq!(opened_for(&gpu, Priority::RealTime, None), 1);
        let whole = Gpu::new(Fake::default(), Options::default()).unwrap();
        let preemptor = whole.preemptor(PreemptLevel::All).unwrap();
        assert_eq!(opened_for(&whole, Priority::BestEffort, Some(&preemptor)), 1);
        let mut rt = gpu.queue(Priority::RealTime, None).unwrap();
        rt.cap_blocks(Some(3));
        rt.launch(Seq(0), &launch_of(&gpu, 8), None).unwrap();
        assert_eq!(launched_in(&gpu), [RealTime]);
    }

    #[test]
    fn streams_on_few_units_are_kept_for_their_kind() {
        let (gpu, preemptor, queue) = bench();
        let opened = || gpu.vendor().opened.load(std::sync::atomic::Ordering::Relaxed);
        let before = opened();
        drop(queue);
        let mut queue = gpu.queue(Priority::BestEffort, Some(&preemptor)).unwrap();
        queue.cap_blocks(Some(3));
        queue.launch(Seq(0), &launch_of(&gpu, 8), None).unwrap();
        assert_eq!((opened() - before, launched_in(&gpu)), (0, vec![Capped]));
    }
}
