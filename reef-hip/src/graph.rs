//! Several launches that the runtime takes at once.
//!
//! Not every runtime that has the calls does what they say: HIP 5.2 runs what was captured once, and
//! answers "success" without running it from then on. So graphs are tried when a device is opened.
//!
//! A graph that is given back may still run, and what the runtime does with one that is destroyed then
//! differs between versions. So it is put off until each stream was seen idle or closed.

use crate::context::Context;
use crate::driver::Handle;
use crate::module::Code;
use crate::stream::Stream;
use reef_core::{Priority, Result};
use reef_gpu::{Build, Graphs, Memory, Modules, Streams};
use std::ffi::c_uint;

/// `hipStreamCaptureModeRelaxed`: other threads, and allocations of ours, are not disturbed.
pub(crate) const RELAXED: c_uint = 2;

/// Launches that the device takes at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exec(Handle);

// SAFETY: a handle that the runtime lets any thread use.
unsafe impl Send for Exec {}
// SAFETY: as above.
unsafe impl Sync for Exec {}

/// Graphs that were given back, and the streams in which they may still run.
#[derive(Debug, Default)]
pub(crate) struct Retired {
    execs: Vec<(Exec, Vec<Stream>)>,
    /// Nobody may ask whether these are idle, and nothing runs in them.
    capturing: Vec<Stream>,
}

impl Retired {
    fn add(&mut self, exec: Exec, open: impl Iterator<Item = Stream>) {
        let may_run_in = open.filter(|stream| !self.capturing.contains(stream)).collect();
        self.execs.push((exec, may_run_in));
    }

    /// Nothing runs in this stream at the moment.
    pub(crate) fn is_idle(&mut self, stream: Stream) {
        self.execs.iter_mut().for_each(|(_, streams)| streams.retain(|s| *s != stream));
    }

    /// Those that run nowhere any more.
    fn take_ended(&mut self, is_idle: impl Fn(Stream) -> bool) -> Vec<Exec> {
        self.execs.iter_mut().for_each(|(_, streams)| streams.retain(|s| !is_idle(*s)));
        let ended = self.execs.extract_if(.., |(_, streams)| streams.is_empty());
        ended.map(|(exec, _)| exec).collect()
    }
}

impl Graphs for Context {
    type Exec = Exec;

    fn begin_capture(&self, stream: Stream) -> Result<()> {
        self.bind()?;
        {
            let mut retired = self.retired.lock();
            retired.is_idle(stream);
            retired.capturing.push(stream);
        }
        // SAFETY: the stream is open and empty.
        let begun = unsafe { self.driver.hipStreamBeginCapture(stream.0, RELAXED) };
        begun.inspect_err(|_| self.no_longer_captures(stream))
    }

    fn end_capture(&self, stream: Stream) -> Result<Exec> {
        self.bind()?;
        let (mut graph, mut exec) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the stream captures, and the pointer is valid for the call.
        let ended = unsafe { self.driver.hipStreamEndCapture(stream.0, &mut graph) };
        self.no_longer_captures(stream);
        let (none, nobody) = (std::ptr::null_mut(), std::ptr::null_mut());
        let made = ended.and_then(|()| {
            // SAFETY: the graph was captured just now; nobody wants to read what went wrong.
            unsafe { self.driver.hipGraphInstantiate(&mut exec, graph, none, nobody, 0) }
        });
        if !graph.is_null() {
            // SAFETY: the runtime has made its own copy.
            let _ = unsafe { self.driver.hipGraphDestroy(graph) };
        }
        made.map(|()| Exec(exec))
    }

    unsafe fn launch_exec(&self, exec: Exec, stream: Stream) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller's promise.
        unsafe { self.driver.hipGraphLaunch(exec.0, stream.0) }
    }

    fn free_exec(&self, exec: Exec) {
        let streams = self.streams.lock();
        self.retired.lock().add(exec, streams.open());
        drop(streams);
        self.destroy_retired();
    }
}

impl Context {
    fn no_longer_captures(&self, stream: Stream) {
        self.retired.lock().capturing.retain(|s| *s != stream);
    }

    /// Destroys graphs that don't run any more.
    pub(crate) fn destroy_retired(&self) {
        // Of a lost device nothing runs.
        let ended = self.retired.lock().take_ended(|stream| self.is_idle(stream).unwrap_or(true));
        for exec in ended {
            // SAFETY: made once, and given back.
            let _ = unsafe { self.driver.hipGraphExecDestroy(exec.0) };
        }
    }

    /// Whether a graph of two launches does both each time, with a kernel that ships.
    pub(crate) fn graphs_work(&self) -> Result<bool> {
        if self.driver.hipGraphLaunch.is_none() {
            return Ok(false);
        }
        let Ok(image) = self.shipped("builtin", Build::Plain) else { return Ok(false) };
        let code = self.load_code(&image)?;
        let (stream, words) = (self.open_stream(Priority::RealTime)?, self.alloc(8)?);
        let seen = self.run_twice(code, stream, words);
        self.free(words);
        self.close_stream(stream);
        self.unload_code(code);
        Ok(seen.unwrap_or(false)) // a runtime that refuses has none
    }

    fn run_twice(&self, code: Code, stream: Stream, words: u64) -> Result<bool> {
        let Some(store) = self.function(code, "store")? else { return Ok(false) };
        self.begin_capture(stream)?;
        let captured = [1u64, 2].into_iter().zip([words, words + 4]).try_for_each(|(n, word)| {
            let (mut word, mut n) = (word, n);
            let mut params = [(&raw mut word).cast(), (&raw mut n).cast()];
            // SAFETY: the kernel's parameters; the word is ours.
            unsafe { self.launch(stream, store, [1; 3], [1; 3], 0, &mut params) }
        });
        let exec = self.end_capture(stream)?;
        let mut seen = [[0; 8]; 2];
        let mut runs = seen.iter_mut();
        let ran = captured.and_then(|()| {
            runs.try_for_each(|seen| {
                self.write(words, &[0; 8])?;
                // SAFETY: the words outlive the run, which is waited for.
                unsafe { self.launch_exec(exec, stream) }?;
                self.wait(stream)?;
                self.read(words, seen)
            })
        });
        self.free_exec(exec);
        ran.map(|()| seen.iter().all(|words| *words == [1, 0, 0, 0, 2, 0, 0, 0]))
    }
}
