//! Departure of a program's memory to the host, and its return.

use super::allocations::{self, Piece};
use super::calls::{self, Refused};
use super::copies::{Direction, Range, Steps, copy};
use super::host::HostMemory;
use crate::driver::calls as driver;
use crate::driver::pause::{self, Pause};
use crate::driver::state::Inside;
use crate::guest::capture;
use reef_cuda_abi::codes::OUT_OF_MEMORY;
use reef_guest::swap::{MARGIN, Moved};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

/// Interval between polls of open captures.
const CAPTURE_INTERVAL: Duration = Duration::from_millis(1);

/// Interval between readings of free memory: nothing tells of another process that releases some.
/// Shorter than the copy of a piece of 128 MiB (3 ms at 45 GB/s), as each piece may wait for one.
const ROOM_INTERVAL: Duration = Duration::from_millis(1);

/// Memory that is off the device. The program's calls wait until it is dropped.
#[derive(Debug)]
pub(super) struct Swapped {
    pieces: Vec<Piece>,
    host: HostMemory,
    _pause: Pause,
}

/// Has the program wait, and moves its memory to the host. The memory of each piece is released
/// once it has been copied. If a copy fails and another process has the room of what has left, the
/// program has left, too: the driver moves the rest. Blocks.
///
/// # Errors
///
/// In words; the program goes on.
pub(super) fn leave(timeout: Duration) -> Result<(Swapped, Moved), String> {
    let begin = Instant::now();
    let pause = settle(begin + timeout).ok_or_else(|| {
        format!("its calls, captures or work did not end within {} s", timeout.as_secs_f64())
    })?;
    let begin = Instant::now();
    let pieces = allocations::all();
    let host = HostMemory::new(pieces.iter().map(|one| one.bytes).sum())?;
    let ranges = ranges(&pieces, |_, one| one.handle != 0);
    let departure = Departure::new(pieces);
    let left = copy_all(&ranges, &host, Direction::ToHost, &departure);
    let pieces = departure.into_pieces();
    allocations::note(&pieces);
    let there = Swapped { pieces, host, _pause: pause };
    let there = match left {
        Ok(()) => there,
        Err(refused) => match there.come_back(&|| false) {
            Ok(_) => return Err(refused.to_string()),
            Err((there, _)) => *there,
        },
    };
    let moved = moved(there.pieces.iter().filter(|one| one.handle == 0), begin);
    Ok((there, moved))
}

/// Pieces that leave.
struct Departure {
    /// Each is locked by the thread that has copied the last of it.
    pieces: Vec<Mutex<Piece>>,
    /// True once a copy has failed: no more pieces leave.
    is_over: AtomicBool,
}

impl Departure {
    fn new(pieces: Vec<Piece>) -> Self {
        let pieces = pieces.into_iter().map(Mutex::new).collect();
        Self { pieces, is_over: AtomicBool::new(false) }
    }

    fn into_pieces(self) -> Vec<Piece> {
        let piece = |one: Mutex<Piece>| one.into_inner().unwrap_or_else(|it| it.into_inner());
        self.pieces.into_iter().map(piece).collect()
    }
}

impl Steps for Departure {
    fn begin(&self, _piece: usize) -> bool {
        !self.is_over.load(Relaxed)
    }

    fn end(&self, piece: usize) {
        locked(&self.pieces[piece]).leave();
    }

    fn stop(&self) {
        self.is_over.store(true, Relaxed);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Has calls wait and ends work and captures. `None`: not until the deadline.
fn settle(deadline: Instant) -> Option<Pause> {
    loop {
        let pause = pause::begin(deadline)?;
        if !capture::is_any_open() {
            return drain(deadline).then_some(pause);
        }
        drop(pause);
        if Instant::now() >= deadline {
            return None;
        }
        std::thread::sleep(CAPTURE_INTERVAL);
    }
}

/// Waits for the work of all contexts that have memory. Returns false at the deadline: then a
/// thread waits on, which does nothing else.
fn drain(deadline: Instant) -> bool {
    let mut contexts: Vec<usize> = allocations::all().iter().map(|one| one.context).collect();
    contexts.sort_unstable();
    contexts.dedup();
    let (ended, end) = channel();
    let waits = crate::thread::spawn("reef-drain", move || {
        let wait = |context: &usize| driver::in_context(*context, calls::synchronize) == Some(0);
        let _ = ended.send(contexts.iter().all(wait));
    });
    let left = deadline.saturating_duration_since(Instant::now());
    waits.is_ok() && end.recv_timeout(left).unwrap_or(false)
}

impl Swapped {
    /// Moves the memory back, and has the program go on. Blocks. Memory that is missing is waited
    /// for as long as `waits`, which says that another process releases some: then [`MARGIN`] stays
    /// free meanwhile.
    ///
    /// # Errors
    ///
    /// In words, with the memory, which is off the device as before.
    pub(super) fn come_back(
        mut self,
        waits: &(dyn Fn() -> bool + Sync),
    ) -> Result<Moved, (Box<Self>, String)> {
        let begin = Instant::now();
        let ranges = ranges(&self.pieces, |_, one| one.handle == 0);
        let were_there: Vec<bool> = self.pieces.iter().map(|one| one.handle != 0).collect();
        let arrival = Arrival::new(&self.pieces, &self.host);
        let (pieces, host) = (&mut self.pieces, &self.host);
        let back = thread::scope(|scope| {
            let taken = scope.spawn(|| {
                let _inside = Inside::always();
                arrival.take_all(pieces, waits)
            });
            let copied = copy_all(&ranges, host, Direction::ToDevice, &arrival);
            let gone = Refused::of("the thread that takes memory", OUT_OF_MEMORY);
            taken.join().unwrap_or(Err(gone)).and(copied)
        });
        let filled = arrival.into_filled();
        if let Err(refused) = back {
            self.leave_again(&were_there, &filled);
            return Err((Box::new(self), format!("its memory does not return: {refused}")));
        }
        allocations::note(&self.pieces);
        Ok(moved(self.pieces.iter(), begin))
    }

    /// Takes back what a refused return has given. Pieces that are filled are copied to the host
    /// again, which has released them. One that can't be copied stays on the device.
    fn leave_again(&mut self, were_there: &[bool], filled: &[bool]) {
        let empty = were_there.iter().zip(filled).map(|(was_there, filled)| !was_there && !filled);
        let taken = self.pieces.iter_mut().zip(empty);
        let taken = taken.filter(|(one, is_empty)| *is_empty && one.handle != 0);
        taken.for_each(|(one, _)| one.leave());
        let ranges = ranges(&self.pieces, |piece, one| filled[piece] && one.handle != 0);
        let departure = Departure::new(std::mem::take(&mut self.pieces));
        let _ = copy_all(&ranges, &self.host, Direction::ToHost, &departure); // or they stay
        self.pieces = departure.into_pieces();
        allocations::note(&self.pieces);
    }
}

/// Pieces that get memory in their order, while those before are filled. The host's memory of each
/// is released once it is filled, and a program that leaves at the same time uses it: so both need
/// little more than one of them, and no pages that were never used.
struct Arrival<'a> {
    state: Mutex<ArrivalState>,
    change: Condvar,
    host: &'a HostMemory,
    /// Position and bytes of each piece in the host's memory.
    parts: Vec<(usize, usize)>,
    /// True for each piece that is filled.
    filled: Vec<AtomicBool>,
}

#[derive(Default)]
struct ArrivalState {
    /// Number of pieces that have memory.
    count: usize,
    /// True if no more pieces will have.
    is_over: bool,
}

impl<'a> Arrival<'a> {
    fn new(pieces: &[Piece], host: &'a HostMemory) -> Self {
        let mut end = 0;
        let part = |one: &Piece| {
            end += one.bytes;
            (end - one.bytes, one.bytes)
        };
        Self {
            state: Mutex::default(),
            change: Condvar::new(),
            host,
            parts: pieces.iter().map(part).collect(),
            filled: pieces.iter().map(|_| AtomicBool::new(false)).collect(),
        }
    }

    fn into_filled(self) -> Vec<bool> {
        self.filled.into_iter().map(AtomicBool::into_inner).collect()
    }

    fn take_all(
        &self,
        pieces: &mut [Piece],
        waits: &(dyn Fn() -> bool + Sync),
    ) -> Result<(), Refused> {
        for one in pieces {
            if self.is_over() {
                break; // a copy has failed
            }
            self.take(one, waits).inspect_err(|_| self.stop())?;
            locked(&self.state).count += 1;
            self.change.notify_all();
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        locked(&self.state).is_over
    }

    /// Gives a piece memory. Blocks while there is none and `waits`.
    fn take(&self, one: &mut Piece, waits: &(dyn Fn() -> bool + Sync)) -> Result<(), Refused> {
        loop {
            let waits = !self.is_over() && waits();
            if !waits || one.handle != 0 || has_room(one) {
                match one.take() {
                    Err(Refused { code: OUT_OF_MEMORY, .. }) if waits => {}
                    taken => return taken,
                }
            }
            thread::sleep(ROOM_INTERVAL);
        }
    }
}

impl Steps for Arrival<'_> {
    fn begin(&self, piece: usize) -> bool {
        let waits = |state: &mut ArrivalState| state.count <= piece && !state.is_over;
        let state = self.change.wait_while(locked(&self.state), waits);
        state.unwrap_or_else(|poisoned| poisoned.into_inner()).count > piece
    }

    fn end(&self, piece: usize) {
        self.filled[piece].store(true, Relaxed); // read once this thread has ended
        let (begin, bytes) = self.parts[piece];
        self.host.release(begin, bytes);
    }

    fn stop(&self) {
        locked(&self.state).is_over = true;
        self.change.notify_all();
    }
}

/// Returns whether a device has memory for a piece, and [`MARGIN`] more: other programs allocate
/// at the same time. True if the driver doesn't say.
fn has_room(one: &Piece) -> bool {
    let (mut free, mut total) = (0, 0);
    let told = driver::in_context(one.context, || driver::memory_info(&mut free, &mut total));
    told != Some(0) || free as u64 >= one.bytes as u64 + MARGIN
}

/// Returns the ranges of these pieces, by context.
fn ranges(
    pieces: &[Piece],
    is_meant: impl Fn(usize, &Piece) -> bool,
) -> BTreeMap<usize, Vec<Range>> {
    let (mut contexts, mut host) = (BTreeMap::<usize, Vec<Range>>::new(), 0);
    for (piece, one) in pieces.iter().enumerate() {
        if is_meant(piece, one) {
            let range = Range { piece, device: one.at, host, bytes: one.bytes };
            contexts.entry(one.context).or_default().push(range);
        }
        host += one.bytes;
    }
    contexts
}

/// Copies all of it, context by context.
fn copy_all<S: Steps>(
    contexts: &BTreeMap<usize, Vec<Range>>,
    host: &HostMemory,
    direction: Direction,
    steps: &S,
) -> Result<(), Refused> {
    contexts.iter().try_for_each(|(context, ranges)| copy(*context, ranges, host, direction, steps))
}

fn moved<'a>(pieces: impl Iterator<Item = &'a Piece>, begin: Instant) -> Moved {
    let _inside = Inside::always();
    let mut devices: BTreeMap<i32, u64> = BTreeMap::new();
    for one in pieces {
        *devices.entry(one.ordinal).or_default() += one.bytes as u64;
    }
    let uuid = |(ordinal, bytes)| Some((driver::uuid(ordinal)?, bytes));
    let devices = devices.into_iter().filter_map(uuid).collect();
    Moved { devices, seconds: begin.elapsed().as_secs_f64() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_piece_leaves_after_a_failed_copy() {
        let departure = Departure::new(Vec::new());
        assert!(departure.begin(0));
        departure.stop();
        assert!(!departure.begin(0));
    }

    #[test]
    fn host_has_no_pages_of_a_piece_that_is_filled() {
        let bytes = 1 << 20;
        let host = HostMemory::new(2 * bytes).unwrap();
        // SAFETY: the mapping of a moment ago.
        unsafe { host.part(0, 2 * bytes).write_bytes(7, 2 * bytes) };
        let pieces = [allocations::piece_of(0, bytes), allocations::piece_of(bytes, bytes)];
        let arrival = Arrival::new(&pieces, &host);
        arrival.end(1);
        // SAFETY: `host` has both pieces mapped, and no thread writes to them.
        let ends = [0, bytes - 1, bytes].map(|byte| unsafe { host.part(byte, 1).read() });
        assert_eq!(ends, [7, 7, 0], "so another program has them meanwhile");
        assert_eq!(arrival.into_filled(), [false, true]);
    }

    #[test]
    fn copies_to_pieces_without_memory_end_with_the_return() {
        let host = HostMemory::new(0).unwrap();
        let arrival = Arrival::new(&[], &host);
        let begun = thread::scope(|scope| {
            let waits = scope.spawn(|| arrival.begin(0));
            arrival.stop();
            waits.join()
        });
        assert!(!begun.unwrap());
    }
}
