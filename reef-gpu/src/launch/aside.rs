//! The second stream of a queue on a device whose capped queues run on few units: on these, or on the others for a
//! real-time queue that leaves them alone.
//!
//! A queue puts all it has into one of its two streams until that has ended, and only then goes to the other: so order
//! holds without either waiting for the other, and whatever is asked of the stream in use is asked of the queue.

use crate::driver::context::Context;
use crate::driver::stream::Stream;
use crate::launch::timeline::Timeline;
use crate::vendor::calls::{StreamKind, Vendor};
use reef_core::Result;
use std::sync::Arc;

/// The stream that a queue doesn't use just now.
#[derive(Debug)]
pub(crate) struct Aside<V: Vendor> {
    stream: Stream<V>,
    /// What the second stream is for.
    second: StreamKind,
    /// The one in use is the second.
    is_second: bool,
}

impl<V: Vendor> Aside<V> {
    /// The second stream.
    pub(crate) fn open(context: &Arc<Context<V>>, kind: StreamKind) -> Result<Self> {
        Ok(Self { stream: Stream::open(context, kind)?, second: kind, is_second: false })
    }

    /// What the second stream is for.
    pub(crate) fn second(&self) -> StreamKind {
        self.second
    }

    /// Makes `in_use` the second stream or the first. While something is in it, it stays: a queue changes its width
    /// when it was drained.
    pub(crate) fn choose(&mut self, second: bool, in_use: &mut Stream<V>, timeline: &Timeline<V>) {
        if self.is_second != second && timeline.is_idle() {
            std::mem::swap(&mut self.stream, in_use);
            self.is_second = second;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::Gpu;
    use crate::launch::queue::Queue;
    use crate::preempt::preemptor::Preemptor;
    use crate::vendor::calls::StreamKind::{BestEffort, Capped, RealTime, Rest};
    use crate::vendor::fake::Fake;
    use crate::vendor::options::Options;
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
    fn what_was_evicted_resumes_on_few_units_and_is_asked_for_there() {
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
    fn real_time_work_leaves_few_units_alone_while_queues_are_capped_if_that_is_asked_for() {
        for (option, want) in [("on", Rest), ("off", RealTime)] {
            let options = format!("beside_on=2&beside_alone={option}");
            let options = Options::parse("fake", &options).unwrap();
            let gpu = Gpu::new(Fake::with_capped_units(), options).unwrap();
            let preemptor = gpu.preemptor(PreemptLevel::All).unwrap();
            let queue = || gpu.queue(Priority::BestEffort, Some(&preemptor)).unwrap();
            let (mut first, mut second) = (queue(), queue());
            let mut rt = gpu.queue(Priority::RealTime, None).unwrap();
            let (mut seq, launch) = (0, launch_of(&gpu, 8));
            let mut place = || {
                launched_in(&gpu);
                rt.launch(Seq(seq), &launch, None).unwrap();
                seq += 1;
                assert_eq!(rt.completed(), Ok(Seq(seq)));
                launched_in(&gpu)
            };
            assert_eq!(place(), [RealTime]);
            first.cap_blocks(Some(3));
            second.cap_blocks(Some(3));
            first.cap_blocks(Some(4));
            assert_eq!(place(), [want], "{option}");
            first.cap_blocks(None);
            assert_eq!(place(), [want], "{option}: one still is");
            drop(second);
            assert_eq!(place(), [RealTime], "{option}");
        }
    }

    #[test]
    fn a_graph_is_captured_for_the_units_that_it_runs_on() {
        let options = Options::parse("fake", "beside_on=2&beside_alone=on").unwrap();
        let mut fake = Fake::with_graphs();
        fake.cap_units();
        let gpu = Gpu::new(fake, options).unwrap();
        let preemptor = gpu.preemptor(PreemptLevel::All).unwrap();
        let mut other = gpu.queue(Priority::BestEffort, Some(&preemptor)).unwrap();
        let mut rt = gpu.queue(Priority::RealTime, None).unwrap();
        let graph = crate::Graph::new(&gpu, &[Command::Launch(launch_of(&gpu, 8))]).unwrap();
        let times = [gpu.event().unwrap(), gpu.event().unwrap()];
        let command = Command::Graph(graph);
        let mut run = |seq, cap| {
            other.cap_blocks(cap);
            launched_in(&gpu);
            let [start, end] = times.each_ref().map(Some);
            assert_eq!(rt.launch_between(Seq(seq), &command, [start, end]), Ok(true));
            while rt.completed().unwrap() < Seq(seq + 1) {}
            launched_in(&gpu)
        };
        let captured = |kind| vec![kind; 2]; // the kernel, and the stamp behind it
        assert_eq!(run(0, None), captured(RealTime));
        assert_eq!(run(1, Some(3)), captured(Rest));
        assert_eq!(run(2, None), []);
        assert_eq!(run(3, Some(3)), []);
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
