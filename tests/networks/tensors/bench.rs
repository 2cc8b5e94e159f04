//! One operation on a device, with and without preemption, compared with its definition.

use crate::subject::run_alone;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use reef::op::{Conv2d, Op, Operators, Storage, TensorOperands};
use reef::tensor::{Array, Kind, TensorOp};
use reef::{Command, PreemptLevel, VirtualQueue, queue::Config};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// An operation and what it is given.
pub(crate) struct Case {
    pub(crate) op: Arc<TensorOp>,
    pub(crate) inputs: Vec<Array>,
    /// Allowed error of a result: as a part of it, or at least of one.
    pub(crate) tolerance: f64,
}

/// The operation bound to memory of its own.
struct Bound<'a, D: Operators> {
    device: &'a D,
    output: D::Buffer,
    bytes: usize,
    commands: Vec<Command<D>>,
}

impl<'a, D: Operators> Bound<'a, D> {
    fn new(device: &'a D, case: &Case) -> Self {
        let filled = |array: &Array| {
            let bytes = array.to_le_bytes();
            let buffer = device.alloc(bytes.len().max(1)).unwrap();
            device.write(&buffer, 0, &bytes).unwrap();
            buffer
        };
        let mut inputs: Vec<_> = case.inputs.iter().map(filled).collect();
        let eight = if let Kind::Eight(eight) = &case.op.kind { Some(eight) } else { None };
        if let (Some(eight), [_, Array::F32(weights), Array::F32(bias)]) = (eight, &case.inputs[..])
        {
            let conv = Op::Conv2d(Conv2d::of_eight(eight).unwrap());
            inputs[1] = device.pack(&conv, weights, &eight.moved_bias(weights, bias)).unwrap();
        }
        let bytes = case.op.output.bytes();
        let output = device.alloc(bytes.max(1)).unwrap();
        let storage = |buffer| Storage { buffer, offset: 0 };
        let inputs = inputs.iter().map(storage).collect();
        let wanted = device.tensor_scratch(&case.op);
        let scratch = (wanted.bytes > 0).then(|| filled(&Array::U8(vec![0; wanted.bytes])));
        let scratch = scratch.as_ref().map(storage);
        let (output_storage, packed) = (storage(&output), eight.is_some());
        let operands = TensorOperands { inputs, output: output_storage, packed, scratch };
        let made = device.tensor_operator(&case.op, &operands);
        let launches = made.unwrap_or_else(|why| panic!("{:?}: {why}", case.op));
        let commands = launches.into_iter().map(Command::Launch).collect();
        Self { device, output, bytes, commands }
    }

    /// Leaves nothing of an earlier run.
    fn spoil(&self) {
        self.device.write(&self.output, 0, &vec![0xa5; self.bytes]).unwrap();
    }

    fn output(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.bytes];
        self.device.read(&self.output, 0, &mut bytes).unwrap();
        bytes
    }

    fn undisturbed(&self) -> Vec<u8> {
        self.spoil();
        run_alone(self.device, &self.commands);
        self.output()
    }

    fn preempted(&self, rng: &mut ChaCha8Rng) -> Vec<u8> {
        self.spoil();
        let config = Config::default().level(PreemptLevel::All);
        let (mut submitter, queue) = VirtualQueue::enable(self.device, config).unwrap();
        crate::subject::submit(&mut submitter, &self.commands);
        for _ in 0..rng.random_range(1..4) {
            // sleep: any length is right
            thread::sleep(Duration::from_micros(rng.random_range(0..2000)));
            queue.preempt(rng.random()).unwrap();
            queue.restore().unwrap();
        }
        queue.finish().unwrap();
        self.output()
    }
}

/// Compares what the device makes of a case with its definition, and, if `rng` is given, with
/// itself preempted.
#[track_caller]
pub(crate) fn agrees<D: Operators>(device: &D, case: &Case, rng: Option<&mut ChaCha8Rng>) {
    let bound = Bound::new(device, case);
    let have = bound.undisturbed();
    let values: Vec<_> = case.inputs.iter().map(Array::values).collect();
    let all = 0..case.op.output.elements();
    let want = case.op.compute(&values, all, &|| false).unwrap().expect("it is not stopped");
    compare(case, &Array::from_le_bytes(case.op.output.element, &have), &want);
    if let Some(rng) = rng {
        assert!(bound.preempted(rng) == have, "{:?}: other bits when preempted", case.op);
    }
}

#[track_caller]
fn compare(case: &Case, have: &Array, want: &Array) {
    let [a, b] = [have, want].map(|array| array.values().to_f64());
    assert_eq!(a.len(), b.len());
    for (i, (&have, &want)) in a.iter().zip(&b).enumerate() {
        let near = (have - want).abs() <= case.tolerance * want.abs().max(1e-30);
        if !(have == want || have.is_nan() && want.is_nan() || near) {
            let given = case.inputs.iter().map(|input| input.values().to_f64());
            let given: Vec<_> = given.map(|values| values.get(i).copied()).collect();
            panic!(
                "{:?}: output {i} is {have:e}, {want:e} wanted; inputs there {given:?}",
                case.op
            );
        }
    }
}
