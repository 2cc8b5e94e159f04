//! Queues that are not drained when others go on.

use super::{launch_of, sorted};
use crate::gpu::Gpu;
use crate::hal::fake::Fake;
use crate::hal::options::Options;
use crate::launch::queue::hardware_queue::Queue;
use crate::preempt::preemptor::Preemptor;
use reef_core::{Device, Error, PreemptLevel, Preemptor as _, Priority, Queue as _, Seq};
/// Two queues of a preemptor; the first has a void launch whose report has been asked for and is
/// not there.
fn next_to_a_laggard() -> (Gpu<Fake>, Preemptor<Fake>, [Queue<Fake>; 2]) {
    let gpu = Gpu::new(Fake::default(), Options::default()).unwrap();
    let preemptor = gpu.preemptor(PreemptLevel::All).unwrap();
    let mut queues = [(); 2].map(|()| gpu.queue(Priority::BestEffort, Some(&preemptor)).unwrap());
    preemptor.evict().unwrap();
    gpu.vendor().slow_down();
    queues[0].launch(Seq(0), &launch_of(&gpu, 4), None).unwrap(); // it isn't held yet
    assert!(queues[0].try_drain().unwrap().is_none(), "the report is on its way");
    (gpu, preemptor, queues)
}

#[test]
fn queue_that_lags_stays_void_while_others_launch() {
    let (gpu, preemptor, [mut late, mut other]) = next_to_a_laggard();
    let drained = other.try_drain().unwrap().expect("it has nothing");
    assert_eq!((drained.resume_at, drained.held), (Seq(0), false));
    for round in 0..3 {
        preemptor.reactivate().unwrap();
        assert_eq!(late.completed(), Ok(Seq(0)), "the end of a void launch is none");
        assert!(late.try_drain().unwrap().is_none());
        assert!(matches!(late.launch(Seq(1), &launch_of(&gpu, 1), None), Err(Error::State { .. })));
        other.launch(Seq(round), &launch_of(&gpu, 1), None).unwrap();
        assert_eq!(sorted(&gpu).len() as u64, round + 1, "the other's alone");
        while other.completed().unwrap() <= Seq(round) {
            gpu.vendor().proceed_behind_first();
        }
        preemptor.evict().unwrap();
        gpu.vendor().proceed_behind_first();
    }
    preemptor.reactivate().unwrap();
    gpu.vendor().proceed(1);
    let drained = late.try_drain().unwrap().expect("the report is there");
    assert_eq!(drained.resume_at, Seq(0));
    late.launch(Seq(0), &launch_of(&gpu, 4), None).unwrap();
    assert_eq!(sorted(&gpu), [0, 0, 0, 0, 1, 2, 3], "each block once");
    while late.completed().unwrap() < Seq(1) {
        gpu.vendor().proceed(1);
    }
}

#[test]
fn queue_that_is_abandoned_is_not_waited_for() {
    let (gpu, preemptor, [mut late, mut other]) = next_to_a_laggard();
    preemptor.reactivate().unwrap();
    late.abandon();
    let waits = || gpu.vendor().waited.load(std::sync::atomic::Ordering::Relaxed);
    let before = waits();
    drop(late);
    assert_eq!(waits(), before);
    other.launch(Seq(0), &launch_of(&gpu, 1), None).unwrap();
    assert_eq!(sorted(&gpu), [0]);
}
