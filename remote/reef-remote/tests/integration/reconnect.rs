//! Sessions of devices whose line breaks after each number of bytes.

use crate::support;
use reef_core::scheduler::Reef;
use reef_core::{Cells, ClientConfig, Device, Dispatcher, appended};
use reef_remote::Remote;
use std::time::Duration;

/// Longer than all of these sessions take on a busy machine.
const LIMIT: Duration = Duration::from_secs(600);

/// Appends numbers to cells, by commands that each wait for an answer and by some that don't.
fn append(device: &str, cut_after: u64) {
    let device = format!("{device}?remote.emulate=cut:{cut_after}");
    let device = Remote::open(0, &device).unwrap();
    let dispatcher = Dispatcher::start(&device, Reef::default()).unwrap();
    let cells = Cells::new(&device, 3).unwrap();
    let mut client = dispatcher.best_effort(ClientConfig::default()).unwrap();
    for value in 1..=4 {
        client.run(&[cells.append(value, 0)]).unwrap();
    }
    let submitted: Vec<_> =
        (5..=12).map(|value| client.submit(&[cells.append(value, 0)]).unwrap()).collect();
    client.wait(submitted[submitted.len() - 1]).unwrap();
    assert_eq!(cells.read().unwrap(), [appended(1..=12); 3], "cut after {cut_after} bytes");
}

/// Each connection of a session breaks after a number of bytes, of both directions.
#[test]
fn own_session_cut_again_and_again_runs_each_block_once() {
    let served = support::own_torn();
    let (device, (end, ended)) = (served.device(), std::sync::mpsc::channel());
    std::thread::spawn(move || {
        for cut_after in (700..1300).step_by(7) {
            append(&device, cut_after);
        }
        end.send(())
    });
    ended.recv_timeout(LIMIT).expect("all sessions have ended");
}
