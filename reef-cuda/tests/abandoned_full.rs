//! A kernel that fills the device and doesn't stop any more costs its own queue, at the deepest
//! level. Alone in its file because nothing else runs on the device until that kernel ends by
//! itself.

use reef_core::{Cells, Config, Device, Error, PreemptLevel, VirtualQueue};
use reef_cuda::Cuda;
use std::time::{Duration, Instant};

/// Timeout that the device was opened with.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Rounds of a block, each of about a microsecond: longer than every wait here.
const ROUNDS: u64 = 30_000_000;
/// Blocks of 32 threads that every unit has places for, and more.
const BLOCKS_A_UNIT: u32 = 64;
/// Longest that calls take which wait for no kernel.
const SOON: Duration = Duration::from_secs(10);

#[test]
fn kernel_that_fills_the_device_is_abandoned_at_level_all() {
    let Some(device) = reef_conformance::open::<Cuda>(0, "timeout=1") else { return };
    let cells = Cells::new(&device, device.info().units * BLOCKS_A_UNIT).unwrap();
    let config = Config::default().level(PreemptLevel::All).window(2);
    let (mut submitter, queue) = VirtualQueue::enable(&device, config).unwrap();
    let warm = submitter.submit(cells.append(1, 0)).unwrap();
    submitter.wait(warm).unwrap();
    let endless = submitter.submit(cells.append(1, ROUNDS)).unwrap();
    let behind = submitter.submit(cells.append(1, 0)).unwrap();
    // Blocks that were stopped twice run through.
    for _ in 0..2 {
        std::thread::sleep(Duration::from_millis(50)); // sleep: so that its blocks run
        queue.preempt(true).unwrap();
        queue.restore().unwrap();
    }
    std::thread::sleep(Duration::from_millis(50)); // sleep: so that its blocks run
    let start = Instant::now();
    queue.preempt(false).unwrap();
    assert!(start.elapsed() < SOON, "to stop it waits: {:?}", start.elapsed());
    let lost = submitter.wait(endless).unwrap_err();
    println!("abandoned after {:?}: {lost}", start.elapsed());
    assert!(matches!(&lost, Error::DeviceLost { why, .. } if why.contains("abandoned")), "{lost}");
    // The watchdog counts from when it last saw something end, which was before this clock began.
    assert!((TIMEOUT / 2..SOON).contains(&start.elapsed()), "{:?}", start.elapsed());
    assert_eq!(submitter.wait(behind), Err(lost));
    let start = Instant::now();
    drop((queue, submitter, cells, device));
    assert!(start.elapsed() < SOON, "dropping all waits for the kernel: {:?}", start.elapsed());
}
