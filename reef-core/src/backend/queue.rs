//! One hardware queue, and the one place from commands to its calls.

use crate::backend::command::{Command, Copy, Fill, Launch};
use crate::backend::error::{Error, Result};
use crate::backend::info::Seq;
use crate::backend::resources::Padding;
use crate::backend::types::Backend;
use std::fmt::Debug;
use std::thread::Thread;

/// State of the work that a stopped queue had on the device.
///
/// ```
/// use reef_core::{Cells, Device, Drained, PreemptLevel, Preemptor, Priority, Queue, Seq};
/// use reef_cpu::Cpu;
///
/// let device = Cpu::open(0, "units=1")?;
/// let preemptor = device.preemptor(PreemptLevel::DeviceQueue)?;
/// let mut queue = device.queue(Priority::BestEffort, Some(&preemptor))?;
/// preemptor.evict()?;
/// queue.launch(Seq(0), &Cells::new(&device, 4)?.launch(7, 0), None)?; // not run
/// let drained = queue.try_drain()?.expect("nothing runs");
/// assert_eq!(drained.resume_at, Seq(0));
/// assert!(matches!(drained, Drained { partial: None, held: false, .. }));
/// # Ok::<(), reef_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Drained<B: Backend> {
    /// Every command before this one has finished; no later one has started.
    pub resume_at: Seq,
    /// The part of `resume_at` that is left, if some of it has run. Launch it again with this.
    pub partial: Option<B::Checkpoint>,
    /// `resume_at` and what was launched after it stay with the device, which holds them back: they
    /// go on by themselves when the queue may run again. Otherwise they are to be launched again.
    pub held: bool,
}

/// One hardware queue: commands run in the order given, one after the other.
///
/// Methods take `&mut self`, so only the owner of the queue launches on it. None of them waits for
/// the device. `seq` only grows, but not by one each time. Dropping a queue waits for what runs;
/// what has not started may be stopped.
///
/// Callers may drop what they launched at once. A queue keeps what each command needs on the device
/// (the kernel, what [`Launch::keep`] names, the buffers of copies and fills, graphs, events,
/// checkpoints) from before the device sees it until [`completed`](Self::completed) passes it,
/// [`try_drain`](Self::try_drain) takes it back, or the queue is dropped. That is what makes these
/// methods safe.
///
/// ```
/// use reef_core::{Cells, Device, Priority, Queue, Seq, appended};
/// use reef_cpu::Cpu;
///
/// let device = Cpu::open(0, "units=1")?;
/// let cells = Cells::new(&device, 4)?;
/// let mut queue = device.queue(Priority::BestEffort, None)?;
/// queue.launch(Seq(0), &cells.launch(7, 0), None)?;
/// queue.launch(Seq(1), &cells.launch(8, 0), None)?;
/// while queue.completed()? < Seq(2) {}
/// assert_eq!(cells.read()?, [appended([7, 8]); 4]);
/// # Ok::<(), reef_core::Error>(())
/// ```
pub trait Queue: Debug + Send + 'static {
    /// Backend whose commands it runs.
    type Backend: Backend;

    /// Hands a kernel to the hardware. With `resume`, only the blocks that remain run.
    ///
    /// # Errors
    ///
    /// Returns an error of the driver. The kernel has then not been queued.
    fn launch(
        &mut self,
        seq: Seq,
        launch: &Launch<Self::Backend>,
        resume: Option<&<Self::Backend as Backend>::Checkpoint>,
    ) -> Result<()>;

    /// Launches `rt` with blocks of `be` next to it, at most as many as [`Padding`] says.
    ///
    /// `be` runs only on units that `rt` leaves free and never delays its completion: blocks that
    /// are late are stopped. Which of its blocks have run stands in `record`. Only called where
    /// [`Device::colocation`](crate::Device::colocation) is
    /// [`Colocation::Padded`](crate::Colocation::Padded).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`launch`](Self::launch).
    fn launch_padded(
        &mut self,
        _seq: Seq,
        _rt: &Launch<Self::Backend>,
        _padding: &Padding,
        _be: &Launch<Self::Backend>,
        _record: &<Self::Backend as Backend>::Checkpoint,
    ) -> Result<()> {
        let what = "padding kernel by kernel".into();
        Err(Error::Unsupported { backend: Self::Backend::NAME, what })
    }

    /// Hands a graph to the hardware. With `resume`, only what remains runs.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`launch`](Self::launch).
    fn launch_graph(
        &mut self,
        _seq: Seq,
        _graph: &<Self::Backend as Backend>::Graph,
        _resume: Option<&<Self::Backend as Backend>::Checkpoint>,
    ) -> Result<()> {
        Err(Error::Unsupported { backend: Self::Backend::NAME, what: "graphs".into() })
    }

    /// Copies between buffers.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`launch`](Self::launch).
    fn copy(&mut self, seq: Seq, copy: &Copy<Self::Backend>) -> Result<()>;

    /// Fills a part of a buffer.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`launch`](Self::launch).
    fn fill(&mut self, seq: Seq, fill: &Fill<Self::Backend>) -> Result<()>;

    /// Lets `event` be reached when all earlier commands have finished.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`launch`](Self::launch).
    fn record(&mut self, seq: Seq, event: &<Self::Backend as Backend>::Event) -> Result<()>;

    /// Hands a command to the hardware between two events: the first is reached when it begins, the
    /// second when it ends. Two [`record`](Self::record)s and the command's own call do the same in
    /// more launches. `false`: this device can't, or not now; then nothing has been launched. An
    /// event is used again when [`completed`](Self::completed) has passed this one.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`launch`](Self::launch). An event may be on the device.
    fn launch_between(
        &mut self,
        _seq: Seq,
        _command: &Command<Self::Backend>,
        _events: [Option<&<Self::Backend as Backend>::Event>; 2],
    ) -> Result<bool> {
        Ok(false)
    }

    /// All commands before the returned position have finished. Doesn't block.
    ///
    /// # Errors
    ///
    /// `DeviceLost`, or the error of a kernel that failed.
    fn completed(&mut self) -> Result<Seq>;

    /// All padding of commands before the returned position has ended: it may be behind
    /// [`completed`](Self::completed), because blocks that were told to stop run to their next
    /// preemption point. Doesn't block.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`completed`](Self::completed).
    fn padding_ended(&mut self) -> Result<Seq> {
        self.completed()
    }

    /// If nothing of this queue runs or will run by itself: takes back what it still has.
    ///
    /// `None` means that the device is not done yet. Without an eviction it is when all commands
    /// have finished; after one, when all running blocks have ended.
    ///
    /// After an eviction nothing is launched from the first call until one gives `Some`, also if
    /// queues were [reactivated](crate::Preemptor::reactivate) meanwhile: what is launched in
    /// between may be missing in the answer.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`completed`](Self::completed).
    fn try_drain(&mut self) -> Result<Option<Drained<Self::Backend>>>;

    /// Releases what the evicted queue keeps on the device ([`Drained::held`]): it goes on at once,
    /// next to real-time work, and the queue will not be restored.
    fn release_held(&mut self) {}

    /// Gives up the work of this queue that the device has not returned: the caller asks the queue
    /// nothing more, and dropping it returns soon. What its commands need on the device is kept
    /// until they have ended, or for ever. Without this method, dropping it may take for ever.
    fn abandon(&mut self) {}

    /// Returns whether it has abandoned its work by itself, as [`abandon`](Self::abandon) does,
    /// before one of its errors.
    fn is_abandoned(&self) -> bool {
        false
    }

    /// From now on at most `blocks` blocks of this queue run at a time, so that real-time kernels
    /// find room next to them; `None`: as many as there are. Only where
    /// [`Device::colocation`](crate::Device::colocation) says so.
    fn cap_blocks(&mut self, _blocks: Option<u32>) {}

    /// From now on whole graphs run on this part of the units in percent: the first ones if the
    /// queue is a real-time one, else the last ones. 100: on all. Only where
    /// [`Device::has_parts`](crate::Device::has_parts) says so.
    fn run_on(&mut self, _percent: u32) {}

    /// Names the thread that the device unparks when [`completed`](Self::completed) reaches what
    /// [`wake_at`](Self::wake_at) asked for, or when a [`try_drain`](Self::try_drain) that gave
    /// `None` would give more. `false`: this device wakes no thread, poll instead.
    fn wake(&mut self, thread: Thread) -> bool;

    /// Asks for the thread to be unparked when all commands before `seq` have finished. The newest
    /// call counts. If they have already, no thread is unparked: check again after calling.
    fn wake_at(&mut self, _seq: Seq) {}
}

/// Hands the command to the hardware: the one place that maps commands to queue calls.
///
/// Returns whether it is already complete, as what happens on the host is: waiting for an event and
/// running host code are the caller's.
///
/// # Errors
///
/// Returns the error of the queue's call, such as [`Queue::launch`]. The command has then not been
/// queued.
#[inline]
pub fn issue<Q: Queue>(
    command: &Command<Q::Backend>,
    seq: Seq,
    resume: Option<&<Q::Backend as Backend>::Checkpoint>,
    queue: &mut Q,
) -> Result<bool> {
    match command {
        Command::Launch(launch) => queue.launch(seq, launch, resume)?,
        Command::Graph(graph) => queue.launch_graph(seq, graph, resume)?,
        Command::Copy(copy) => queue.copy(seq, copy)?,
        Command::Fill(fill) => queue.fill(seq, fill)?,
        Command::Record(event) => queue.record(seq, event)?,
        Command::Wait(_) | Command::Host(_) => return Ok(true),
    }
    Ok(false)
}
