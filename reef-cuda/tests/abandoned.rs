//! A kernel that never answers costs its own queue, and is waited for by nothing else. Alone in its
//! file because the device is left with it.

use reef_core::{Args, Command, Config, Device, Error, Launch, Priority, Queue as _, Seq};
use reef_core::{PreemptLevel, VirtualQueue};
use reef_cuda::{Buffer, Cuda};
use std::time::{Duration, Instant};

/// Waits until the word at its parameter is not 0; for any GPU since 2014.
const PTX: &str = include_str!("deaf.ptx");
/// Timeout that the device was opened with.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Result of 20 launches on a zero, in a queue of this class.
fn count(device: &Cuda, class: Priority) -> u64 {
    let cells = device.alloc(8).unwrap();
    let append = device.kernel("append").unwrap();
    // SAFETY: what `append` takes.
    let launch =
        unsafe { Launch::new(append, [1; 3], [32, 1, 1], Args::new(&[cells.address(), 1, 0])) };
    let mut queue = device.queue(class, None).unwrap();
    for seq in 0..20 {
        queue.launch(Seq(seq), &launch, None).unwrap();
    }
    while queue.completed().unwrap() < Seq(20) {
        std::thread::yield_now();
    }
    let mut bytes = [0; 8];
    device.read(&cells, 0, &mut bytes).unwrap();
    u64::from_ne_bytes(bytes)
}

#[test]
fn queue_that_never_answers_is_abandoned_and_others_live() {
    let Some(device) = reef_conformance::open::<Cuda>(0, "timeout=1") else { return };
    let want = (3u64.pow(20) - 1) / 2;
    assert_eq!(count(&device, Priority::RealTime), want); // all code is loaded
    let deaf = device.load(PTX.as_bytes()).unwrap().kernel("deaf").unwrap();
    let end: Buffer = device.alloc_host(4).unwrap();
    // SAFETY: what the source takes.
    let launch = unsafe { Launch::new(deaf, [1; 3], [1; 3], Args::new(&[end.address()])) };
    let config = Config::default().level(PreemptLevel::HostQueue);
    let (mut submitter, queue) = VirtualQueue::enable(&device, config).unwrap();
    let start = Instant::now();
    let first = submitter.submit(Command::Launch(launch.clone())).unwrap();
    let behind = submitter.submit(Command::Launch(launch)).unwrap();

    // Others go on meanwhile.
    println!("a kernel runs for ever");
    for class in [Priority::RealTime, Priority::BestEffort] {
        assert_eq!(count(&device, class), want);
    }

    println!("others go on");

    // Its work is reported lost, and so is what is behind it.
    let lost = submitter.wait(first).unwrap_err();
    assert!(matches!(&lost, Error::DeviceLost { why, .. } if why.contains("abandoned")), "{lost}");
    assert!(start.elapsed() >= TIMEOUT);
    println!("abandoned after {:?}: {lost}", start.elapsed());
    assert_eq!(submitter.wait(behind), Err(lost));
    let start = Instant::now();
    drop((queue, submitter));
    assert!(start.elapsed() < 60 * TIMEOUT, "{:?}", start.elapsed());

    // New queues take the place of the old one.
    for class in [Priority::BestEffort, Priority::RealTime] {
        assert_eq!(count(&device, class), want);
    }
    device.write(&end, 0, &1u32.to_ne_bytes()).unwrap(); // lets the process end
}
