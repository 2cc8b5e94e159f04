//! Bad input is an error of the queue that it came in by, and of no other queue.

use crate::subject::{Cells, expect_finished};
use reef_core::scheduler::Reef;
use reef_core::{
    Command, Config, Copy, Device, Dispatcher, Error, PreemptLevel, Task, VirtualQueue,
};
use std::sync::Arc;

fn enable<D: Device>(
    device: &D,
    level: PreemptLevel,
) -> (reef_core::Submitter<D>, VirtualQueue<D>) {
    VirtualQueue::enable(device, Config::default().level(level).capacity(8)).unwrap()
}

pub fn a_full_queue_gives_the_command_back<D: Device>(device: &D, level: PreemptLevel) {
    let (mut submitter, queue) = enable(device, level);
    let cells = Cells::new(device, 2);
    queue.preempt(true).unwrap();
    for value in 0..8 {
        submitter.submit(cells.append(value, 0)).unwrap();
    }
    let back = submitter.submit(cells.append(8, 0)).unwrap_err();
    queue.restore().unwrap();
    submitter.submit_blocking(back).unwrap();
    queue.finish().unwrap();
    cells.expect(0..9);
}

pub fn a_copy_out_of_bounds_ends_its_queue_alone<D: Device>(device: &D, level: PreemptLevel) {
    let (mut bad, bad_queue) = enable(device, level);
    let (mut good, good_queue) = enable(device, level);
    let cells = Cells::new(device, 2);
    let (from, to) = (cells.buffer().clone(), cells.buffer().clone());
    let copy = Copy { from, from_offset: 8, to, to_offset: 0, bytes: 9, to_host: false };
    bad.submit(Command::Copy(copy)).unwrap();
    let after = bad.submit(cells.append(1, 0)).unwrap();
    let error = bad.wait(after).unwrap_err();
    assert!(matches!(error, Error::Invalid(_)), "{error}");
    assert!(bad_queue.finish().is_err());

    let last = good.submit(cells.append(4, 0)).unwrap();
    good.wait(last).unwrap();
    cells.expect([4]);
    good_queue.finish().unwrap();
    assert!(device.read(cells.buffer(), 9, &mut [0; 8]).is_err());
    assert!(device.write(cells.buffer(), usize::MAX, &[0; 8]).is_err());
}

/// A real-time task of which one command is refused fails when those before it have ended, not
/// earlier: its memory is in use until then. The next one runs.
pub fn a_task_refused_midway_ends_first<D: Device>(device: &D, level: PreemptLevel) {
    let dispatcher = Dispatcher::start(device, Reef::default().level(level)).unwrap();
    let mut client = dispatcher.real_time().unwrap();
    let cells = Cells::new(device, 2);
    let (from, to) = (cells.buffer().clone(), cells.buffer().clone());
    let bad = Copy { from, from_offset: 8, to, to_offset: 0, bytes: 9, to_host: false };
    let task = Task::new([cells.append(1, 3000), Command::Copy(bad), cells.append(2, 0)]).unwrap();
    for n in 1..4 {
        let error = client.run(&task).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error}");
        cells.expect((0..n).map(|_| 1));
    }
    client.run(&Task::new([cells.append(5, 0)]).unwrap()).unwrap();
    cells.expect([1, 1, 1, 5]);
    expect_finished(&dispatcher, 1);
}

pub fn a_failing_host_function_ends_its_queue_alone<D: Device>(device: &D, level: PreemptLevel) {
    let (mut submitter, queue) = enable(device, level);
    let bad = submitter.submit(Command::Host(Arc::new(|| panic!("on purpose")))).unwrap();
    assert!(matches!(submitter.wait(bad), Err(Error::State { .. })));
    queue.preempt(true).unwrap(); // a queue that ended delays no preemption
    queue.restore().unwrap();
    assert!(queue.finish().is_err());
}

pub fn sizes_that_contradict_are_refused<D: Device>(device: &D, level: PreemptLevel) {
    let good = Config::default().level(level);
    for config in [good.capacity(0), good.capacity(3), good.window(0), good.window(u64::MAX)] {
        let error = VirtualQueue::enable(device, config).map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{config:?}: {error}");
    }
}
