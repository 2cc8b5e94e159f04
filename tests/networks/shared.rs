//! Convolutions that share a launch give the bits that each gives by itself, also when the launch
//! is stopped in the middle.

use crate::subject::{run_alone, submit};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reef::command::Fill;
use reef::models::Seeded;
use reef::op::{
    Conv2d, Function, Layout, Op, Operands, Operators, ScaleShift, Storage, Tensor, Window,
};
use reef::rounding::Rounded;
use reef::{Command, Launch, PreemptLevel, Seq, VirtualQueue, queue::Config};
use std::time::{Duration, Instant};

/// Bytes from one storage to the next, more than any has.
const APART: usize = 1 << 18;
/// Bytes of scratch memory, more than any group needs.
const SCRATCH: usize = 16 << 20;
/// Times that each group runs and is stopped.
const TURNS: usize = 30;

/// Runs groups of two, three and four convolutions, which take this number of launches in all.
pub(crate) fn shared_launches_keep_the_bits<D: Operators>(device: &D, launches: usize) {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut count = 0;
    for convs in groups() {
        let group = Group::new(device, &convs);
        run_alone(device, &group.behind_fills(&group.one_by_one(device), 1));
        let want = group.outputs(device);
        let shared = group.shared(device);
        count += shared.len();
        let commands = group.behind_fills(&shared, 4);
        let config = Config::default().level(PreemptLevel::All);
        let (mut submitter, queue) = VirtualQueue::enable(device, config).unwrap();
        for turn in 0..TURNS {
            submit(&mut submitter, &commands);
            let moment = Instant::now() + Duration::from_micros(rng.random_range(0..60));
            while Instant::now() < moment {
                std::hint::spin_loop();
            }
            queue.preempt(rng.random()).unwrap();
            queue.restore().unwrap();
            submitter.wait(Seq(submitter.submitted().0 - 1)).unwrap();
            let is_same = group.outputs(device) == want;
            assert!(is_same, "{} convolutions, turn {turn}: other outputs", convs.len());
        }
        println!("{} convolutions: {} launches ran again", convs.len(), queue.rerun());
    }
    assert_eq!(count, launches, "launches of all groups");
}

/// Two with one kind of input, three with long sums, four with windows, functions and ends of all
/// kinds, two of which write channels of one storage.
fn groups() -> [Vec<Conv2d>; 3] {
    let (square, images) = ([1, 64, 14, 14], [2, 32, 10, 10]);
    let long = conv([1, 192, 8, 8], 64, [3, 3], 1);
    let half = |first, size| {
        let whole = conv(images, 40, size, 1);
        Conv2d { output: whole.output.channels(first, 40, 80), ..whole }
    };
    let swish =
        Conv2d { relu: false, function: Some(Function::Swish), ..conv(images, 24, [1, 1], 1) };
    [
        vec![conv(square, 96, [1, 1], 1), conv(square, 64, [3, 3], 2)],
        vec![conv([1, 512, 8, 8], 64, [1, 1], 1), long, long],
        vec![half(0, [1, 7]), half(40, [7, 1]), conv(images, 30, [5, 5], 1), swish],
    ]
}

fn conv(input: [usize; 4], outputs: usize, size: [usize; 2], stride: usize) -> Conv2d {
    let window = Window { size, stride: [stride; 2], padding: size.map(|size| size / 2) };
    let input = Tensor::new(Layout::Native, input);
    let [height, width] = window.over([input.height, input.width]);
    let output = Tensor::new(Layout::Native, [input.batch, outputs, height, width]);
    Conv2d { input, output, window, groups: 1, residual: false, relu: true, function: None }
}

/// Convolutions none of which reads or writes what another writes.
struct Group<D: Operators> {
    ops: Vec<Op>,
    /// An input for each, then an output for each.
    memory: D::Buffer,
    constants: Vec<D::Buffer>,
    scratch: D::Buffer,
}

impl<D: Operators> Group<D> {
    fn new(device: &D, convs: &[Conv2d]) -> Self {
        let ops: Vec<Op> = convs.iter().map(|conv| Op::Conv2d(*conv)).collect();
        let memory = device.alloc(2 * ops.len() * APART).unwrap();
        let floats = device.alloc(APART).unwrap();
        let mut constants = Vec::new();
        for (k, op) in ops.iter().enumerate() {
            let [weights, bias] = op.constants().map(|len| Seeded(10 + k as u64).input(len));
            constants.push(device.pack(op, &weights, &bias).unwrap());
            let output = Storage { buffer: &memory, offset: k * APART };
            write_native(device, &floats, op.input(), k as u64, output);
        }
        Self { ops, memory, constants, scratch: device.alloc(SCRATCH).unwrap() }
    }

    fn storage(&self, number: usize) -> Storage<'_, D> {
        Storage { buffer: &self.memory, offset: number * APART }
    }

    fn operands(&self, k: usize) -> Operands<'_, D> {
        // Further channels are in the storage of the one before.
        let to = if self.ops[k].output().first > 0 { k - 1 } else { k };
        Operands {
            input: self.storage(k),
            residual: None,
            output: self.storage(self.ops.len() + to),
            constants: Some(&self.constants[k]),
            scratch: Some(Storage { buffer: &self.scratch, offset: 0 }),
            rounded: Rounded::default(),
        }
    }

    fn one_by_one(&self, device: &D) -> Vec<Launch<D>> {
        let each = self.ops.iter().enumerate();
        each.flat_map(|(k, op)| device.operator(op, &self.operands(k)).unwrap()).collect()
    }

    fn shared(&self, device: &D) -> Vec<Launch<D>> {
        let each = self.ops.iter().enumerate();
        let group: Vec<_> = each.map(|(k, op)| (op, self.operands(k))).collect();
        device.operator_group(&group).unwrap()
    }

    /// Some times the launches, each time behind a command that leaves no number in the outputs.
    fn behind_fills(&self, launches: &[Launch<D>], times: usize) -> Vec<Command<D>> {
        let bytes = self.ops.len() * APART;
        let buffer = self.memory.clone();
        let fill = Command::Fill(Fill { buffer, offset: bytes, bytes, word: u32::MAX });
        let launches = launches.iter().cloned().map(Command::Launch);
        let once: Vec<_> = std::iter::once(fill).chain(launches).collect();
        std::iter::repeat_n(&once, times).flatten().cloned().collect()
    }

    fn outputs(&self, device: &D) -> Vec<u8> {
        let mut bytes = vec![0; self.ops.len() * APART];
        device.read(&self.memory, bytes.len(), &mut bytes).unwrap();
        bytes
    }
}

/// Writes an image of `seed` as the device lays out `image`; `floats` holds it on the way.
fn write_native<D: Operators>(
    device: &D,
    floats: &D::Buffer,
    image: &Tensor,
    seed: u64,
    to: Storage<'_, D>,
) {
    // Each pixel is an image: every device has a kernel for that.
    let Tensor { batch, channels, height, width, .. } = *image;
    let shape = [batch * height * width, channels, 1, 1];
    let [input, output] = [Layout::Nchw, Layout::Native].map(|layout| Tensor::new(layout, shape));
    let values = Seeded(seed).input(input.elements());
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    device.write(floats, 0, &bytes).unwrap();
    let op = Op::ScaleShift(ScaleShift { input, output, relu: false });
    let [ones, zeros] = [1.0, 0.0].map(|value| vec![value; channels]);
    let constants = device.pack(&op, &ones, &zeros).unwrap();
    let operands = Operands {
        input: Storage { buffer: floats, offset: 0 },
        residual: None,
        output: to,
        constants: Some(&constants),
        scratch: None,
        rounded: Rounded::default(),
    };
    let launches = device.operator(&op, &operands).unwrap();
    run_alone(device, &launches.into_iter().map(Command::Launch).collect::<Vec<_>>());
}
