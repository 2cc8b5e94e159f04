//! Copies between the device and the host's memory, by several threads.
//!
//! Each thread takes the next chunk, and has two pinned buffers: while the device copies one chunk,
//! the thread copies the other between its buffer and the host's memory. Pinning all of the host's
//! memory instead takes longer than the copies (0.75 s a GiB on an H200's host), and one thread
//! reaches 6 GB/s. With chunks of 4 MiB, 8 threads reach 45 GB/s out and 49 back, and 16 reach 48
//! and 49; into new pages 8 reach 24 and 16 reach 33 (16 processors, 2026-11-26,
//! `tools/interpose/programs/swap_cost.cu`).
//!
//! Other programs work on the same processors meanwhile, real-time ones too, and another program
//! may move in the other direction. So there are threads for half of the processors, they sleep
//! while the device copies, and they have a lower priority. A departure has a thread for each
//! processor if no real-time work has held this program of late. A return has not: a program that
//! is away isn't held, so it does not know, and its pages of the host are there.
//!
//! A request waits for a return, but for a departure only as far as the return lacks room. A
//! departure also takes new pages of the host, which is two thirds of the time of processors that
//! both need (docs/internals/moves.md). So departures have the lowest priority.

use super::calls::{self, Refused, check};
use super::host::HostMemory;
use crate::driver::calls::{self as driver};
use crate::driver::state::Inside;
use crate::guest::attach;
use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

const CHUNK_BYTES: usize = 4 << 20;
/// More threads gain nothing where pages are there.
const MAX_THREADS: usize = 8;
/// More were not measured.
const MAX_THREADS_ALONE: usize = 16;
/// Copies have a nice value that is higher by this than the program's. Where both directions want
/// a processor, a return has three quarters of its time (335 and 110 are the kernel's weights).
const NICE_RETURNING: i32 = 5;
const NICE_LEAVING: i32 = 10;
/// `CU_MEMHOSTALLOC_PORTABLE`, `CU_STREAM_NON_BLOCKING`.
const PORTABLE: u32 = 1;
const NON_BLOCKING: u32 = 1;
/// `CU_EVENT_BLOCKING_SYNC` and `CU_EVENT_DISABLE_TIMING`: a thread that waits sleeps.
const SLEEPING: u32 = 1 | 2;

/// Direction of copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    ToHost,
    ToDevice,
}

/// Steps around the copies of pieces, by the threads that copy.
pub(super) trait Steps: Sync {
    /// Waits until a piece may be copied. Returns false if no more pieces may be.
    fn begin(&self, piece: usize) -> bool;

    /// Ends a piece that has been copied.
    fn end(&self, piece: usize);

    /// Ends all waits, because a copy has failed.
    fn stop(&self);
}

/// Part of a range, at most [`CHUNK_BYTES`].
#[derive(Clone, Copy, Debug)]
struct Chunk {
    /// Number of the range.
    of: usize,
    device: usize,
    host: usize,
    bytes: usize,
}

/// Memory of a piece on the device, and its position in the host's memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    /// Number of the piece.
    pub(super) piece: usize,
    pub(super) device: usize,
    pub(super) host: usize,
    pub(super) bytes: usize,
}

impl Direction {
    /// Returns what is added to the nice value of a thread that copies.
    fn nice(self) -> i32 {
        match self {
            Self::ToHost => NICE_LEAVING,
            Self::ToDevice => NICE_RETURNING,
        }
    }
}

impl Range {
    fn chunks(self, of: usize) -> impl Iterator<Item = Chunk> {
        (0..self.bytes).step_by(CHUNK_BYTES).map(move |at| Chunk {
            of,
            device: self.device + at,
            host: self.host + at,
            bytes: CHUNK_BYTES.min(self.bytes - at),
        })
    }
}

/// Copies ranges of a context's device. Blocks.
///
/// # Errors
///
/// An error of the driver; some chunks are not copied then.
pub(super) fn copy<S: Steps>(
    context: usize,
    ranges: &[Range],
    host: &HostMemory,
    direction: Direction,
    steps: &S,
) -> Result<(), Refused> {
    let of_range = |(of, range): (usize, &Range)| range.chunks(of);
    let chunks: Vec<Chunk> = ranges.iter().enumerate().flat_map(of_range).collect();
    let count = |range: &Range| AtomicUsize::new(range.bytes.div_ceil(CHUNK_BYTES));
    let left: Vec<AtomicUsize> = ranges.iter().map(count).collect();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let is_alone = direction == Direction::ToHost && attach::is_undisturbed();
    let threads = thread_count(processors, is_alone).min(chunks.len());
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let _inside = Inside::always();
                give_way(direction, is_alone);
                let next = || {
                    let chunk = chunks.get(next.fetch_add(1, Relaxed)).copied()?;
                    steps.begin(ranges[chunk.of].piece).then_some(chunk)
                };
                // The thread that copies the last chunk sees what the others have copied.
                let done = |of: usize| {
                    if left[of].fetch_sub(1, AcqRel) == 1 {
                        steps.end(ranges[of].piece);
                    }
                };
                if let Err(refused) = CopyStream::new(context)
                    .and_then(|mut lane| lane.copy_all(next, done, host, direction))
                {
                    steps.stop();
                    *failed.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(refused);
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    failed.map_or(Ok(()), Err)
}

/// Returns the number of threads that copy in one direction.
fn thread_count(processors: usize, is_alone: bool) -> usize {
    if is_alone {
        processors.clamp(1, MAX_THREADS_ALONE)
    } else {
        (processors / 2).clamp(1, MAX_THREADS)
    }
}

/// Lowers the priority of this thread. Unless no real-time work is there, it leaves half of the
/// processors to others: a thread that is woken waits for a slice of one that copies, 2.8 ms.
/// It is the same half in all programs (docs/lab/nvidia.md, "Moves of models").
fn give_way(direction: Direction, is_alone: bool) {
    // SAFETY: changes a number of this thread alone. Refused: it has its priority.
    unsafe { libc::nice(direction.nice()) };
    let bytes = size_of::<libc::cpu_set_t>();
    // SAFETY: a set of bits, for which zeroes are valid.
    let mut processors: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: writes a set of this size. Refused: more processors than it has bits.
    if is_alone || unsafe { libc::sched_getaffinity(0, bytes, &raw mut processors) } != 0 {
        return;
    }
    // SAFETY: a number below that of the set's bits.
    let is_there = |at: &usize| unsafe { libc::CPU_ISSET(*at, &processors) };
    let all: Vec<usize> = (0..libc::CPU_SETSIZE as usize).filter(is_there).collect();
    for at in &all[all.len().div_ceil(2)..] {
        // SAFETY: a number below that of the set's bits.
        unsafe { libc::CPU_CLR(*at, &mut processors) };
    }
    // SAFETY: reads a set of this size. Refused: this thread runs on all.
    unsafe { libc::sched_setaffinity(0, bytes, &raw const processors) };
}

/// Stream of a thread, and its two pinned buffers with what is copied by them.
#[derive(Debug)]
struct CopyStream {
    stream: usize,
    buffers: usize,
    events: [usize; 2],
    under_way: [Option<Chunk>; 2],
}

impl CopyStream {
    fn new(context: usize) -> Result<Self, Refused> {
        check("cuCtxSetCurrent", driver::set_context(context))?;
        let mut lane = Self { stream: 0, buffers: 0, events: [0; 2], under_way: [None; 2] };
        check("cuStreamCreate", calls::create_stream(&mut lane.stream, NON_BLOCKING))?;
        let bytes = 2 * CHUNK_BYTES;
        check("cuMemHostAlloc", calls::host_alloc(&mut lane.buffers, bytes, PORTABLE))?;
        for event in &mut lane.events {
            check("cuEventCreate", driver::create_event(event, SLEEPING))?;
        }
        Ok(lane)
    }

    fn buffer(&self, which: usize) -> *mut c_void {
        (self.buffers + which * CHUNK_BYTES) as *mut c_void
    }

    fn copy_all(
        &mut self,
        mut next: impl FnMut() -> Option<Chunk>,
        mut done: impl FnMut(usize),
        host: &HostMemory,
        direction: Direction,
    ) -> Result<(), Refused> {
        for which in [0, 1].into_iter().cycle() {
            self.finish(which, host, direction)?.into_iter().for_each(&mut done);
            let Some(chunk) = next() else { break };
            self.begin(which, chunk, host, direction)?;
        }
        for which in [0, 1] {
            self.finish(which, host, direction)?.into_iter().for_each(&mut done);
        }
        check("cuStreamSynchronize", calls::wait_stream(self.stream))
    }

    /// Begins a copy by an idle buffer.
    fn begin(
        &mut self,
        which: usize,
        chunk: Chunk,
        host: &HostMemory,
        direction: Direction,
    ) -> Result<(), Refused> {
        let (buffer, Chunk { device, bytes, .. }) = (self.buffer(which), chunk);
        // SAFETY: the buffer has `bytes`, and nothing uses it until the event is reached. The range
        // of the device is an allocation's, which the pause keeps; the chunk of the host's memory
        // is this thread's alone.
        let code = unsafe {
            if direction == Direction::ToDevice {
                let from = host.part(chunk.host, bytes);
                std::ptr::copy_nonoverlapping(from, buffer.cast::<u8>(), bytes);
                calls::copy_to_device(device, buffer, bytes, self.stream)
            } else {
                calls::copy_to_host(buffer, device, bytes, self.stream)
            }
        };
        check("cuMemcpyAsync", code)?;
        check("cuEventRecord", driver::record_event(self.events[which], self.stream))?;
        self.under_way[which] = Some(chunk);
        Ok(())
    }

    /// Waits for the copy by a buffer, and takes out what it has. Returns the number of its range.
    fn finish(
        &mut self,
        which: usize,
        host: &HostMemory,
        direction: Direction,
    ) -> Result<Option<usize>, Refused> {
        let Some(chunk) = self.under_way[which].take() else { return Ok(None) };
        check("cuEventSynchronize", calls::wait_event(self.events[which]))?;
        if direction == Direction::ToHost {
            let (from, to) = (self.buffer(which), host.part(chunk.host, chunk.bytes));
            // SAFETY: the copy into the buffer has ended; the chunk is this thread's alone.
            unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), to, chunk.bytes) };
        }
        Ok(Some(chunk.of))
    }
}

impl Drop for CopyStream {
    fn drop(&mut self) {
        let _ = calls::wait_stream(self.stream);
        self.events.iter().filter(|event| **event != 0).for_each(|event| {
            let _ = driver::destroy_event(*event);
        });
        // SAFETY: the stream's work has ended, which alone used the buffers.
        unsafe {
            if self.stream != 0 {
                let _ = calls::destroy_stream(self.stream);
            }
            if self.buffers != 0 {
                let _ = calls::free_host(self.buffers as *mut c_void);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_leave_half_of_the_processors_to_real_time_work() {
        let all = [1, 2, 3, 8, 16, 64].map(|processors| thread_count(processors, false));
        assert_eq!(all, [1, 1, 1, 4, 8, 8]);
        let all = [1, 2, 3, 8, 16, 64].map(|processors| thread_count(processors, true));
        assert_eq!(all, [1, 2, 3, 8, 16, 16]);
    }

    #[test]
    fn priority_of_copies_is_not_that_of_the_program() {
        // SAFETY: changes nothing.
        let nice = || unsafe { libc::nice(0) };
        let before = nice();
        let copying = |direction| {
            std::thread::scope(|scope| {
                let copies = scope.spawn(move || {
                    give_way(direction, false);
                    nice()
                });
                copies.join().unwrap()
            })
        };
        assert_eq!(copying(Direction::ToDevice), (before + 5).min(19));
        assert_eq!(copying(Direction::ToHost), (before + 10).min(19), "a return goes first");
        assert_eq!(nice(), before);
    }

    /// Numbers of the processors on which this thread may run.
    fn processors() -> Vec<usize> {
        // SAFETY: a set of bits, for which zeroes are valid.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: writes a set of this size.
        let result = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
        assert_eq!(result, 0);
        // SAFETY: a number below that of the set's bits.
        (0..libc::CPU_SETSIZE as usize).filter(|at| unsafe { libc::CPU_ISSET(*at, &set) }).collect()
    }

    #[test]
    fn copies_run_on_half_of_the_processors_next_to_real_time_work() {
        let all = processors();
        let of_copies = |is_alone| {
            std::thread::scope(|scope| {
                let copies = scope.spawn(move || {
                    give_way(Direction::ToHost, is_alone);
                    processors()
                });
                copies.join().unwrap()
            })
        };
        assert_eq!(of_copies(true), all);
        assert_eq!(of_copies(false), all[..all.len().div_ceil(2)]);
        assert_eq!(processors(), all);
    }
}
