//! Several launches that the runtime takes at once.
//!
//! Not every runtime that has the calls does what they say: HIP 5.2 runs what was captured once,
//! and answers "success" without running it from then on. So graphs are tried when a device is
//! opened.
//!
//! A graph that is given back may still run, and what the runtime does with one that is destroyed
//! then differs between versions. So it is put off until each stream was seen idle or closed.

use crate::context::Context;
use crate::handles::{Code, Exec, Stream};
use reef_core::Result;
use reef_gpu::{Build, Graphs, LaunchConfig, Memory, Modules, StreamKind, Streams};
use std::ffi::c_uint;

/// `hipStreamCaptureModeRelaxed`: other threads, and allocations of ours, are not disturbed.
pub(crate) const RELAXED: c_uint = 2;

impl Graphs for Context {
    type Exec = Exec;

    unsafe fn begin_capture(&self, stream: Stream) -> Result<()> {
        self.bind()?;
        self.retired.lock().begin_capture(stream);
        // SAFETY: the stream is open and empty.
        let begun = unsafe { self.driver.hipStreamBeginCapture(stream.0, RELAXED) };
        begun.inspect_err(|_| self.no_longer_captures(stream))
    }

    unsafe fn end_capture(&self, stream: Stream) -> Result<Exec> {
        self.bind()?;
        let (mut graph, mut exec) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the stream captures, and the pointer is valid for the call.
        let ended = unsafe { self.driver.hipStreamEndCapture(stream.0, &mut graph) };
        self.no_longer_captures(stream);
        let (no_node, no_log) = (std::ptr::null_mut(), std::ptr::null_mut());
        let made = ended.and_then(|()| {
            // SAFETY: the graph was captured just now; no log is asked for.
            unsafe { self.driver.hipGraphInstantiate(&mut exec, graph, no_node, no_log, 0) }
        });
        if !graph.is_null() {
            // SAFETY: the runtime has made its own copy.
            let _ = unsafe { self.driver.hipGraphDestroy(graph) };
        }
        made.map(|()| Exec(exec))
    }

    unsafe fn launch_exec(&self, exec: Exec, stream: Stream) -> Result<()> {
        self.bind()?;
        // SAFETY: reef-gpu's `Exec` and `Stream` own both handles, and end them when they are
        // dropped. What the launches refer to outlives the run: `Graphs::launch_exec` demands it.
        unsafe { self.driver.hipGraphLaunch(exec.0, stream.0) }
    }

    unsafe fn free_exec(&self, exec: Exec) {
        let streams = self.streams.lock();
        self.retired.lock().add(exec, streams.open());
        drop(streams);
        self.destroy_retired();
    }
}

impl Context {
    fn no_longer_captures(&self, stream: Stream) {
        self.retired.lock().end_capture(stream);
    }

    /// Returns whether a graph of two launches does both each time, with a kernel that ships.
    pub(crate) fn graphs_work(&self) -> Result<bool> {
        if self.driver.hipGraphLaunch.is_none() {
            return Ok(false);
        }
        let Ok(image) = self.shipped("builtin", Build::Plain) else { return Ok(false) };
        // SAFETY: it ships.
        let code = unsafe { self.load_code(&image) }?;
        let (stream, words) = (self.open_stream(StreamKind::RealTime)?, self.alloc(8)?);
        // SAFETY: all three are there, and not used after they are given back: each run is waited
        // for.
        let seen = unsafe {
            let seen = self.run_twice(code, stream, words);
            self.free(words);
            self.close_stream(stream);
            self.unload_code(code);
            seen
        };
        Ok(seen.unwrap_or(false)) // a runtime that refuses has none
    }

    /// # Safety
    ///
    /// The code is loaded, the stream open and empty, and eight bytes at `words` are the device's.
    unsafe fn run_twice(&self, code: Code, stream: Stream, words: u64) -> Result<bool> {
        // SAFETY: the code is loaded: `run_twice` demands it.
        let Some(store) = (unsafe { self.function(code, "store") })? else { return Ok(false) };
        // SAFETY: the stream is open and empty: `run_twice` demands it. No other thread has it, as
        // `graphs_work` opened it.
        unsafe { self.begin_capture(stream) }?;
        let captured = [1u64, 2].into_iter().zip([words, words + 4]).try_for_each(|(n, word)| {
            let (mut word, mut n) = (word, n);
            let mut params = [(&raw mut word).cast(), (&raw mut n).cast()];
            // SAFETY: the kernel's parameters; the word is ours.
            unsafe { self.launch(stream, store, &LaunchConfig::one_block(1), &mut params) }
        });
        // SAFETY: the capture has begun.
        let exec = unsafe { self.end_capture(stream) }?;
        let mut seen = [[0; 8]; 2];
        let mut runs = seen.iter_mut();
        let ran = captured.and_then(|()| {
            // SAFETY: the words outlive the run, which is waited for.
            runs.try_for_each(|seen| unsafe {
                self.write(words, &[0; 8])?;
                self.launch_exec(exec, stream)?;
                self.wait(stream)?;
                self.read(words, seen)
            })
        });
        // SAFETY: captured once.
        unsafe { self.free_exec(exec) };
        ran.map(|()| seen.iter().all(|words| *words == [1, 0, 0, 0, 2, 0, 0, 0]))
    }
}
