//! Kernels of others behind gates. Alone in its file: a driver call that waits for the whole device, such as
//! another test's first launch, opens the gates of everybody in the process.

use reef_core::{Args, Command, Config, Device, Launch, PreemptLevel, VirtualQueue};
use reef_cuda::Cuda;
use std::time::Duration;

/// Adds its second parameter, 4 bytes, to the word at its first; for any GPU since 2014.
const PTX: &str = "//
.version 6.0
.target sm_50
.address_size 64
.visible .entry bump(.param .u64 word, .param .u32 by)
{
    .reg .u64 %rd<3>;
    .reg .u32 %r<4>;
    ld.param.u64 %rd1, [word];
    ld.param.u32 %r1, [by];
    ld.global.u32 %r2, [%rd1];
    add.u32 %r3, %r1, %r2;
    st.global.u32 [%rd1], %r3;
    ret;
}
";

#[test]
fn gates_hold_back_kernels_without_a_guard() {
    let device = match Cuda::open(0, "gates=4") {
        Ok(device) => device,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    let bump = device.load(PTX.as_bytes()).unwrap().kernel("bump").unwrap();
    let word = device.alloc(4).unwrap();
    let args = Args::new(&[device.address(&word), 1]);
    // SAFETY: what the source takes.
    let launch = unsafe { Launch::new(bump, [1; 3], [32, 1, 1], args) };
    let config = Config { level: PreemptLevel::DeviceQueue, window: 64, ..Config::default() };
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
