//! Kernels of others behind gates. Alone in its file: a driver call that waits for the whole
//! device, such as another test's first launch, opens the gates of everybody in the process.

use reef_core::{Args, Command, Config, Device, Launch, PreemptLevel, VirtualQueue};
use reef_cuda::Cuda;
use std::time::Duration;

/// Adds its second parameter, 4 bytes, to the word at its first; for any GPU since 2014.
const PTX: &str = include_str!("bump.ptx");

#[test]
fn gates_hold_back_kernels_without_a_guard() {
    let Some(device) = reef_conformance::open::<Cuda>(0, "gates=4") else { return };
    let bump = device.load(PTX.as_bytes()).unwrap().kernel("bump").unwrap();
    let word = device.alloc(4).unwrap();
    let args = Args::new(&[device.address(&word), 1]);
    // SAFETY: what the source takes.
    let launch = unsafe { Launch::new(bump, [1; 3], [32, 1, 1], args) };
    let config = Config::default().level(PreemptLevel::DeviceQueue).window(64);
    let (mut submitter, queue) = VirtualQueue::enable(&device, config).unwrap();
    for round in 0..200u32 {
        for _ in 0..50 {
            submitter.submit_blocking(Command::Launch(launch.clone())).unwrap();
        }
        queue.preempt(true).unwrap();
        let count = || {
            let mut bytes = [0; 4];
            device.read(&word, 0, &mut bytes).unwrap();
            u32::from_ne_bytes(bytes)
        };
        let before = count();
        // sleep: time in which a fault would show; none fails a right device
        std::thread::sleep(Duration::from_micros(200));
        assert_eq!(before, count(), "round {round}");
        queue.restore().unwrap();
    }
    assert_eq!(queue.rerun(), 0, "nothing is launched twice");
    queue.finish().unwrap();
    let mut bytes = [0; 4];
    device.read(&word, 0, &mut bytes).unwrap();
    assert_eq!(u32::from_ne_bytes(bytes), 10_000);
}
