//! One inference on its way through the daemon.

use crate::class::Priority;
use crate::engine::api::{Instance, Instances, Run};
use crate::engine::call::{CallHead, CallSequence};
use crate::engine::shared::{SharedPart, SharedParts};
use crate::error::{Error, Result};
use crate::net::identity::client_id::ClientId;
use crate::requests::device_memory::DeviceSlice;
use crate::requests::shared_memory::Slice;
use crate::tenants::tenant::Tenant;
use bytes::Bytes;
use reef::Account;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::oneshot::{self, error::TryRecvError};

/// Bytes that are copied at a time between a region and an instance; they fit in the cache.
const CHUNK: usize = 64 << 10;

/// Source of an input.
#[derive(Debug)]
pub(crate) enum Input {
    Bytes(Bytes),
    Region(Slice),
    Device(DeviceSlice),
}

/// Destination of an output.
#[derive(Debug)]
pub(crate) enum Output {
    Bytes,
    Region(Slice),
    Device(DeviceSlice),
}

/// Durations of a request's phases.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Phases {
    pub(crate) queue: Duration,
    pub(crate) input: Duration,
    pub(crate) infer: Duration,
    pub(crate) output: Duration,
    /// Time until the first real-time command could start.
    pub(crate) delay: Option<Duration>,
}

impl Phases {
    pub(crate) fn total(&self) -> Duration {
        self.queue + self.input + self.infer + self.output
    }
}

/// Rows of a request that may run in a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rows {
    /// Size of the first dimension of its tensors.
    pub(crate) count: usize,
    /// Other dimensions of its inputs.
    pub(crate) others: Vec<Vec<usize>>,
}

impl Rows {
    /// Returns the shapes of its inputs.
    pub(crate) fn shapes(&self) -> Vec<Vec<usize>> {
        self.others.iter().map(|others| [&[self.count], &others[..]].concat()).collect()
    }
}

/// A request that waits for an instance. The client that waits for the answer holds the other end
/// of `reply`.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) client: ClientId,
    pub(crate) tenant: Arc<Tenant>,
    pub(crate) priority: Priority,
    /// Account that it is charged to if it is real-time.
    pub(crate) account: Account,
    /// True if that account belongs to its client, which stated a rate.
    pub(crate) has_stated_rate: bool,
    /// Instances of the network for its shapes.
    pub(crate) instances: Arc<dyn Instances>,
    /// Set if it may run in a batch.
    pub(crate) rows: Option<Rows>,
    /// Set if a process runs it.
    pub(crate) call: Option<CallHead>,
    pub(crate) inputs: Vec<BoundInput>,
    pub(crate) outputs: Vec<BoundOutput>,
    pub(crate) arrived: Instant,
    pub(crate) deadline: Instant,
    pub(crate) reply: oneshot::Sender<Reply>,
}

/// Outputs of a request, or its error, and how long it took.
pub(crate) type Reply = (Result<Vec<Vec<u8>>>, Phases);

/// Returns whether this time is still to come.
pub(super) fn is_before(time: Option<Instant>) -> bool {
    time.is_some_and(|time| Instant::now() < time)
}

/// Waits for an answer; `None` if there will be none. Until `awake` the thread polls for it,
/// between work of other connections, and does not have to be woken.
pub(crate) async fn reply_of(
    mut answer: oneshot::Receiver<Reply>,
    awake: Option<Instant>,
) -> Option<Reply> {
    while is_before(awake) {
        match answer.try_recv() {
            Err(TryRecvError::Empty) => {
                thread::yield_now(); // the program may need this processor
                tokio::task::yield_now().await;
            }
            done => return done.ok(),
        }
    }
    answer.await.ok()
}

/// An input, with its offset among the model's inputs.
#[derive(Debug)]
pub(crate) struct BoundInput {
    /// Index of the tensor.
    pub(crate) index: usize,
    pub(crate) offset: usize,
    pub(crate) input: Input,
}

/// A requested output, with its offset among the model's outputs.
#[derive(Debug)]
pub(crate) struct BoundOutput {
    /// Index of the tensor.
    pub(crate) index: usize,
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
    /// Offset of its size among the model's outputs, if data decide it. The size follows its bytes.
    pub(crate) size: Option<usize>,
    pub(crate) output: Output,
}

impl Job {
    /// Returns the sequence that it belongs to, if a process keeps its state.
    pub(crate) fn sequence(&self) -> Option<&CallSequence> {
        self.call.as_ref()?.sequence.as_ref()
    }

    /// True if the worker with this number among those of its class may run it.
    pub(crate) fn is_for(&self, worker: usize) -> bool {
        let process = self.sequence().and_then(|sequence| sequence.process);
        process.is_none_or(|process| process.worker.number == worker)
    }

    /// True if its client has disconnected.
    pub(crate) fn is_gone(&self) -> bool {
        self.reply.is_closed()
    }

    /// Runs it on `instance`. Returns the requested outputs in that order; one that went to a
    /// region is empty. `others_wait`: whether another request waits for the instance.
    ///
    /// # Errors
    ///
    /// `Deadline` if its time was over before it began; errors of the region and the device.
    pub(crate) fn run(
        &self,
        instance: &mut dyn Instance,
        others_wait: &dyn Fn() -> bool,
        phases: &mut Phases,
    ) -> Result<Vec<Vec<u8>>> {
        let began = Instant::now();
        phases.queue = began - self.arrived;
        let left = self.deadline.saturating_duration_since(began);
        if left.is_zero() {
            let text = format!("timed out after {:?} in the queue", phases.queue);
            return Err(Error::Deadline(text));
        }
        if let Some(head) = &self.call {
            return self.call(head, instance, left, others_wait, phases);
        }
        self.inputs.iter().try_for_each(|input| input.write(instance))?;
        let written = Instant::now();
        phases.input = written - began;
        let (gone, account) = (&|| self.is_gone(), &self.account);
        let inputs: Vec<_> =
            self.inputs.iter().filter_map(|input| input.part(input.offset)).collect();
        let outputs: Vec<_> =
            self.outputs.iter().filter_map(|output| output.part(output.offset)).collect();
        let shared = SharedParts { inputs: &inputs, outputs: &outputs };
        let ran =
            instance.run(Run { slot: None, shared, time: left, gone, account, notice: None })?;
        phases.delay = ran.delay;
        let device = ran.device;
        let ran = Instant::now();
        phases.infer = ran - written;
        self.tenant.charge(self.priority.class(), device, phases.infer);
        let bytes = self.outputs.iter().map(|output| output.read(instance)).collect();
        phases.output = ran.elapsed();
        bytes
    }
}

impl BoundInput {
    fn write(&self, instance: &mut dyn Instance) -> Result<()> {
        self.write_at(instance, self.offset)
    }

    /// Returns its source, if the device copies it, for byte `offset` of the model's inputs.
    pub(super) fn part(&self, offset: usize) -> Option<SharedPart> {
        match &self.input {
            Input::Bytes(_) | Input::Region(_) => None,
            Input::Device(slice) => Some(slice.at(offset)),
        }
    }

    /// Writes it at byte `offset` of the model's inputs, unless the device copies it.
    pub(super) fn write_at(&self, instance: &mut dyn Instance, offset: usize) -> Result<()> {
        match &self.input {
            Input::Bytes(bytes) => instance.write(offset, bytes),
            Input::Region(slice) => chunks(slice.bytes(), |at, chunk| {
                slice.read(at, chunk)?;
                instance.write(offset + at, chunk)
            }),
            Input::Device(_) => Ok(()),
        }
    }
}

impl BoundOutput {
    fn read(&self, instance: &mut dyn Instance) -> Result<Vec<u8>> {
        self.read_at(instance, self.offset)
    }

    /// Returns its destination, if the device copies it, for byte `offset` of the model's outputs.
    pub(super) fn part(&self, offset: usize) -> Option<SharedPart> {
        match &self.output {
            Output::Bytes | Output::Region(_) => None,
            Output::Device(slice) => Some(slice.at(offset)),
        }
    }

    /// Reads it from byte `offset` of the model's outputs, unless the device has copied it.
    pub(super) fn read_at(&self, instance: &mut dyn Instance, offset: usize) -> Result<Vec<u8>> {
        match &self.output {
            Output::Bytes => {
                let mut data = vec![0; self.bytes];
                instance.read(offset, &mut data)?;
                if let Some(size) = self.size {
                    let mut number = [0; 8];
                    instance.read(size, &mut number)?;
                    data.extend(number);
                }
                Ok(data)
            }
            Output::Region(slice) => {
                chunks(slice.bytes(), |at, chunk| {
                    instance.read(offset + at, chunk)?;
                    slice.write(at, chunk)
                })?;
                Ok(Vec::new())
            }
            Output::Device(_) => {
                instance.read(offset, &mut [])?; // an error if a loop of the network did not end
                Ok(Vec::new())
            }
        }
    }
}

/// Calls `each` for consecutive chunks of `bytes` bytes, with their offset and a buffer for them.
pub(crate) fn chunks(
    bytes: usize,
    mut each: impl FnMut(usize, &mut [u8]) -> Result<()>,
) -> Result<()> {
    let mut buffer = vec![0; bytes.min(CHUNK)];
    for at in (0..bytes).step_by(CHUNK) {
        let length = CHUNK.min(bytes - at);
        each(at, &mut buffer[..length])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::task::{Context, Poll, Wake};

    const HOUR: Duration = Duration::from_secs(3600);

    fn reply() -> Reply {
        (Ok(vec![vec![7]]), Phases::default())
    }

    #[test]
    fn other_work_of_a_thread_goes_on_while_it_is_awake() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let found = runtime.block_on(async {
            let (send, answer) = oneshot::channel();
            // On the one thread that there is, so only if the wait for the answer lets it run.
            tokio::spawn(async move { send.send(reply()) });
            reply_of(answer, Some(Instant::now() + HOUR)).await
        });
        assert_eq!(found.unwrap().0.unwrap(), [[7]]);
    }

    #[test]
    fn no_answer_is_awaited_that_cannot_come() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for awake in [None, Some(Instant::now() + HOUR)] {
            let (send, answer) = oneshot::channel();
            drop(send);
            assert!(runtime.block_on(reply_of(answer, awake)).is_none());
        }
    }

    #[test]
    fn thread_sleeps_once_its_time_awake_is_over() {
        struct Wakes(AtomicUsize);
        impl Wake for Wakes {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Relaxed);
            }
        }
        let wakes = Arc::new(Wakes(AtomicUsize::new(0)));
        let waker = Arc::clone(&wakes).into();
        let (send, answer) = oneshot::channel();
        let mut waiting = pin!(reply_of(answer, Some(Instant::now())));
        assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(wakes.0.load(Relaxed), 0);
        send.send(reply()).unwrap();
        assert_eq!(wakes.0.load(Relaxed), 1);
        assert!(matches!(waiting.poll(&mut Context::from_waker(&waker)), Poll::Ready(Some(_))));
    }

    #[test]
    fn chunks_cover_all_bytes_once() {
        for bytes in [0, 1, CHUNK, CHUNK + 1, 3 * CHUNK - 4] {
            let mut next = 0;
            chunks(bytes, |at, chunk| {
                assert_eq!(at, next);
                next += chunk.len();
                Ok(())
            })
            .unwrap();
            assert_eq!(next, bytes);
        }
    }
}
