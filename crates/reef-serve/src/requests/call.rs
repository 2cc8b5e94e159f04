//! A request that a process runs.

use crate::engine::api::Instance;
use crate::engine::call::{Call, CallHead, CallInput, CallOutput};
use crate::error::{Error, Result};
use crate::requests::job::{BoundInput, BoundOutput, Input, Job, Output, Phases};
use bytes::Bytes;
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;

/// Interval at which a part is offered to a client that has not taken those before.
const SEND_INTERVAL: Duration = Duration::from_millis(1);

impl Job {
    /// Has a process run it. Returns the requested outputs in that order; one that went to a region
    /// is empty.
    ///
    /// # Errors
    ///
    /// Errors of the process, and of regions.
    pub(super) fn call(
        &self,
        head: &CallHead,
        instance: &mut dyn Instance,
        left: Duration,
        phases: &mut Phases,
    ) -> Result<Vec<Vec<u8>>> {
        let began = Instant::now();
        let bytes = self.inputs.iter().map(data).collect::<Result<Vec<_>>>()?;
        let inputs =
            head.inputs.iter().zip(bytes).map(|(tensor, bytes)| CallInput { tensor, bytes });
        let inputs: Vec<_> = inputs.collect();
        let outputs: Vec<usize> = self.outputs.iter().map(|output| output.index).collect();
        let written = Instant::now();
        phases.input = written - began;
        let class = self.priority.class();
        let (gone, time) = (&|| self.is_gone(), left.saturating_sub(phases.input));
        let until = written + time;
        let part = &|part| head.parts.as_ref().is_some_and(|parts| send(parts, part, until));
        let (id, inputs, outputs) = (&*head.id, &*inputs, &*outputs);
        let call = Call { id, class, time, gone, inputs, outputs, part };
        let made = instance.call(call);
        phases.infer = written.elapsed();
        self.tenant.charge(class, phases.infer, phases.infer);
        let (answered, made) = (Instant::now(), made?);
        let all = self.outputs.iter().zip(&made).map(|(to, output)| deliver(to, output));
        let all = all.collect::<Result<Vec<_>>>()?;
        let _ = head.shapes.set(made.into_iter().map(|output| output.shape).collect());
        phases.output = answered.elapsed();
        Ok(all)
    }
}

/// Sends a part of an answer, as soon as its client has taken those before. Returns `false` if the
/// client is gone, or the request's time is over.
fn send(parts: &Sender<Vec<CallOutput>>, mut part: Vec<CallOutput>, until: Instant) -> bool {
    loop {
        match parts.try_send(part) {
            Ok(()) => return true,
            Err(TrySendError::Full(back)) if Instant::now() < until => part = back,
            Err(_) => return false,
        }
        thread::sleep(SEND_INTERVAL);
    }
}

/// Returns the data of an input.
fn data(input: &BoundInput) -> Result<Bytes> {
    match &input.input {
        Input::Bytes(bytes) => Ok(bytes.clone()),
        Input::Region(slice) => {
            let mut bytes = vec![0; slice.bytes()];
            slice.read(0, &mut bytes)?;
            Ok(bytes.into())
        }
        Input::Device(_) => Err(in_device_memory()),
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
