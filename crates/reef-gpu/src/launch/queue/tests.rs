//! Queues of the fake driver: what is stopped, capped, captured.

use crate::gpu::Gpu;
use crate::hal::fake::{Fake, Put};
use crate::hal::options::Options;
use crate::launch::queue::hardware_queue::Queue;
use crate::preempt::preemptor::Preemptor;
use reef_core::scheduler::Reef;
use reef_core::{
    Args, Command, Copy, Device, Dispatcher, Drained, Error, Fill, Launch, PreemptLevel,
    Preemptor as _, Priority, Queue as _, Seq, Task,
};

/// A device on which no block ends before an eviction, and a queue at this level.
fn hurried(level: PreemptLevel) -> (Gpu<Fake>, Preemptor<Fake>, Queue<Fake>) {
    let gpu = Gpu::new(Fake::default(), Options::default()).unwrap();
    let preemptor = gpu.preemptor(level).unwrap();
    let queue = gpu.queue(Priority::BestEffort, Some(&preemptor)).unwrap();
    gpu.vendor().hurry();
    (gpu, preemptor, queue)
}

fn launch_of(gpu: &Gpu<Fake>, blocks: u32) -> Launch<Gpu<Fake>> {
    let kernel = gpu.kernel("append").unwrap();
    // SAFETY: the fake's blocks compute nothing.
    unsafe { Launch::new(kernel, [blocks, 1, 1], [32, 1, 1], Args::new(&[0; 3])) }
}

/// Evicts the queue, drains it, and lets it go on.
fn preempt(preemptor: &Preemptor<Fake>, queue: &mut Queue<Fake>) -> Drained<Gpu<Fake>> {
    preemptor.evict().unwrap();
    let drained = queue.try_drain().unwrap().expect("the fake reports at once");
    preemptor.reactivate().unwrap();
    drained
}

/// Launches what `launch` does and preempts it until it has completed: how often that was.
fn preemptions_until_done(
    preemptor: &Preemptor<Fake>,
    queue: &mut Queue<Fake>,
    launch: impl Fn(&mut Queue<Fake>, Option<&crate::Checkpoint<Fake>>),
) -> u32 {
    let mut partial = None;
    for preemptions in 0..10 {
        launch(queue, partial.as_ref());
        let drained = preempt(preemptor, queue);
        if drained.resume_at == Seq(1) {
            return preemptions;
        }
        partial = drained.partial;
    }
    panic!("it was preempted again and again and never ended");
}

fn sorted(gpu: &Gpu<Fake>) -> Vec<u32> {
    let mut ran = gpu.vendor().ran.lock().clone();
    ran.sort_unstable();
    ran
}

#[test]
fn a_kernel_of_one_wave_is_stopped_twice_and_then_runs_through() {
    let (gpu, preemptor, mut queue) = hurried(PreemptLevel::All);
    let launch = launch_of(&gpu, 4);
    let count = preemptions_until_done(&preemptor, &mut queue, |queue, partial| {
        queue.launch(Seq(0), &launch, partial).unwrap();
    });
    assert_eq!((count, sorted(&gpu)), (2, vec![0, 1, 2, 3]));
}

#[test]
fn graph_kernels_are_stopped_twice_each_and_then_run_through() {
    let (gpu, preemptor, mut queue) = hurried(PreemptLevel::All);
    let commands = [3, 2].map(|blocks| Command::Launch(launch_of(&gpu, blocks)));
    let graph = crate::Graph::new(&gpu, &commands).unwrap();
    let count = preemptions_until_done(&preemptor, &mut queue, |queue, partial| {
        let partial = partial.cloned().unwrap_or_else(|| graph.all()); // the fake captures nothing
        queue.launch_graph(Seq(0), &graph, Some(&partial)).unwrap();
    });
    assert_eq!((count, sorted(&gpu)), (4, vec![0, 0, 1, 1, 2]));
}

#[test]
fn a_kernel_whose_running_blocks_do_not_stop_is_launched_anew() {
    let (gpu, preemptor, mut queue) = hurried(PreemptLevel::DeviceQueue);
    preemptor.evict().unwrap();
    queue.launch(Seq(0), &launch_of(&gpu, 4), None).unwrap();
    let drained = preempt(&preemptor, &mut queue);
    assert_eq!(drained.resume_at, Seq(0));
    assert!(drained.partial.is_none(), "there are no stops to keep");
    assert_eq!(sorted(&gpu), []);
}

#[test]
fn memory_of_another_device_is_refused() {
    let [gpu, other] = [(); 2].map(|()| Gpu::new(Fake::default(), Options::default()).unwrap());
    let mut queue = gpu.queue(Priority::BestEffort, None).unwrap();
    let [own, theirs] = [&gpu, &other].map(|gpu| gpu.alloc(8).unwrap());
    for (from, to) in [(&own, &theirs), (&theirs, &own)] {
        let (from, to) = (from.clone(), to.clone());
        let copy = Copy { from, from_offset: 0, to, to_offset: 0, bytes: 8, to_host: false };
        let error = queue.copy(Seq(0), &copy).unwrap_err();
        assert!(error.to_string().ends_with("got one of another device"), "{error}");
    }
    let mut fill = |buffer| queue.fill(Seq(0), &Fill { buffer, offset: 0, bytes: 8, word: 1 });
    assert!(matches!(fill(theirs), Err(Error::Invalid(_))));
    assert_eq!(fill(other.alloc_host(8).unwrap()), Ok(()), "the host's is all devices'");
}

#[test]
fn nothing_is_launched_behind_a_report_that_has_not_been_read() {
    let gpu = Gpu::new(Fake::default(), Options::default()).unwrap();
    let preemptor = gpu.preemptor(PreemptLevel::All).unwrap();
    let mut queue = gpu.queue(Priority::BestEffort, Some(&preemptor)).unwrap();
    gpu.vendor().slow_down();
    let launch = launch_of(&gpu, 4);
    queue.launch(Seq(0), &launch, None).unwrap();
    preemptor.evict().unwrap();
    queue.launch(Seq(1), &launch, None).unwrap(); // the queue isn't held yet
    assert!(queue.try_drain().unwrap().is_none());
    let refused = queue.launch(Seq(2), &launch, None).unwrap_err();
    assert!(matches!(refused, Error::State { .. }), "{refused}");
    while queue.try_drain().unwrap().is_none() {
        gpu.vendor().proceed(1);
    }
    preemptor.reactivate().unwrap();
    queue.launch(Seq(2), &launch, None).unwrap();
}

fn grids(gpu: &Gpu<Fake>) -> Vec<u32> {
    let puts = gpu.vendor().puts.lock();
    puts.iter()
        .filter_map(|put| if let Put::Launch(6, grid) = put { Some(*grid) } else { None })
        .collect()
}

#[test]
fn blocks_take_turns_on_a_capped_queue() {
    let gpu = Gpu::new(Fake::default(), Options::default()).unwrap();
    let preemptor = gpu.preemptor(PreemptLevel::All).unwrap();
    let mut queue = gpu.queue(Priority::BestEffort, Some(&preemptor)).unwrap();
    queue.cap_blocks(Some(3));
    queue.launch(Seq(0), &launch_of(&gpu, 11), None).unwrap();
    queue.launch(Seq(1), &launch_of(&gpu, 2), None).unwrap();
    assert_eq!(grids(&gpu), [3, 2], "one launch each");
    assert_eq!(sorted(&gpu), [0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
}

#[test]
fn blocks_without_a_turn_are_left_by_an_eviction() {
    let (gpu, preemptor, mut queue) = hurried(PreemptLevel::All);
    queue.cap_blocks(Some(3));
    let launch = launch_of(&gpu, 11);
    let mut partial = None;
    for _ in 0..20 {
        queue.launch(Seq(0), &launch, partial.as_ref()).unwrap();
        let drained = preempt(&preemptor, &mut queue);
        partial = drained.partial;
        if drained.resume_at == Seq(1) {
            break;
        }
    }
    assert!(grids(&gpu).len() > 3, "it was preempted: {:?}", grids(&gpu));
    assert_eq!(sorted(&gpu), (0..11).collect::<Vec<_>>(), "each block once");
}

#[test]
fn blocks_of_kernels_of_others_take_no_turns() {
    let gpu = Gpu::new(Fake::default(), Options::default()).unwrap();
    let preemptor = gpu.preemptor(PreemptLevel::All).unwrap();
    let mut queue = gpu.queue(Priority::BestEffort, Some(&preemptor)).unwrap();
    queue.cap_blocks(Some(3));
    let kernel = gpu.compile("").unwrap().kernel("theirs").unwrap();
    // SAFETY: the fake's blocks compute nothing.
    let launch = unsafe { Launch::new(kernel, [8, 1, 1], [32, 1, 1], Args::new(&[])) };
    queue.launch(Seq(0), &launch, None).unwrap();
    assert_eq!(grids(&gpu), [3, 3, 2]);
    assert_eq!(sorted(&gpu), (0..8).collect::<Vec<_>>());
}

/// A client that gets a kernel and a queue, runs a graph once, and leaves.
fn come_and_go(gpu: &Gpu<Fake>, preemptor: &Preemptor<Fake>) {
    let graph = crate::Graph::new(gpu, &[Command::Launch(network_launch(gpu))]).unwrap();
    let mut queue = gpu.queue(Priority::BestEffort, Some(preemptor)).unwrap();
    queue.launch_graph(Seq(0), &graph, None).unwrap();
    while queue.completed().unwrap() == Seq(0) {}
}

fn network_launch(gpu: &Gpu<Fake>) -> Launch<Gpu<Fake>> {
    let kernel = gpu.network_kernel("conv_any_f32", 0, &[0]).unwrap();
    // SAFETY: the fake's blocks compute nothing.
    unsafe { Launch::new(kernel, [4, 1, 1], [32, 1, 1], Args::default()) }
}

#[test]
fn later_queue_makes_no_slow_call_of_the_driver() {
    let gpu = Gpu::new(Fake::with_graphs(), Options::default()).unwrap();
    let preemptor = gpu.preemptor(PreemptLevel::All).unwrap();
    let calls = || gpu.vendor().slow_calls.load(std::sync::atomic::Ordering::Relaxed);
    let before = calls();
    come_and_go(&gpu, &preemptor);
    let first = calls();
    assert!(first > before, "the first opens a stream and looks kernels up");
    (0..10).for_each(|_| come_and_go(&gpu, &preemptor));
    assert_eq!(calls(), first);
}

#[test]
fn a_graph_is_captured_when_a_best_effort_queue_runs_it_again() {
    let gpu = Gpu::new(Fake::with_graphs(), Options::default()).unwrap();
    let preemptor = gpu.preemptor(PreemptLevel::All).unwrap();
    let graph = crate::Graph::new(&gpu, &[Command::Launch(network_launch(&gpu))]).unwrap();
    let mut queue = gpu.queue(Priority::BestEffort, Some(&preemptor)).unwrap();
    let (captured, captures) = std::sync::mpsc::channel();
    gpu.vendor().at_next_capture(move || captured.send(()).unwrap());
    queue.launch_graph(Seq(0), &graph, None).unwrap();
    assert!(captures.try_recv().is_err());
    queue.launch_graph(Seq(1), &graph, None).unwrap();
    assert_eq!(captures.try_recv(), Ok(()));
}

#[test]
fn capped_queue_runs_narrow_graphs_as_graphs() {
    let gpu = Gpu::new(Fake::with_graphs(), Options::default()).unwrap();
    let preemptor = gpu.preemptor(PreemptLevel::All).unwrap();
    let graph = crate::Graph::new(&gpu, &[Command::Launch(network_launch(&gpu))]).unwrap();
    let mut queue = gpu.queue(Priority::BestEffort, Some(&preemptor)).unwrap();
    (0..2).for_each(|seq| queue.launch_graph(Seq(seq), &graph, None).unwrap());
    let mut graphs_with = |cap| {
        gpu.vendor().puts.lock().clear();
        queue.cap_blocks(Some(cap));
        queue.launch_graph(Seq(u64::from(cap)), &graph, None).unwrap();
        gpu.vendor().puts.lock().iter().filter(|put| matches!(put, Put::Graph(_))).count()
    };
    assert_eq!([graphs_with(3), graphs_with(4)], [0, 1], "of four blocks");
}

/// The device records the end of a task whose first command it refused, and no start: that event
/// has no time at first, and then that of the client's task before.
#[test]
fn refused_task_is_not_charged_for_the_time_before_it() {
    let gpu = Gpu::new(Fake::default(), Options::default()).unwrap();
    let dispatcher = Dispatcher::start(&gpu, Reef::default()).unwrap();
    let [from, to] = [(); 2].map(|()| gpu.alloc(8).unwrap());
    let copy = |to_offset| {
        let (from, to) = (from.clone(), to.clone());
        let copy = Copy { from, from_offset: 0, to, to_offset, bytes: 8, to_host: false };
        Task::new(vec![Command::Copy(copy)]).unwrap()
    };
    let mut client = dispatcher.real_time().unwrap();
    // The fake's clock ticks when it is looked at, so its ends have places before submissions.
    for tasks in [1, 3] {
        let before = client.account().usage().served;
        let error = client.run(&copy(4)).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error}");
        let usage = client.account().usage();
        assert_eq!((usage.tasks, usage.served), (tasks, before));
        client.run(&copy(0)).unwrap();
    }
}

mod lag;
mod padded;
mod stopped_graphs;
