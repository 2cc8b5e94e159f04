//! Submitting doesn't allocate, and commands stay small enough to be submitted by value.

#![cfg(feature = "cpu")]

use reef::cpu::Cpu;
use reef::{Args, Command, Device, Launch, VirtualQueue, queue::Config};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Allocations of this thread: workers and units may allocate as they like.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: everything is left to `System`.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|n| n.set(n.get() + 1));
        // SAFETY: `GlobalAlloc::alloc` demands a size that is not 0, and `layout` goes on as it
        // came.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: `start` came from `System`, as all memory here does, with this layout:
        // `GlobalAlloc::dealloc` demands it.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn submitting_does_not_allocate() {
    let device = Cpu::open(0, "units=1").unwrap();
    let cells = device.alloc(64).unwrap();
    let args = Args::new(&[device.address(&cells), 1, 0]);
    let append = device.kernel("append").unwrap();
    // SAFETY: `append` takes these words and there are 8 cells, which the launch keeps.
    let launch = unsafe { Launch::<Cpu>::new(append, [8, 1, 1], [1, 1, 1], args) };
    let launch = launch.keep(vec![cells]);
    let (mut submitter, queue) = VirtualQueue::enable(&device, Config::default()).unwrap();

    let before = ALLOCATIONS.with(Cell::get);
    for _ in 0..500 {
        submitter.submit(Command::Launch(launch.clone())).unwrap();
    }
    let after = ALLOCATIONS.with(Cell::get);
    assert_eq!(after - before, 0);
    drop(Box::new(black_box_me()));
    assert!(ALLOCATIONS.with(Cell::get) > after, "the allocator counts");
    queue.finish().unwrap();
}

fn black_box_me() -> u64 {
    std::hint::black_box(1)
}

#[test]
fn command_fits_in_two_cache_lines() {
    let size = size_of::<Command<Cpu>>();
    assert!(size <= 128, "{size} bytes");
}
