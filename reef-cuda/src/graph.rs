//! Several launches that the driver takes at once.
//!
//! A graph is prepared for each queue that runs it, at its first run there: launches that can be stopped
//! have the addresses of the queue's flag and lists baked in. Addresses never change, and only stopped
//! blocks write to lists, so running it again needs no preparation. Its epoch stands in a word that is
//! written in front of each run.

use crate::Cuda;
use crate::driver::BACKEND;
use crate::guarded::{Epoch, Guarded, launch_plain};
use crate::own::{copy_launch, fill_launch};
use crate::record::{Record, whole};
use crate::slots::Slot;
use crate::stream::Stream;
use cudarc::driver::sys::{CUgraph, CUgraphExec};
use parking_lot::Mutex;
use reef_core::{Command, Error, Launch, Priority, Result};
use std::sync::{Arc, Weak};

/// `CU_STREAM_CAPTURE_MODE_RELAXED`: other threads, and allocations of ours, are not disturbed.
const RELAXED: u32 = 2;

/// A sequence of launches, ready to run as often as wanted.
#[derive(Debug, Clone)]
pub struct Graph(Arc<Sequence>);

#[derive(Debug)]
struct Sequence {
    launches: Vec<Launch<Cuda>>,
    blocks: u32,
    /// For each queue that has run it and is still there; several, if it has several runs in flight.
    prepared: Mutex<Vec<(Weak<()>, Arc<Exec>)>>,
}

impl Graph {
    pub(crate) fn new(cuda: &Cuda, commands: &[Command<Cuda>]) -> Result<Self> {
        let mut launches: Vec<_> =
            commands.iter().map(|command| launch_of(cuda, command)).collect::<Result<_>>()?;
        launches.retain(|launch| launch.blocks() > 0);
        let blocks = launches.iter().try_fold(0u32, |sum, l| sum.checked_add(l.blocks()));
        let Some(blocks) = blocks.filter(|&blocks| blocks > 0) else {
            return Err(Error::Invalid(format!(
                "{BACKEND}: a graph of no blocks, or of 2³² and more"
            )));
        };
        Ok(Self(Arc::new(Sequence { launches, blocks, prepared: Mutex::default() })))
    }

    /// Its launches in order; none is empty.
    pub(crate) fn launches(&self) -> &[Launch<Cuda>] {
        &self.0.launches
    }

    /// Blocks of all launches.
    pub(crate) fn blocks(&self) -> u32 {
        self.0.blocks
    }

    /// A record in which nothing has run.
    pub(crate) fn all(&self) -> Record {
        let first = self.launches()[0].blocks();
        Record::of(self.blocks(), 0, vec![whole(first)], self.blocks() - first)
    }

    /// The graph for a queue that nobody stops.
    pub(crate) fn plain(
        &self,
        cuda: &Cuda,
        queue: &Arc<()>,
        priority: Priority,
    ) -> Result<Arc<Exec>> {
        self.prepared(
            queue,
            |_| true,
            || {
                let stream = Stream::open(cuda.context(), priority)?;
                Exec::capture(&stream, cuda, || {
                    self.launches().iter().try_for_each(|launch| launch_plain(&stream, launch))?;
                    Ok(Vec::new())
                })
            },
        )
    }

    /// The graph for a queue that can be stopped.
    pub(crate) fn guarded(
        &self,
        cuda: &Cuda,
        queue: &Arc<()>,
        priority: Priority,
        guarded: &mut Guarded,
        epoch: Epoch,
    ) -> Result<Arc<Exec>> {
        let is_free = |exec: &Arc<Exec>| Arc::strong_count(exec) == 1; // launches in flight have it
        self.prepared(queue, is_free, || {
            let stream = Stream::open(cuda.context(), priority)?;
            Exec::capture(&stream, cuda, || {
                let mut launch_one = |launch: &Launch<Cuda>| {
                    guarded.launch(&stream, launch, &whole(launch.blocks()), epoch)
                };
                self.launches().iter().map(&mut launch_one).collect()
            })
        })
    }

    /// One that `queue` has run before and that `may_run` now, or a new one.
    fn prepared(
        &self,
        queue: &Arc<()>,
        may_run: impl Fn(&Arc<Exec>) -> bool,
        make: impl FnOnce() -> Result<Exec>,
    ) -> Result<Arc<Exec>> {
        let mut prepared = self.0.prepared.lock();
        let mine = |owner: &Weak<()>| owner.as_ptr() == Arc::as_ptr(queue);
        let found = prepared.iter().find(|(owner, exec)| mine(owner) && may_run(exec));
        if let Some((_, exec)) = found {
            return Ok(exec.clone());
        }
        prepared.retain(|(owner, _)| owner.strong_count() > 0);
        let exec = Arc::new(make()?);
        prepared.push((Arc::downgrade(queue), exec.clone()));
        Ok(exec)
    }
}

/// The launch that does the same.
fn launch_of(cuda: &Cuda, command: &Command<Cuda>) -> Result<Launch<Cuda>> {
    match command {
        Command::Launch(launch) => Ok(launch.clone()),
        Command::Copy(copy) => copy_launch(cuda, copy),
        Command::Fill(fill) => fill_launch(cuda, fill),
        other => Err(Error::Invalid(format!("{BACKEND}: a graph can't hold {other:?}"))),
    }
}

/// A graph as the driver runs it.
#[derive(Debug)]
pub(crate) struct Exec {
    raw: CUgraphExec,
    /// Of each launch, if they can be stopped.
    slots: Vec<Arc<Slot>>,
    cuda: Cuda,
}

// SAFETY: a handle that the driver lets any thread use, one at a time; queues take turns on the device.
unsafe impl Send for Exec {}
// SAFETY: as above.
unsafe impl Sync for Exec {}

impl Exec {
    /// Turns what `fill` launches on `stream` into a graph; it gives the slots of the launches.
    fn capture(
        stream: &Stream,
        cuda: &Cuda,
        fill: impl FnOnce() -> Result<Vec<Arc<Slot>>>,
    ) -> Result<Self> {
        let driver = cuda.context().driver;
        cuda.context().bind()?;
        let mut graph: CUgraph = std::ptr::null_mut();
        // SAFETY: the stream is ours and empty, and a capture that began is ended in any case.
        let (slots, ended) = unsafe {
            driver.cuStreamBeginCapture_v2(stream.raw(), RELAXED)?;
            let slots = fill();
            (slots, driver.cuStreamEndCapture(stream.raw(), &mut graph))
        };
        let mut raw: CUgraphExec = std::ptr::null_mut();
        let made = slots.and_then(|slots| {
            ended?;
            // SAFETY: the graph was captured just now.
            unsafe { driver.cuGraphInstantiateWithFlags(&mut raw, graph, 0) }?;
            Ok(Self { raw, slots, cuda: cuda.clone() })
        });
        if !graph.is_null() {
            // SAFETY: the driver has made its own copy.
            let _ = unsafe { driver.cuGraphDestroy(graph) };
        }
        let made = made?;
        // SAFETY: both are alive.
        unsafe { driver.cuGraphUpload(made.raw, stream.raw()) }?;
        Ok(made)
    }

    pub(crate) fn slots(&self) -> &[Arc<Slot>] {
        &self.slots
    }

    pub(crate) fn launch(&self, stream: &Stream) -> Result<()> {
        let context = self.cuda.context();
        context.bind()?;
        // SAFETY: both are alive; what the launches refer to is kept by the graph.
        unsafe { context.driver.cuGraphLaunch(self.raw, stream.raw()) }
    }
}

impl Drop for Exec {
    fn drop(&mut self) {
        let context = self.cuda.context();
        if context.bind().is_ok() {
            // SAFETY: made once. The driver frees it when its last run has ended.
            let _ = unsafe { context.driver.cuGraphExecDestroy(self.raw) };
        }
    }
}
