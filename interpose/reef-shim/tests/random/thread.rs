//! Runs a thread of a random program, and notes what the driver answered.

use super::program::Step;
use crate::common::{self, Driver, SOON, call};
use std::time::Instant;

/// A thread's streams and words.
pub(crate) struct Thread {
    pub(super) driver: Driver,
    pub(super) streams: [usize; 2],
    /// True if the streams wait for the legacy default stream.
    is_blocking: bool,
    pub(super) words: Words,
    event: usize,
    pub(super) mix: usize,
    add: usize,
    join: usize,
    pub(super) codes: Vec<u32>,
}

/// Addresses of a thread's words.
#[derive(Clone, Copy)]
pub(crate) struct Words {
    /// One for each stream.
    pub(crate) of: [usize; 2],
    pub(crate) copy: usize,
    /// Word of the thread's own default stream.
    pub(crate) own: usize,
    /// Word of all threads.
    pub(crate) sum: usize,
    /// Words that functions of the host's change, one for each stream: those of the streams, where
    /// the host has the device's memory.
    pub(crate) host: [usize; 2],
    /// Context of all threads.
    pub(crate) context: usize,
}

/// A word that a function of the host's changes, and by what.
struct Call(usize, u64);

/// Host function that the driver calls: `mix`.
extern "C" fn mixed(call: usize) {
    // SAFETY: leaked by `Step::Host` for this one call, in a stream whose word it names.
    unsafe {
        let Call(word, value) = *Box::from_raw(call as *mut Call);
        let word = word as *mut u64;
        *word = (*word).wrapping_mul(6_364_136_223_846_793_005).wrapping_add(value);
    }
}

impl Thread {
    pub(crate) fn new(driver: Driver, number: usize, words: Words) -> Self {
        call!(driver, cuCtxSetCurrent(words.context));
        let kernel = |name: &std::ffi::CStr| {
            let mut kernel = 0_usize;
            assert_eq!(call!(driver, cuModuleGetFunction(&raw mut kernel, 0, name.as_ptr())), 0);
            kernel
        };
        let stream = || {
            let mut stream = 0_usize;
            assert_eq!(call!(driver, cuStreamCreate(&raw mut stream, number % 2)), 0);
            stream
        };
        let mut event = 0_usize;
        assert_eq!(call!(driver, cuEventCreate(&raw mut event, 0)), 0);
        // The third thread works on its own default stream, too: four explicit streams in all.
        let streams = if number == 2 { [2, 2] } else { [stream(), stream()] };
        let [mix, add, join] = [c"mix", c"add", c"join"].map(kernel);
        let (is_blocking, codes) = (number != 1, Vec::new());
        Self { driver, streams, is_blocking, words, event, mix, add, join, codes }
    }

    pub(crate) fn run(mut self, steps: &[Step]) -> Vec<u32> {
        steps.iter().for_each(|&step| self.step(step));
        self.codes.push(call!(self.driver, cuCtxSynchronize()));
        self.codes
    }

    pub(super) fn note(&mut self, code: u32) {
        self.codes.push(code);
    }

    /// Launches on one of the thread's streams.
    pub(super) fn launch(&mut self, kernel: usize, stream: usize, word: usize, value: u64) {
        self.launch_by("cuLaunchKernel", kernel, self.streams[stream], word, value);
    }

    fn launch_by(&mut self, name: &str, kernel: usize, on: usize, word: usize, value: u64) {
        let code = self.driver.launch(name, kernel, on, word, value);
        self.note(code);
    }

    fn step(&mut self, step: Step) {
        let (driver, words) = (self.driver, self.words);
        match step {
            Step::Launch { stream, value, variant } => {
                let name = if variant { "cuLaunchKernel_ptsz" } else { "cuLaunchKernel" };
                self.launch_by(name, self.mix, self.streams[stream], words.of[stream], value);
            }
            Step::Add { stream, value } => self.launch(self.add, stream, words.sum, value),
            Step::Legacy { stream, value, by_name } => self.legacy(stream, value, by_name),
            Step::Own { value } => {
                self.launch_by("cuLaunchKernel_ptsz", self.mix, 0, words.own, value);
            }
            Step::Join { from } => {
                self.pass_on(from);
                // The first goes on only then: what the other read is what was there.
                self.note(call!(driver, cuStreamSynchronize(self.streams[1 - from])));
            }
            Step::PingPong { from, rounds } => {
                (0..2 * rounds).for_each(|round| self.pass_on((from + round) % 2));
                self.wait_for(from, 1 - from); // the last word that was read changes only then
            }
            Step::Synchronize { stream } => {
                self.note(call!(driver, cuStreamSynchronize(self.streams[stream])));
            }
            Step::SynchronizeAll => self.note(call!(driver, cuCtxSynchronize())),
            Step::Copy { stream } => {
                let (on, from, to) = (self.streams[stream], words.of[stream], words.copy);
                self.note(call!(driver, cuStreamSynchronize(self.streams[1 - stream])));
                self.note(call!(driver, cuMemcpyDtoDAsync_v2(to, from, 8, on)));
                self.note(call!(driver, cuStreamSynchronize(on)));
            }
            Step::Read { stream, variant } => self.read(stream, variant),
            Step::Fill { stream, value } => {
                let (on, to) = (self.streams[stream], words.of[stream]);
                self.note(call!(driver, cuMemsetD8Async(to, value, 8, on)));
            }
            Step::Host { stream, value } => {
                let (on, call) = (self.streams[stream], Call(words.host[stream], value));
                let (function, data) =
                    (mixed as extern "C" fn(usize), Box::into_raw(Box::new(call)));
                self.note(call!(driver, cuLaunchHostFunc(on, function, data)));
            }
            Step::Pool { stream, value, variant } => self.pool(stream, value, variant),
            Step::Graph { stream, launches } => self.graph(stream, launches),
            Step::Built { stream, kernels, inner, captured, update } => {
                self.built(stream, [kernels, inner], captured, update);
            }
            Step::BrokenCapture { stream } => {
                let (on, mut graph) = (self.streams[stream], 7_usize);
                self.note(call!(driver, cuStreamBeginCapture_v2(on, 2)));
                self.launch(self.mix, stream, words.of[stream], 1);
                self.note(call!(driver, cuStreamSynchronize(on)));
                self.launch(self.mix, stream, words.of[stream], 2);
                self.note(call!(driver, cuStreamEndCapture(on, &raw mut graph)));
                self.codes.push(graph as u32);
            }
            Step::NewStream { stream } if self.streams[stream] > 2 => {
                let (mut new, flags) = (0_usize, usize::from(!self.is_blocking));
                // Work of the former still runs, and the new one goes on behind it.
                self.note(call!(driver, cuEventRecord(self.event, self.streams[stream])));
                self.note(call!(driver, cuStreamDestroy_v2(self.streams[stream])));
                self.note(call!(driver, cuStreamCreate(&raw mut new, flags)));
                self.note(call!(driver, cuStreamWaitEvent(new, self.event, 0)));
                self.streams[stream] = new;
            }
            Step::NewStream { .. } => {}
            Step::Fork { stream } => {
                let code = self.fork(stream);
                self.note(code);
            }
            Step::Wrong => {
                self.launch_by("cuLaunchKernel", 1, self.streams[0], words.of[0], 1);
                self.note(call!(driver, cuStreamSynchronize(0x7777_0000_usize)));
            }
        }
    }

    /// The word of `from` becomes part of the other stream's.
    fn pass_on(&mut self, from: usize) {
        let words = self.words.of;
        self.wait_for(from, 1 - from);
        self.launch(self.join, 1 - from, words[1 - from], words[from] as u64);
    }

    /// The second stream waits for the first.
    fn wait_for(&mut self, first: usize, second: usize) {
        let driver = self.driver;
        self.note(call!(driver, cuEventRecord(self.event, self.streams[first])));
        self.note(call!(driver, cuStreamWaitEvent(self.streams[second], self.event, 0)));
    }

    /// Other threads' streams that don't block leave no order to rely on: then sums alone.
    fn legacy(&mut self, stream: usize, value: u64, by_name: bool) {
        let (kernel, word) = if self.is_blocking {
            (self.mix, self.words.of[stream])
        } else {
            (self.add, self.words.sum)
        };
        self.launch_by("cuLaunchKernel", kernel, usize::from(by_name), word, value);
    }

    fn read(&mut self, stream: usize, variant: bool) {
        let (driver, from, mut value) = (self.driver, self.words.of[stream], 0_u64);
        if !self.is_blocking || variant {
            self.note(call!(driver, cuStreamSynchronize(self.streams[stream])));
        }
        let to = &raw mut value;
        self.note(if variant {
            call!(driver, cuMemcpyDtoH_v2_ptds(to, from, 8))
        } else {
            call!(driver, cuMemcpyDtoH_v2(to, from, 8))
        });
        self.codes.extend([value as u32, (value >> 32) as u32]);
    }

    fn pool(&mut self, stream: usize, value: u64, variant: bool) {
        let (driver, on, mut at) = (self.driver, self.streams[stream], 0_usize);
        self.note(if variant {
            call!(driver, cuMemAllocAsync_ptsz(&raw mut at, 8, on))
        } else {
            call!(driver, cuMemAllocAsync(&raw mut at, 8, on))
        });
        self.note(call!(driver, cuMemsetD8Async(at, 3, 8, on)));
        self.launch(self.mix, stream, at, value);
        self.launch(self.join, stream, self.words.of[stream], at as u64);
        self.note(if variant {
            call!(driver, cuMemFreeAsync_ptsz(at, on))
        } else {
            call!(driver, cuMemFreeAsync(at, on))
        });
    }

    /// Returns the driver's code for a child process, from its exit status.
    fn fork(&self, stream: usize) -> u32 {
        // Looked up here: a child of a process with threads may not.
        let query = self.driver.symbol("cuStreamQuery").unwrap();
        // SAFETY: the child calls the driver, which takes no lock there, and ends.
        let child = unsafe {
            let query: unsafe extern "C" fn(usize) -> u32 = std::mem::transmute(query);
            query(self.streams[stream]);
            match libc::fork() {
                0 => libc::_exit(query(self.streams[stream]) as i32),
                child => child,
            }
        };
        let (begin, mut status) = (Instant::now(), 0);
        // SAFETY: a child of this process.
        while unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == 0 {
            assert!(begin.elapsed() < SOON, "a forked child still runs after {SOON:?}");
            std::thread::sleep(std::time::Duration::from_micros(100)); // sleep: poll of a condition
        }
        status as u32
    }
}
