//! A device without hardware: commands are done when the call returns, on the caller's thread.
//!
//! Copies and fills take effect. Kernels do nothing, or call a function. The rest is the cost of
//! the queues above it, for benches; and memory and commands that fit together, for tests of code
//! that makes commands. It passes no suite: nothing on it can be stopped, because nothing is ever
//! under way.

use crate::tensors;
use reef_core::dkp::Padding;
use reef_core::{
    Args, Backend, Colocation, Copy, Device, DeviceInfo, Drained, Error, Event, Fill, Launch,
    NoGraph, PreemptLevel, Preemptor, Priority, Queue, Result, Seq,
};
use reef_op::tensor::{Kind, TensorOp};
use reef_op::{Format, Op, Operands, Operators, Quantization, Storage, TensorOperands};
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// The device.
#[derive(Debug, Clone)]
pub struct Null(Arc<Open>);

#[derive(Debug)]
struct Open {
    opened: Instant,
    /// Nanoseconds after `opened`. Written by queues.
    launched_at: AtomicU64,
    compute: Compute,
    quantization: QuantizationFn,
    /// It has operations of tensors.
    tensors: bool,
}

/// Inputs of one operation of a network.
#[derive(Debug)]
pub struct Inputs {
    /// The storage of [`Op::input`].
    pub input: Vec<f32>,
    /// The storage of [`Op::second`], if there is one.
    pub second: Option<Vec<f32>>,
    /// As [`Op::constants`] orders them.
    pub weights: Vec<f32>,
    /// One value per output channel.
    pub bias: Vec<f32>,
}

type ComputeFn = dyn Fn(&Op, &Inputs, &mut [f32]) + Send + Sync;
type QuantizationFn = fn(&Op) -> Quantization;

/// Computes operations of networks; `None`: they do nothing.
#[derive(Clone)]
struct Compute(Option<Arc<ComputeFn>>);

impl fmt::Debug for Compute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Compute")
    }
}

impl Null {
    /// A device on which operations of networks do what `compute` does: it reads the inputs, and
    /// writes the storage of [`Op::output`].
    pub fn computing(compute: impl Fn(&Op, &Inputs, &mut [f32]) + Send + Sync + 'static) -> Self {
        Self::with(Compute(Some(Arc::new(compute))), |_| Quantization::default(), false)
    }

    /// The device with kernels that take numbers of 8 bits, of any format: `quantization` returns
    /// the tensors of an operation that may have them.
    pub fn with_quantization(self, quantization: fn(&Op) -> Quantization) -> Self {
        Self::with(self.0.compute.clone(), quantization, self.0.tensors)
    }

    /// The device with operations of tensors by their definitions. Convolutions between numbers of
    /// 8 bits that its kernels take are computed by those, as on a GPU.
    pub fn with_tensors(self) -> Self {
        Self::with(self.0.compute.clone(), self.0.quantization, true)
    }

    fn with(compute: Compute, quantization: QuantizationFn, tensors: bool) -> Self {
        let (opened, launched_at) = (Instant::now(), AtomicU64::new(0));
        Self(Arc::new(Open { opened, launched_at, compute, quantization, tensors }))
    }

    /// When the newest command came, on the [clock](Device::clock) of the device.
    pub fn launched_at(&self) -> Duration {
        Duration::from_nanos(self.0.launched_at.load(Ordering::Acquire))
    }

    /// A launch with a full set of arguments that does nothing.
    pub fn launch() -> Launch<Self> {
        let args = Args::new(&[1, 2, 3, 4, 5, 6, 7, 8]);
        // SAFETY: the kernel does nothing.
        unsafe { Launch::new(Kernel(None), [64, 1, 1], [256, 1, 1], args) }
    }
}

/// Bytes of the host.
#[derive(Debug, Clone)]
pub struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Buffer {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn range(&self, offset: usize, bytes: usize) -> Result<Range<usize>> {
        let have = self.bytes().len();
        match offset.checked_add(bytes) {
            Some(end) if end <= have => Ok(offset..end),
            _ => Err(Error::invalid(
                "range",
                format!("must be inside a buffer of {have} bytes, got {bytes} at {offset}"),
            )),
        }
    }

    fn floats(&self, offset: usize, elements: usize) -> Vec<f32> {
        let bytes = self.bytes();
        let (words, _) = bytes[offset..offset + elements * 4].as_chunks();
        words.iter().map(|&word| f32::from_ne_bytes(word)).collect()
    }

    fn put(&self, offset: usize, values: &[f32]) {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        self.bytes()[offset..offset + bytes.len()].copy_from_slice(&bytes);
    }
}

/// A function that a launch calls once, or nothing.
#[derive(Clone)]
pub struct Kernel(Option<Arc<dyn Fn() + Send + Sync>>);

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kernel")
    }
}

/// Events are reached and checkpoints are complete from the beginning.
#[derive(Debug, Clone)]
pub struct Done;

impl Event for Done {
    fn reached(&self) -> Option<Duration> {
        Some(Duration::ZERO)
    }
}

impl reef_core::Checkpoint for Done {
    fn remaining(&self) -> u32 {
        0
    }
}

/// Has nothing to stop.
#[derive(Debug)]
pub struct NullPreemptor(PreemptLevel);

impl Preemptor for NullPreemptor {
    /// Its stop is a word of the host, which no queue reads.
    fn needs_room(&self) -> bool {
        false
    }

    fn level(&self) -> PreemptLevel {
        self.0
    }

    fn evict(&self) -> Result<()> {
        Ok(())
    }

    fn reset(&self) -> Result<()> {
        Ok(())
    }

    fn reactivate(&self) -> Result<()> {
        Ok(())
    }
}

/// A queue that is always empty.
#[derive(Debug)]
pub struct NullQueue {
    device: Null,
    done: Seq,
}

impl NullQueue {
    fn finish(&mut self, Seq(at): Seq) -> Result<()> {
        self.done = Seq(at + 1);
        let now = self.device.clock().as_nanos() as u64;
        self.device.0.launched_at.store(now, Ordering::Release);
        Ok(())
    }
}

impl Queue for NullQueue {
    type Backend = Null;

    fn launch(&mut self, seq: Seq, launch: &Launch<Null>, _: Option<&Done>) -> Result<()> {
        if let Kernel(Some(run)) = launch.kernel() {
            run();
        }
        self.finish(seq)
    }

    fn launch_padded(
        &mut self,
        seq: Seq,
        rt: &Launch<Null>,
        _: &Padding,
        _: &Launch<Null>,
        _: &Done,
    ) -> Result<()> {
        self.launch(seq, rt, None)
    }

    fn copy(&mut self, seq: Seq, copy: &Copy<Null>) -> Result<()> {
        let from = copy.from.range(copy.from_offset, copy.bytes)?;
        let to = copy.to.range(copy.to_offset, copy.bytes)?;
        let bytes = copy.from.bytes()[from].to_vec();
        copy.to.bytes()[to].copy_from_slice(&bytes);
        self.finish(seq)
    }

    fn fill(&mut self, seq: Seq, fill: &Fill<Null>) -> Result<()> {
        let range = fill.buffer.range(fill.offset, fill.bytes)?;
        let mut bytes = fill.buffer.bytes();
        let (words, _) = bytes[range].as_chunks_mut();
        words.fill(fill.word.to_ne_bytes());
        drop(bytes);
        self.finish(seq)
    }

    fn record(&mut self, seq: Seq, _: &Done) -> Result<()> {
        self.finish(seq)
    }

    fn completed(&mut self) -> Result<Seq> {
        Ok(self.done)
    }

    fn try_drain(&mut self) -> Result<Option<Drained<Null>>> {
        Ok(Some(Drained { resume_at: self.done, partial: None, held: false }))
    }

    fn wake(&mut self, _: Thread) -> bool {
        false
    }
}

impl Backend for Null {
    const NAME: &'static str = "null";
    type Buffer = Buffer;
    type Kernel = Kernel;
    type Event = Done;
    type Checkpoint = Done;
    type Graph = NoGraph;
}

impl Device for Null {
    type Options = ();
    type Queue = NullQueue;
    type Preemptor = NullPreemptor;

    fn parse_options(_: &str) -> Result<()> {
        Ok(())
    }

    fn open_with(_: usize, (): ()) -> Result<Self> {
        Ok(Self::with(Compute(None), |_| Quantization::default(), false))
    }

    fn info(&self) -> DeviceInfo {
        DeviceInfo::new("nothing", 1, PreemptLevel::All)
    }

    fn clock(&self) -> Duration {
        self.0.opened.elapsed()
    }

    fn alloc(&self, bytes: usize) -> Result<Buffer> {
        Ok(Buffer(Arc::new(Mutex::new(vec![0; bytes]))))
    }

    fn alloc_host(&self, bytes: usize) -> Result<Buffer> {
        self.alloc(bytes)
    }

    fn write(&self, buffer: &Buffer, offset: usize, data: &[u8]) -> Result<()> {
        let range = buffer.range(offset, data.len())?;
        buffer.bytes()[range].copy_from_slice(data);
        Ok(())
    }

    fn read(&self, buffer: &Buffer, offset: usize, data: &mut [u8]) -> Result<()> {
        let range = buffer.range(offset, data.len())?;
        data.copy_from_slice(&buffer.bytes()[range]);
        Ok(())
    }

    fn kernel(&self, _: &str) -> Result<Kernel> {
        Ok(Kernel(None))
    }

    fn address(&self, buffer: &Buffer) -> u64 {
        buffer.bytes().as_ptr() as u64
    }

    fn event(&self) -> Result<Done> {
        Ok(Done)
    }

    fn checkpoint(&self, _: &Launch<Self>) -> Result<Done> {
        Ok(Done)
    }

    /// Operations that are computed have no blocks that could run as padding.
    fn colocation(&self) -> Colocation {
        if self.0.compute.0.is_some() { Colocation::Never } else { Colocation::Padded }
    }

    fn preemptor(&self, level: PreemptLevel) -> Result<NullPreemptor> {
        Ok(NullPreemptor(level))
    }

    fn queue(&self, _: Priority, _: Option<&NullPreemptor>) -> Result<NullQueue> {
        Ok(NullQueue { device: self.clone(), done: Seq(0) })
    }
}

impl Operators for Null {
    fn pack(&self, _: &Op, weights: &[f32], bias: &[f32]) -> Result<Buffer> {
        let buffer = self.alloc((weights.len() + bias.len()) * 4)?;
        buffer.put(0, &[weights, bias].concat());
        Ok(buffer)
    }

    fn quantization(&self, op: &Op, _: Format) -> Quantization {
        (self.0.quantization)(op)
    }

    fn operator(&self, op: &Op, operands: &Operands<'_, Self>) -> Result<Vec<Launch<Self>>> {
        let kernel = self.0.compute.0.clone().map(|compute| kernel(compute, *op, operands));
        // SAFETY: the kernel takes no arguments and holds its memory.
        Ok(vec![unsafe { Launch::new(Kernel(kernel), [1; 3], [1; 3], Args::new(&[])) }])
    }

    fn has_joined(&self, op: &TensorOp) -> bool {
        let Kind::Eight(eight) = &op.kind else { return false };
        let conv = tensors::convolution(eight).filter(|_| self.0.tensors && op.check().is_ok());
        conv.map(|conv| (self.0.quantization)(&conv)).is_some_and(|has| has.input && has.output)
    }

    fn tensor_operator(
        &self,
        op: &Arc<TensorOp>,
        operands: &TensorOperands<'_, Self>,
    ) -> Result<Vec<Launch<Self>>> {
        op.check()?;
        let Some(compute) = self.0.compute.0.clone().filter(|_| self.0.tensors) else {
            let what = format!("no kernel for {} of tensors", op.name());
            return Err(Error::Unsupported { backend: Self::NAME, what });
        };
        let kernel = tensor_kernel(compute, op.clone(), operands);
        // SAFETY: the kernel takes no arguments and holds its memory.
        Ok(vec![unsafe { Launch::new(Kernel(Some(kernel)), [1; 3], [1; 3], Args::new(&[])) }])
    }
}

/// A kernel that computes an operation that was checked, of what `operands` hold when it runs.
fn tensor_kernel(
    compute: Arc<ComputeFn>,
    op: Arc<TensorOp>,
    operands: &TensorOperands<'_, Null>,
) -> Arc<dyn Fn() + Send + Sync> {
    let own = |storage: &Storage<'_, Null>| (storage.buffer.clone(), storage.offset);
    let (inputs, output): (Vec<_>, _) =
        (operands.inputs.iter().map(own).collect(), own(&operands.output));
    let packed = operands.packed;
    Arc::new(move || {
        let read = |k: usize| {
            let (buffer, offset) = &inputs[k];
            buffer.bytes()[*offset..*offset + op.inputs[k].bytes()].to_vec()
        };
        let made = match &op.kind {
            Kind::Eight(eight) if packed => {
                let conv = tensors::convolution(eight).expect("the device was asked for it");
                tensors::convolved(eight, &read(0), |input| {
                    let [weights, bias] = conv.constants();
                    let constant = |at: usize, count| inputs[1].0.floats(at * 4, count);
                    let (weights, bias) = (constant(0, weights), constant(weights, bias));
                    let inputs = Inputs { input, second: None, weights, bias };
                    let mut values = vec![0.0; conv.output().elements()];
                    compute(&conv, &inputs, &mut values);
                    values
                })
            }
            _ => tensors::output(&op, &(0..inputs.len()).map(read).collect::<Vec<_>>()),
        };
        output.0.bytes()[output.1..output.1 + made.len()].copy_from_slice(&made);
    })
}

/// A kernel that calls `compute` with what `operands` hold when it runs.
fn kernel(
    compute: Arc<ComputeFn>,
    op: Op,
    operands: &Operands<'_, Null>,
) -> Arc<dyn Fn() + Send + Sync> {
    let own = |storage: &Storage<'_, Null>| (storage.buffer.clone(), storage.offset);
    let (input, output) = (own(&operands.input), own(&operands.output));
    let second = operands.residual.as_ref().map(own);
    let constants = operands.constants.cloned();
    Arc::new(move || {
        let read = |(buffer, offset): &(Buffer, usize), elements| buffer.floats(*offset, elements);
        let [weights, bias] = op.constants();
        let constant = |at: usize, n| constants.as_ref().map(|c| c.floats(at * 4, n));
        let inputs = Inputs {
            input: read(&input, op.input().storage_elements()),
            second: second.as_ref().zip(op.second()).map(|(s, t)| read(s, t.storage_elements())),
            weights: constant(0, weights).unwrap_or_default(),
            bias: constant(weights, bias).unwrap_or_default(),
        };
        let mut result = read(&output, op.output().storage_elements());
        compute(&op, &inputs, &mut result);
        output.0.put(output.1, &result);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It would lose the best-effort work: a padded launch runs the real-time kernel alone.
    #[test]
    fn device_that_computes_is_never_padded() {
        let idle = Null::open(0, "").unwrap();
        let computing = Null::computing(|_, _, _| ());
        let quantized = computing.clone().with_quantization(|_| Quantization::default());
        assert_eq!(idle.colocation(), Colocation::Padded);
        for device in [computing, quantized] {
            assert_eq!(device.colocation(), Colocation::Never);
        }
    }
}
