//! Times that real-time tasks report.

use crate::run::skip;
use crate::subject::Cells;
use reef_core::scheduler::Reef;
use reef_core::{Command, Copy, Device, Dispatcher, Error, Fill, PreemptLevel, Task, Timing};
use std::time::Duration;

/// Tasks of all kinds begin when the one before has ended, and take their time.
pub fn tasks_note_when_they_begin_and_end<D: Device>(device: &D, level: PreemptLevel) {
    let scheduler = Box::new(Reef::default().level(level));
    let dispatcher = Dispatcher::start(device, scheduler).unwrap();
    let cells = [1, 5].map(|blocks| Cells::new(device, blocks));
    let mut client = dispatcher.real_time().unwrap();
    let tasks: Vec<_> = kinds(device, &cells).into_iter().map(|c| Task::new(c).unwrap()).collect();
    for _ in 0..3 {
        // Each three times in flight, so that nothing may be noted where another's times are still
        // to be read.
        let in_flight = tasks.iter().flat_map(|task| [task; 3]);
        let tickets: Vec<_> = in_flight.map(|task| client.submit(task).unwrap()).collect();
        let mut last = Duration::ZERO;
        for (at, ticket) in tickets.into_iter().enumerate() {
            let timing: Timing = ticket.wait().unwrap();
            let (began, what) = (timing.submitted + timing.delay, format!("kind {}", at / 3));
            assert!(began >= last, "{what} began at {began:?}, the one before ended at {last:?}");
            assert!(timing.device > Duration::ZERO, "{what}: {timing:?}");
            last = began + timing.device;
        }
    }
}

/// Tasks that last: kernels of one block and of several, between other commands or not, and in
/// graphs.
fn kinds<D: Device>(device: &D, cells: &[Cells<D>; 2]) -> Vec<Vec<Command<D>>> {
    let [one, many] = cells.each_ref().map(|cells| cells.append(1, 100));
    let other = device.alloc(64).unwrap();
    let copy = Command::Copy(Copy {
        from: cells[1].buffer().clone(),
        from_offset: 0,
        to: other.clone(),
        to_offset: 0,
        bytes: 8,
        to_host: false,
    });
    let fill = Command::Fill(Fill { buffer: other, offset: 8, bytes: 8, word: 7 });
    let mut kinds = vec![
        vec![one.clone()],
        vec![many.clone()],
        vec![fill.clone(), one.clone()],
        vec![many.clone(), copy.clone()],
        vec![fill.clone(), many.clone(), copy.clone()],
    ];
    let graphs = kinds.iter().map(|kind| device.graph(kind).map(Command::Graph));
    match graphs.collect::<Result<Vec<_>, _>>() {
        Ok(graphs) => {
            kinds.push(vec![graphs[0].clone(), fill, graphs[4].clone()]);
            kinds.extend(graphs.into_iter().map(|graph| vec![graph]));
        }
        Err(Error::Unsupported { .. }) => skip(&format!("{} has no graphs", D::NAME)),
        Err(error) => panic!("{error}"),
    }
    kinds
}
