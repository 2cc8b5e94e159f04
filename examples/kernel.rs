//! A kernel in Rust, stopped and restored:
//! `cargo run --release --example kernel [-- --device cpu:0?units=2]`
//!
//! A kernel in Rust is a function that the software device calls, so this runs on that device
//! alone. Kernels of GPUs are CUDA C++: see `kernels/README.md`. The example `preempt` stops
//! networks on each device.

mod common;

use reef::cpu::{Cpu, Kernel, Outcome};
use reef::queue::Config;
use reef::{Args, Backend, Command, Device, DeviceName, Launch, PreemptLevel, VirtualQueue};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::{error::Error, hint, thread, time::Duration};

fn main() -> Result<(), Box<dyn Error>> {
    let device = open()?;

    // A block works for a while, checks whether it must stop, and takes effect at its very end.
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
    Ok(queue.disable().map_err(|(error, _queue)| error)?)
}

/// Opens the device of the option `--device`, which must be a software device.
fn open() -> Result<Cpu, Box<dyn Error>> {
    let (given, _) = common::arguments()?;
    let name = if given == reef::AUTO { Cpu::NAME } else { given.as_str() };
    let device = DeviceName::parse(name)?;
    if device.backend != Cpu::NAME {
        let text = format!(
            "--device: must be cpu, as a kernel in Rust runs on the software device, got {name}"
        );
        return Err(text.into());
    }
    Ok(Cpu::open(device.ordinal, device.options)?)
}
