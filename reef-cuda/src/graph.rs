//! Several launches that the driver takes at once.

use crate::context::Context;
use crate::handles::{Exec, Stream};
use reef_core::Result;
use reef_gpu::Graphs;
use std::ffi::c_uint;

/// `CU_STREAM_CAPTURE_MODE_RELAXED`: other threads, and allocations of ours, are not disturbed.
const RELAXED: c_uint = 2;

impl Graphs for Context {
    type Exec = Exec;

    unsafe fn begin_capture(&self, stream: Stream) -> Result<()> {
        self.bind()?;
        // SAFETY: the stream is open.
        unsafe { self.driver.cuStreamBeginCapture_v2(stream.0, RELAXED) }
    }

    unsafe fn end_capture(&self, stream: Stream) -> Result<Exec> {
        self.bind()?;
        let (mut graph, mut exec) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the stream is being captured; the driver makes its own copy of the graph.
        unsafe {
            self.driver.cuStreamEndCapture(stream.0, &mut graph)?;
            let made = self.driver.cuGraphInstantiateWithFlags(&mut exec, graph, 0);
            let _ = self.driver.cuGraphDestroy(graph);
            made?;
            let uploaded = self.driver.cuGraphUpload(exec, stream.0);
            uploaded.inspect_err(|_| self.free_exec(Exec(exec)))?;
        }
        Ok(Exec(exec))
    }

    unsafe fn launch_exec(&self, exec: Exec, stream: Stream) -> Result<()> {
        self.bind()?;
        // SAFETY: reef-gpu's `Exec` and `Stream` own both handles, and end them when they are
        // dropped. What the launches refer to outlives the run: `Graphs::launch_exec` demands it.
        unsafe { self.driver.cuGraphLaunch(exec.0, stream.0) }
    }

    unsafe fn free_exec(&self, exec: Exec) {
        if self.bind().is_ok() {
            // SAFETY: made once. The driver frees it when its last run has ended.
            let _ = unsafe { self.driver.cuGraphExecDestroy(exec.0) };
        }
    }
}
