//! A device that has all kernels of 8 bits, and computes with plain loops.

use reef_conformance::Null;
use reef_core::{
    Backend, Copy, Device, DeviceInfo, Drained, Fill, Launch, NoGraph, PreemptLevel, Priority,
    Queue, Result, Seq,
};
use reef_models::kinds::{full_quantization, reference};
use reef_op::{Format, Op, Operands, Operators, Quantization, Storage};
use std::thread::Thread;
use std::time::Duration;

/// The device, which asks another to do all the work.
#[derive(Debug, Clone)]
pub(super) struct Eight(Null);

/// Its queue.
#[derive(Debug)]
pub(super) struct EightQueue(<Null as Device>::Queue);

type Buffer = <Null as Backend>::Buffer;
type Done = <Null as Backend>::Event;

/// A device that computes with plain loops, and has no kernels of 8 bits.
pub(crate) fn plain() -> Null {
    Null::computing(|op, inputs, output| {
        let inputs = reference::Inputs {
            input: &inputs.input,
            residual: inputs.second.as_deref(),
            weights: &inputs.weights,
            bias: &inputs.bias,
        };
        reference::apply(op, inputs, output);
    })
}

impl Eight {
    pub(super) fn new() -> Self {
        Self(plain())
    }
}

impl Backend for Eight {
    const NAME: &'static str = "eight";
    type Buffer = Buffer;
    type Kernel = <Null as Backend>::Kernel;
    type Event = Done;
    type Checkpoint = Done;
    type Graph = NoGraph;
}

impl Device for Eight {
    type Options = ();
    type Queue = EightQueue;
    type Preemptor = <Null as Device>::Preemptor;

    fn parse_options(_: &str) -> Result<()> {
        Ok(())
    }

    fn open_with(_: usize, (): ()) -> Result<Self> {
        Ok(Self::new())
    }

    fn info(&self) -> DeviceInfo {
        self.0.info()
    }

    fn clock(&self) -> Duration {
        self.0.clock()
    }

    fn alloc(&self, bytes: usize) -> Result<Buffer> {
        self.0.alloc(bytes)
    }

    fn alloc_host(&self, bytes: usize) -> Result<Buffer> {
        self.0.alloc_host(bytes)
    }

    fn write(&self, buffer: &Buffer, offset: usize, data: &[u8]) -> Result<()> {
        self.0.write(buffer, offset, data)
    }

    fn read(&self, buffer: &Buffer, offset: usize, data: &mut [u8]) -> Result<()> {
        self.0.read(buffer, offset, data)
    }

    fn kernel(&self, name: &str) -> Result<Self::Kernel> {
        self.0.kernel(name)
    }

    fn address(&self, buffer: &Buffer) -> u64 {
        self.0.address(buffer)
    }

    fn event(&self) -> Result<Done> {
        self.0.event()
    }

    fn checkpoint(&self, launch: &Launch<Self>) -> Result<Done> {
        self.0.checkpoint(&of(launch))
    }

    fn preemptor(&self, level: PreemptLevel) -> Result<Self::Preemptor> {
        self.0.preemptor(level)
    }

    fn queue(&self, priority: Priority, by: Option<&Self::Preemptor>) -> Result<EightQueue> {
        self.0.queue(priority, by).map(EightQueue)
    }
}

impl Operators for Eight {
    fn pack(&self, op: &Op, weights: &[f32], bias: &[f32]) -> Result<Buffer> {
        self.0.pack(op, weights, bias)
    }

    fn quantization(&self, op: &Op, _: Format) -> Quantization {
        full_quantization(op)
    }

    fn operator(&self, op: &Op, operands: &Operands<'_, Self>) -> Result<Vec<Launch<Self>>> {
        fn storage<'a>(of: &Storage<'a, Eight>) -> Storage<'a, Null> {
            Storage { buffer: of.buffer, offset: of.offset }
        }
        let operands = Operands {
            input: storage(&operands.input),
            residual: operands.residual.as_ref().map(storage),
            output: storage(&operands.output),
            constants: operands.constants,
            scratch: operands.scratch.as_ref().map(storage),
            rounded: operands.rounded,
        };
        let launches = self.0.operator(op, &operands)?;
        Ok(launches.iter().map(of).collect())
    }
}

/// The launch for the other device.
fn of<A: Backend, B: Backend<Kernel = A::Kernel>>(launch: &Launch<A>) -> Launch<B> {
    let (kernel, args) = (launch.kernel().clone(), *launch.args());
    // SAFETY: the kernel is a function that holds its memory, and takes no arguments.
    unsafe { Launch::new(kernel, launch.grid(), launch.block(), args) }
}

impl Queue for EightQueue {
    type Backend = Eight;

    fn launch(&mut self, seq: Seq, launch: &Launch<Eight>, _: Option<&Done>) -> Result<()> {
        self.0.launch(seq, &of(launch), None)
    }

    fn copy(&mut self, seq: Seq, copy: &Copy<Eight>) -> Result<()> {
        let Copy { from, from_offset, to, to_offset, bytes, to_host } = copy.clone();
        self.0.copy(seq, &Copy { from, from_offset, to, to_offset, bytes, to_host })
    }

    fn fill(&mut self, seq: Seq, fill: &Fill<Eight>) -> Result<()> {
        let Fill { buffer, offset, bytes, word } = fill.clone();
        self.0.fill(seq, &Fill { buffer, offset, bytes, word })
    }

    fn record(&mut self, seq: Seq, event: &Done) -> Result<()> {
        self.0.record(seq, event)
    }

    fn completed(&mut self) -> Result<Seq> {
        self.0.completed()
    }

    fn try_drain(&mut self) -> Result<Option<Drained<Eight>>> {
        let drained = self.0.try_drain()?;
        Ok(drained.map(|d| Drained { resume_at: d.resume_at, partial: d.partial, held: d.held }))
    }

    fn wake(&mut self, thread: Thread) -> bool {
        self.0.wake(thread)
    }
}
