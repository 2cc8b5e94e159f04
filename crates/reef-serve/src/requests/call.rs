//! Requests that a process runs, alone or in batches.

use crate::engine::api::Instance;
use crate::engine::call::{Call, CallData, CallHead, CallInput, CallOutput, FilePart};
use crate::error::{Error, Result};
use crate::net::quota::stream_buffer::{SendError, StreamSender};
use crate::requests::batch::{Batch, Outcome};
use crate::requests::job::{BoundInput, BoundOutput, Input, Job, Output, Phases};
use std::thread;
use std::time::{Duration, Instant};

/// Interval at which a part is offered to a client that has not taken those before.
const SEND_INTERVAL: Duration = Duration::from_millis(1);

/// Maximum time that counts as one such interval: the daemon may have stood still.
const MAX_SEND_INTERVAL: Duration = Duration::from_millis(100);

/// Bytes that a part, and each of its outputs, counts as in addition to its data.
const PART_BYTES: u64 = 256;

/// Minimum bytes of an input that a process reads from a region by itself: to send a descriptor
/// costs more than to copy less.
const MIN_FILE_BYTES: usize = 64 << 10;

/// Maximum number of such inputs of a request or batch. Others are copied. Each takes a descriptor,
/// first of the daemon and then of the process.
const MAX_FILES: usize = 16;

impl Job {
    /// Has a process run it. Returns the requested outputs in that order; one that went to a region
    /// is empty. `others_wait`: whether another request waits for the process.
    ///
    /// # Errors
    ///
    /// Errors of the process, and of regions; `Exhausted` if the client of a stream is too slow.
    pub(super) fn call(
        &self,
        head: &CallHead,
        instance: &mut dyn Instance,
        left: Duration,
        others_wait: &dyn Fn() -> bool,
        phases: &mut Phases,
    ) -> Result<Vec<Vec<u8>>> {
        let began = Instant::now();
        let inputs = self.call_inputs(head, &mut max_files(instance))?;
        let outputs = self.call_outputs();
        let written = Instant::now();
        phases.input = written - began;
        let class = self.priority.class();
        let (gone, time) = (&|| self.is_gone(), left.saturating_sub(phases.input));
        let until = written + time;
        let part = &|part: Vec<CallOutput>| match &head.parts {
            Some(parts) => send(parts, part, until, others_wait),
            None => Err(client_gone()),
        };
        let (id, sequence) = (&*head.id, head.sequence.as_ref());
        let (inputs, outputs) = (&*inputs, &*outputs);
        let is_held = &|| false; // its process knows
        let call = Call { id, class, time, gone, is_held, sequence, inputs, outputs, part };
        let made = instance.call(call);
        phases.infer = written.elapsed();
        self.tenant.charge(class, phases.infer, phases.infer);
        let answered = Instant::now();
        let all = self.deliver_all(head, made?)?;
        phases.output = answered.elapsed();
        Ok(all)
    }

    /// Returns its inputs with their data. The process reads up to `files` of them by itself, which
    /// is left without these.
    fn call_inputs<'a>(&self, head: &'a CallHead, files: &mut usize) -> Result<Vec<CallInput<'a>>> {
        let mut all = Vec::with_capacity(self.inputs.len());
        for (tensor, input) in head.inputs.iter().zip(&self.inputs) {
            let part = if *files > 0 { file_part(input) } else { None };
            *files -= usize::from(part.is_some());
            let data = match part {
                Some(part) => CallData::File(part),
                None => data(input)?,
            };
            all.push(CallInput { tensor, data });
        }
        Ok(all)
    }

    /// Returns the indices of its outputs among the model's.
    fn call_outputs(&self) -> Vec<usize> {
        self.outputs.iter().map(|output| output.index).collect()
    }

    /// Brings the outputs to their destinations, and tells their sizes.
    fn deliver_all(&self, head: &CallHead, made: Vec<CallOutput>) -> Result<Vec<Vec<u8>>> {
        let all = self.outputs.iter().zip(&made).map(|(to, output)| deliver(to, output));
        let all = all.collect::<Result<Vec<_>>>()?;
        let _ = head.sizes.set(made.iter().map(CallOutput::size).collect());
        Ok(all)
    }
}

/// A request of a batch that can be sent.
struct ReadyRequest<'a> {
    /// Index in the batch.
    at: usize,
    job: &'a Job,
    head: &'a CallHead,
    inputs: Vec<CallInput<'a>>,
    outputs: Vec<usize>,
}

impl Batch {
    /// Has a process run all together; requests that are too late are left out. Returns the result
    /// of each.
    pub(crate) fn call(&self, instance: &mut dyn Instance) -> Vec<Outcome> {
        let began = Instant::now();
        let mut outcomes: Vec<Outcome> = self.jobs.iter().map(|job| job.begin(began)).collect();
        let ready = self.ready(&mut outcomes, max_files(instance));
        let written = Instant::now();
        let gone: Vec<_> = ready.iter().map(|one| move || one.job.is_gone()).collect();
        // A model with answers in parts has no batches.
        let part = &|_: Vec<CallOutput>| -> Result<()> { Ok(()) };
        let is_held = &|| false; // its process knows
        let calls: Vec<Call<'_>> = ready
            .iter()
            .zip(&gone)
            .map(|(one, gone)| Call {
                id: &one.head.id,
                class: one.job.priority.class(),
                time: one.job.deadline.saturating_duration_since(written),
                gone,
                is_held,
                sequence: one.head.sequence.as_ref(),
                inputs: &one.inputs,
                outputs: &one.outputs,
                part,
            })
            .collect();
        let results = instance.call_all(&calls);
        let infer = written.elapsed();
        let rows: usize = ready.iter().map(|one| one.job.row_count()).sum();
        for (one, result) in ready.iter().zip(results) {
            let (outcome, phases) = &mut outcomes[one.at];
            (phases.input, phases.infer) = (written - began, infer);
            let share = infer.mul_f64(one.job.row_count() as f64 / rows.max(1) as f64);
            one.job.tenant.charge(one.job.priority.class(), share, infer);
            let answered = Instant::now();
            *outcome = result.and_then(|made| one.job.deliver_all(one.head, made));
            phases.output = answered.elapsed();
        }
        outcomes
    }

    /// Prepares the requests that have not failed. The process reads up to `files` of their inputs
    /// by itself.
    fn ready(&self, outcomes: &mut [Outcome], mut files: usize) -> Vec<ReadyRequest<'_>> {
        let mut all = Vec::new();
        for (at, (job, (result, _))) in self.jobs.iter().zip(outcomes).enumerate() {
            let Some(head) = job.call.as_ref().filter(|_| result.is_ok()) else { continue };
            match job.call_inputs(head, &mut files) {
                Ok(inputs) => {
                    all.push(ReadyRequest { at, job, head, inputs, outputs: job.call_outputs() });
                }
                Err(error) => *result = Err(error),
            }
        }
        all
    }
}

/// Sends a part of an answer, as soon as there is room for it.
///
/// # Errors
///
/// `Unavailable` if the client is gone, `Deadline` if the request's time is over, `Exhausted` if
/// the client is too slow for others that wait.
fn send(
    parts: &StreamSender<Vec<CallOutput>>,
    mut part: Vec<CallOutput>,
    until: Instant,
    others_wait: &dyn Fn() -> bool,
) -> Result<()> {
    let data: usize = part.iter().map(|output| output.bytes.len()).sum();
    let bytes = data as u64 + PART_BYTES * (1 + part.len() as u64);
    loop {
        part = match parts.try_send(part, bytes) {
            Ok(()) => return Ok(()),
            Err(SendError::Closed) => return Err(client_gone()),
            Err(SendError::Full(back)) => back,
        };
        let begun = Instant::now();
        if begun >= until {
            let text = "timed out while the client did not read the parts of its answer";
            return Err(Error::Deadline(text.into()));
        }
        thread::sleep(SEND_INTERVAL);
        if others_wait() {
            parts.note_wait(begun.elapsed().min(MAX_SEND_INTERVAL))?;
        }
    }
}

fn client_gone() -> Error {
    Error::Unavailable("cancelled: the client disconnected".into())
}

/// Returns the number of inputs that a process may read by itself.
fn max_files(instance: &dyn Instance) -> usize {
    if instance.reads_files() { MAX_FILES } else { 0 }
}

/// Returns an input in a region for a process that reads it by itself, if that is worth it.
fn file_part(input: &BoundInput) -> Option<FilePart> {
    match &input.input {
        Input::Region(slice) if slice.bytes() >= MIN_FILE_BYTES => slice.for_process(),
        Input::Bytes(_) | Input::Region(_) | Input::Device(_) => None,
    }
}

fn data(input: &BoundInput) -> Result<CallData> {
    match &input.input {
        Input::Bytes(bytes) => Ok(CallData::Bytes(bytes.clone())),
        Input::Region(slice) => {
            let mut bytes = vec![0; slice.bytes()];
            slice.read(0, &mut bytes)?;
            Ok(CallData::Bytes(bytes.into()))
        }
        Input::Device(slice) => Ok(CallData::Device(slice.for_process())),
    }
}

/// Writes an output to its region, or returns its bytes.
fn deliver(to: &BoundOutput, output: &CallOutput) -> Result<Vec<u8>> {
    match &to.output {
        Output::Bytes => Ok(output.bytes.to_vec()),
        Output::Region(slice) if slice.bytes() >= output.bytes.len() => {
            slice.write(0, &output.bytes)?;
            Ok(Vec::new())
        }
        Output::Region(slice) => {
            let (max, got) = (slice.bytes(), output.bytes.len());
            Err(Error::Invalid(format!(
                "an output in a region must be at most its {max} bytes, got {got}"
            )))
        }
        Output::Device(_) => Err(in_device_memory()),
    }
}

/// Refuses tensors in device memory.
pub(crate) fn in_device_memory() -> Error {
    Error::Unimplemented("device memory with a model that is a process".into())
}
