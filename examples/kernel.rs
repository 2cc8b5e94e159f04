//! A kernel in Rust on the software device, stopped and restored:
//! `cargo run --release --example kernel`

use reef::cpu::{Cpu, Kernel, Outcome};
use reef::{Args, Command, Device, Launch, PreemptLevel, Result, VirtualQueue, queue::Config};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::{hint, thread, time::Duration};

fn main() -> Result<()> {
    let device = Cpu::open(0, "")?;

    // A block works for a while, looks whether it should stop, and takes effect at its very end.
    let done = Arc::new(AtomicU64::new(0));
    let count = done.clone();
    let kernel = Kernel::new("count", move |block, _args| {
        for _ in 0..100 {
            if block.stopped() {
                return Outcome::Stopped; // nothing has changed yet: the block runs again later
            }
            (0..100).for_each(|_| hint::spin_loop());
        }
        count.fetch_add(1, Relaxed);
        Outcome::Done
    });
    // SAFETY: the kernel takes no arguments and its blocks may run at once, in any order.
    let launch = unsafe { Launch::new(kernel, [8, 1, 1], [1, 1, 1], Args::default()) };

    let config = Config::default().level(PreemptLevel::All);
    let (mut submitter, queue) = VirtualQueue::enable(&device, config)?;
    for _ in 0..100 {
        submitter.submit_blocking(Command::Launch(launch.clone()))?;
    }
    thread::sleep(Duration::from_millis(10));

    let begin = device.clock();
    queue.preempt(true)?;
    println!(
        "stopped within {:?}, {} of 800 blocks done",
        device.clock() - begin,
        done.load(Relaxed)
    );
    thread::sleep(Duration::from_millis(100));
    println!("100 ms later           {} of 800 blocks done", done.load(Relaxed));

    queue.restore()?;
    submitter.wait(reef::Seq(99))?;
    println!(
        "restored: {} of 800 blocks done, {} launches ran again",
        done.load(Relaxed),
        queue.rerun()
    );
    queue.disable().map_err(|(error, _queue)| error)
}
