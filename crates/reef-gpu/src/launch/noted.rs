//! Launches that note when they began and ended, for queues that nothing stops.
//!
//! Kernels of kernels/builtin.cu set two words of the host's by themselves, if they are told to:
//! then a real-time kernel needs no launch before it and none after it. Others get a kernel of one
//! thread on the side where they can't.

use crate::code::guard::Guard;
use crate::driver::stream::Stream;
use crate::gpu::Gpu;
use crate::hal::calls::Vendor;
use crate::launch::guarded::launch_with;
use reef_core::{Launch, Result};

/// Launches these so that the words at `start` and `end`, where these aren't 0, are set to the
/// device's time when the first of them begins and when the last has ended. What they wrote is
/// there before the second.
pub(crate) fn launch_noted<V: Vendor>(
    stream: &Stream<V>,
    gpu: &Gpu<V>,
    launches: &[Launch<Gpu<V>>],
    [start, end]: [u64; 2],
) -> Result<()> {
    let own_start = launches.first().is_some_and(|first| first.kernel().notes_times());
    let own_end = launches.last().is_some_and(notes_end);
    if start != 0 && !own_start {
        stamp(stream, gpu, start)?;
    }
    for (at, launch) in launches.iter().enumerate() {
        let word = |is_it, word| if is_it { word } else { 0 };
        let start = word(own_start && at == 0, start);
        let end = word(own_end && at + 1 == launches.len(), end);
        launch_with(stream, launch, &Guard::noting(start, end), gpu.start_of(at))?;
    }
    if end != 0 && !own_end {
        stamp(stream, gpu, end)?;
    }
    Ok(())
}

/// Blocks don't tell each other that they have ended, so there must be one.
fn notes_end<V: Vendor>(launch: &Launch<Gpu<V>>) -> bool {
    launch.kernel().notes_times() && launch.blocks() == 1
}

/// Has the device set a word to its time when all before has ended.
fn stamp<V: Vendor>(stream: &Stream<V>, gpu: &Gpu<V>, word: u64) -> Result<()> {
    // SAFETY: the words are the parameters of the stamp kernel. The word is an event's, which the
    // queue or the graph retains until the launch has ended.
    unsafe { stream.launch_one(gpu.builtin().stamp, 1, [word, 0, 0]) }
}

#[cfg(test)]
mod tests {
    use crate::driver::event::Event;
    use crate::gpu::Gpu;
    use crate::hal::calls::Start;
    use crate::hal::fake::{Fake, Put};
    use crate::hal::options::Options;
    use crate::launch::graph::Graph;
    use crate::launch::queue::hardware_queue::Queue;
    use reef_core::{
        Args, Command, Device, Event as _, Fill, Launch, PreemptLevel, Priority, Queue as _, Seq,
    };

    /// Numbers of the fake's functions.
    const APPEND: u32 = 6;
    const THEIRS: u32 = 7;
    const STAMP: u32 = 1000;

    struct Bench {
        gpu: Gpu<Fake>,
        queue: Queue<Fake>,
        times: [Event<Fake>; 2],
    }

    impl Bench {
        fn new() -> Self {
            Self::on(Gpu::new(Fake::with_graphs(), Options::default()).unwrap())
        }

        fn on(gpu: Gpu<Fake>) -> Self {
            let queue = gpu.queue(Priority::RealTime, None).unwrap();
            let times = [gpu.event().unwrap(), gpu.event().unwrap()];
            gpu.vendor().puts.lock().clear();
            Self { gpu, queue, times }
        }

        fn append(&self, blocks: u32) -> Command<Gpu<Fake>> {
            self.launch(self.gpu.kernel("append").unwrap(), blocks)
        }

        fn theirs(&self) -> Command<Gpu<Fake>> {
            self.launch(self.gpu.load(&[0]).unwrap().kernel("theirs!").unwrap(), 1)
        }

        fn launch(&self, kernel: crate::Kernel<Fake>, blocks: u32) -> Command<Gpu<Fake>> {
            // SAFETY: the fake's blocks compute nothing.
            let launch =
                unsafe { Launch::new(kernel, [blocks, 1, 1], [32, 1, 1], Args::new(&[0; 3])) };
            Command::Launch(launch)
        }

        fn graph(&self, commands: &[Command<Gpu<Fake>>]) -> Command<Gpu<Fake>> {
            Command::Graph(Graph::new(&self.gpu, commands).unwrap())
        }

        /// Launches a command between both events.
        fn between(&mut self, seq: u64, command: &Command<Gpu<Fake>>) -> bool {
            let events = self.times.each_ref().map(Some);
            self.queue.launch_between(Seq(seq), command, events).unwrap()
        }

        fn puts(&self) -> Vec<Put> {
            std::mem::take(&mut *self.gpu.vendor().puts.lock())
        }

        fn ticks(&self) -> [Option<u64>; 2] {
            self.times.each_ref().map(Event::stamp)
        }

        fn completed(&mut self) -> Seq {
            self.queue.completed().unwrap()
        }
    }

    /// The second is the tick behind the first.
    fn follow([start, end]: [Option<u64>; 2]) -> bool {
        start.is_some_and(|start| end == Some(start + 1))
    }

    #[test]
    fn one_block_of_a_kernel_of_ours_is_one_launch_and_nothing_else() {
        let mut bench = Bench::new();
        let command = bench.append(1);
        assert!(bench.between(0, &command));
        assert_eq!(bench.completed(), Seq(1));
        assert_eq!(bench.puts(), [Put::Launch(APPEND, 1)]);
        assert!(follow(bench.ticks()), "{:?}", bench.ticks());
    }

    #[test]
    fn kernel_that_notes_no_times_gets_one_that_does() {
        let mut bench = Bench::new();
        let (many, theirs) = (bench.append(4), bench.theirs());
        assert!(bench.between(0, &many));
        assert_eq!(bench.puts(), [Put::Launch(APPEND, 4), Put::Launch(STAMP, 1)]);
        assert!(bench.between(1, &theirs));
        assert_eq!(bench.completed(), Seq(2));
        let stamp = Put::Launch(STAMP, 1);
        assert_eq!(bench.puts(), [stamp, Put::Launch(THEIRS, 1), stamp]);
        assert!(follow(bench.ticks()), "{:?}", bench.ticks());
    }

    #[test]
    fn a_graph_is_one_launch_of_the_driver_whatever_is_in_it() {
        let mut bench = Bench::new();
        let fill = Fill { buffer: bench.gpu.alloc(8).unwrap(), offset: 0, bytes: 8, word: 7 };
        for commands in [vec![Command::Fill(fill), bench.append(1)], vec![bench.theirs()]] {
            let graph = bench.graph(&commands);
            assert!(bench.between(0, &graph), "it is prepared");
            assert_eq!(bench.completed(), Seq(1));
            bench.puts();
            bench.queue.timeline.rewind(0);
            assert!(bench.between(0, &graph));
            assert_eq!(bench.completed(), Seq(1));
            assert!(matches!(bench.puts()[..], [Put::Graph(_)]));
            assert!(follow(bench.ticks()), "{:?}", bench.ticks());
        }
    }

    /// Starts of the launches of a graph of three kernels, the second of them a user's, on a queue
    /// of this class.
    fn starts(priority: Priority) -> Vec<Start> {
        let bench = Bench::on(Gpu::new(Fake::starting_early(), Options::default()).unwrap());
        let graph = bench.graph(&[bench.append(1), bench.theirs(), bench.append(1)]);
        let Command::Graph(graph) = graph else { unreachable!("made as one") };
        let preemptor = bench.gpu.preemptor(PreemptLevel::HostQueue).unwrap();
        let preemptor = (priority == Priority::BestEffort).then_some(&preemptor);
        let mut queue = bench.gpu.queue(priority, preemptor).unwrap();
        bench.gpu.vendor().starts.lock().clear();
        queue.launch_graph(Seq(0), &graph, None).unwrap();
        bench.gpu.vendor().starts.lock().clone()
    }

    #[test]
    fn following_kernels_of_a_graph_start_early() {
        for priority in [Priority::RealTime, Priority::BestEffort] {
            let early = [Start::InTurn, Start::InTurn, Start::Early];
            assert_eq!(starts(priority), early, "{priority:?}");
        }
    }

    #[test]
    fn guarded_launches_start_early_only_within_a_graph() {
        let bench = Bench::on(Gpu::new(Fake::starting_early(), Options::default()).unwrap());
        let Command::Graph(graph) = bench.graph(&[bench.append(1), bench.append(2)]) else {
            unreachable!("made as one")
        };
        let preemptor = bench.gpu.preemptor(PreemptLevel::All).unwrap();
        let mut queue = bench.gpu.queue(Priority::BestEffort, Some(&preemptor)).unwrap();
        for (seq, second) in [Start::InTurn, Start::Early].into_iter().enumerate() {
            bench.gpu.vendor().starts.lock().clear();
            queue.launch_graph(Seq(seq as u64), &graph, None).unwrap();
            let starts = bench.gpu.vendor().starts.lock().clone();
            assert_eq!(starts[..2], [Start::InTurn, second], "run {seq}");
        }
    }

    #[test]
    fn a_graph_whose_run_is_on_its_way_does_not_note_another() {
        let mut bench = Bench::new();
        let graph = bench.graph(&[bench.append(1)]);
        bench.gpu.vendor().slow_down();
        assert!(bench.between(0, &graph));
        assert!(!bench.between(1, &graph), "its words are still to be set, and read");
        bench.gpu.vendor().proceed(1);
        assert_eq!((bench.completed(), bench.ticks()), (Seq(0), [None; 2]), "it has begun");
        bench.gpu.vendor().proceed(1);
        assert!(!bench.between(1, &graph), "they are still to be read");
        assert_eq!(bench.completed(), Seq(1));
        assert!(follow(bench.ticks()), "{:?}", bench.ticks());
        assert!(bench.between(1, &graph));
    }

    #[test]
    fn positions_go_on_between_launches_that_note_and_others() {
        let mut bench = Bench::new();
        let command = bench.append(1);
        let Command::Launch(launch) = &command else { unreachable!("made as one") };
        for seq in [0, 4] {
            assert!(bench.between(seq, &command));
            assert_eq!(bench.completed(), Seq(seq + 1));
            bench.queue.launch(Seq(seq + 1), launch, None).unwrap();
            assert_eq!(bench.completed(), Seq(seq + 2));
            bench.queue.record(Seq(seq + 2), &bench.times[0]).unwrap();
            assert!(bench.between(seq + 3, &command));
            assert_eq!(bench.completed(), Seq(seq + 4));
        }
    }

    #[test]
    fn nothing_has_completed_before_the_end_is_noted() {
        let mut bench = Bench::new();
        let command = bench.append(1);
        bench.gpu.vendor().slow_down();
        assert!(bench.between(0, &command));
        bench.times = [bench.gpu.event().unwrap(), bench.gpu.event().unwrap()];
        let theirs = bench.theirs();
        assert!(bench.between(1, &theirs));
        let reached = |bench: &mut Bench| {
            bench.gpu.vendor().proceed(1);
            bench.completed().0
        };
        assert_eq!([(); 4].map(|()| reached(&mut bench)), [0, 1, 1, 2]);
        assert!(bench.times[1].reached().is_some());
    }

    #[test]
    fn a_queue_that_can_be_stopped_leaves_it_to_records() {
        let mut bench = Bench::new();
        let preemptor = bench.gpu.preemptor(PreemptLevel::All).unwrap();
        bench.queue = bench.gpu.queue(Priority::BestEffort, Some(&preemptor)).unwrap();
        bench.puts();
        let command = bench.append(1);
        assert!(!bench.between(0, &command));
        assert_eq!(bench.puts(), []);
    }
}
