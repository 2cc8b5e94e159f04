//! A kernel that faults takes the device's context with it: every waiting thread gets an error, and
//! the process lives. Alone in its file because nothing works in this process's context afterwards.

use reef_core::scheduler::Reef;
use reef_core::{Args, ClientConfig, Command, Device, Dispatcher, Error, Launch, Seq, Task};
use reef_cuda::Cuda;
use std::time::{Duration, Instant};

#[test]
fn lost_device_is_reported_to_all() {
    let Some(device) = reef_conformance::open::<Cuda>(0, "") else { return };
    let cells = device.alloc(8 * 64).unwrap();
    let append = |address: u64, rounds: u64| {
        let args = Args::new(&[address, 1, rounds]);
        let kernel = device.kernel("append").unwrap();
        // SAFETY: `append` takes these; where the address is wrong, that is the point.
        Command::Launch(unsafe { Launch::new(kernel, [64, 1, 1], [32, 1, 1], args) })
    };
    let dispatcher = Dispatcher::start(&device, Reef::default()).unwrap();
    let mut good = dispatcher.best_effort(ClientConfig::default()).unwrap();
    let mut bad = dispatcher.best_effort(ClientConfig::default()).unwrap();
    let mut real_time = dispatcher.real_time().unwrap();
    let task = Task::new([append(device.address(&cells), 100)]).unwrap();
    real_time.run(&task).unwrap();

    let start = Instant::now();
    good.submit(&vec![append(device.address(&cells), 1000); 50]).unwrap();
    let last = bad.submit(&[append(8, 0)]).unwrap();
    let lost = |error: &Error| matches!(error, Error::DeviceLost { .. });
    let error = bad.wait(last).unwrap_err();
    assert!(lost(&error), "the client whose kernel faulted: {error}");
    let error = good.wait(Seq(49)).unwrap_err();
    assert!(lost(&error), "a neighbour: {error}");
    let error = real_time.run(&task).unwrap_err();
    assert!(lost(&error), "a real-time client: {error}");
    println!("all heard within {:?}: {error}", start.elapsed());
    assert!(start.elapsed() < Duration::from_secs(60));
    assert!(lost(&device.alloc(64).unwrap_err()), "nor is there memory");
    drop((good, bad, real_time));
    drop(dispatcher); // hangs nowhere
}
