//! Buffers and kernels of launched commands, kept until the commands have ended: their callers may
//! drop their own handles at once.
//!
//! Kernels get addresses, and memory that is freed is handed out again. So a queue keeps a handle
//! to all that a command touches, two counters per launch and no allocation, from before it reaches
//! the driver until the timeline has passed it, the device has reported that nothing of the queue
//! runs, or the stream is closed. A stream that was abandoned keeps its memory for ever
//! (`driver/timeout.rs`).

use crate::code::kernel::Kernel;
use crate::driver::buffer::Buffer;
use crate::driver::event::Event;
use crate::gpu::Gpu;
use crate::hal::calls::Vendor;
use crate::launch::graph::Graph;
use reef_core::{Copy, Fill, Launch, MemoryHandle};
use std::collections::VecDeque;

/// Needs of commands, with the positions after them, in order.
#[derive(Debug)]
pub(crate) struct Retained<V: Vendor>(VecDeque<(u64, Needs<V>)>);

/// Needs of one command. It is only ever dropped.
#[derive(Debug)]
#[allow(dead_code)]
enum Needs<V: Vendor> {
    Launch(Kernel<V>, MemoryHandle<Gpu<V>>),
    Graph(Graph<V>),
    Copy(Buffer<V>, Buffer<V>),
    Fill(Buffer<V>),
    Event(Event<V>),
}

impl<V: Vendor> Default for Retained<V> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<V: Vendor> Retained<V> {
    pub(super) fn launch(&mut self, end: u64, launch: &Launch<Gpu<V>>) {
        self.add(end, Needs::Launch(launch.kernel().clone(), launch.memory()));
    }

    pub(super) fn graph(&mut self, end: u64, graph: &Graph<V>) {
        self.add(end, Needs::Graph(graph.clone()));
    }

    pub(super) fn copy(&mut self, end: u64, copy: &Copy<Gpu<V>>) {
        self.add(end, Needs::Copy(copy.from.clone(), copy.to.clone()));
    }

    pub(super) fn fill(&mut self, end: u64, fill: &Fill<Gpu<V>>) {
        self.add(end, Needs::Fill(fill.buffer.clone()));
    }

    pub(super) fn event(&mut self, end: u64, event: &Event<V>) {
        self.add(end, Needs::Event(event.clone()));
    }

    fn add(&mut self, end: u64, needs: Needs<V>) {
        self.0.push_back((end, needs));
    }

    /// All commands before `done` have ended.
    pub(super) fn retire(&mut self, done: u64) {
        while self.0.pop_front_if(|(end, _)| *end <= done).is_some() {}
    }

    /// Nothing of the queue runs or will.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hal::fake::Fake;
    use crate::hal::options::Options;
    use reef_core::{Args, Device, PreemptLevel, Preemptor, Priority, Queue, Seq};

    /// A device on which nothing ends by itself.
    fn silent() -> Gpu<Fake> {
        let gpu = Gpu::new(Fake::default(), Options::default()).unwrap();
        gpu.vendor().slow_down();
        gpu
    }

    fn is_freed(gpu: &Gpu<Fake>, address: u64) -> bool {
        gpu.vendor().freed.lock().contains(&address)
    }

    /// A launch that is the only one to hold its buffer, and the buffer's address.
    fn launch(gpu: &Gpu<Fake>) -> (Launch<Gpu<Fake>>, u64) {
        let buffer = gpu.alloc(8).unwrap();
        let address = buffer.address();
        let kernel = gpu.kernel("append").unwrap();
        // SAFETY: nothing runs.
        let launch =
            unsafe { Launch::new(kernel, [1; 3], [32, 1, 1], Args::new(&[address, 1, 0])) };
        (launch.keep(vec![buffer]), address)
    }

    #[test]
    fn operands_outlive_their_commands_and_no_more() {
        let gpu = silent();
        let mut queue = gpu.queue(Priority::BestEffort, None).unwrap();
        let (first, of_first) = launch(&gpu);
        queue.launch(Seq(0), &first, None).unwrap();
        drop(first);
        let [from, to, filled] = [(); 3].map(|()| gpu.alloc(64).unwrap());
        let of_copies = [&from, &to, &filled].map(Buffer::address);
        let copy = Copy { from, from_offset: 0, to, to_offset: 0, bytes: 64, to_host: true };
        queue.copy(Seq(1), &copy).unwrap();
        drop(copy);
        let fill = Fill { buffer: filled, offset: 0, bytes: 64, word: 1 };
        queue.fill(Seq(2), &fill).unwrap();
        drop(fill);
        assert_eq!(queue.completed(), Ok(Seq(0)));
        let all = || of_copies.into_iter().chain([of_first]);
        assert!(all().all(|address| !is_freed(&gpu, address)), "they run");
        gpu.vendor().proceed(1);
        assert_eq!(queue.completed(), Ok(Seq(3)));
        assert!(all().all(|address| is_freed(&gpu, address)), "they have run");
    }

    #[test]
    fn evicted_launch_releases_its_buffers_with_the_report() {
        let gpu = silent();
        let preemptor = gpu.preemptor(PreemptLevel::All).unwrap();
        let mut queue = gpu.queue(Priority::BestEffort, Some(&preemptor)).unwrap();
        let (held, address) = launch(&gpu);
        queue.launch(Seq(0), &held, None).unwrap();
        drop(held);
        preemptor.evict().unwrap();
        assert_eq!(queue.completed(), Ok(Seq(0)));
        assert!(!is_freed(&gpu, address), "it may still run");
        while queue.try_drain().unwrap().is_none() {
            assert!(!is_freed(&gpu, address), "the device has not reported");
            gpu.vendor().proceed(1);
        }
        assert!(is_freed(&gpu, address), "nothing runs");
    }

    #[test]
    fn a_queue_that_ends_waits_first() {
        let gpu = silent();
        let mut queue = gpu.queue(Priority::RealTime, None).unwrap();
        let (held, address) = launch(&gpu);
        queue.launch(Seq(0), &held, None).unwrap();
        drop(held);
        assert!(!is_freed(&gpu, address));
        drop(queue); // waits for the stream
        assert!(is_freed(&gpu, address));
    }
}
