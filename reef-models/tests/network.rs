//! A network on a device that computes with the reference: memory, weights and commands fit together.

use reef_core::dkp::{self, Padding};
use reef_core::op::{Op, Operands, Operators, Storage};
use reef_core::{
    Args, Backend, Checkpoint, Command, Copy, Device, DeviceInfo, Drained, Event, Fill, Launch,
    PreemptLevel, Preemptor, Priority, Queue, Result, Seq,
};
use reef_models::profile::Profiles;
use reef_models::{Error, Model, Network, Seeded, Weights, build, reference};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::thread::Thread;
use std::time::Duration;

/// A device without queues; a kernel is a closure that the test calls itself.
#[derive(Debug, Clone)]
struct Bench;

type Bytes = Arc<Mutex<Vec<u8>>>;

#[derive(Clone)]
struct Kernel(Arc<dyn Fn() + Send + Sync>);

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kernel")
    }
}

/// Stands for all that this device hasn't.
#[derive(Debug, Clone)]
enum Absent {}

fn floats(buffer: &Bytes, offset: usize, elements: usize) -> Vec<f32> {
    let bytes = buffer.lock().unwrap();
    let words = bytes[offset..offset + elements * 4].as_chunks::<4>().0;
    words.iter().map(|&word| f32::from_ne_bytes(word)).collect()
}

fn put(buffer: &Bytes, offset: usize, values: &[f32]) {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    buffer.lock().unwrap()[offset..offset + bytes.len()].copy_from_slice(&bytes);
}

impl Operators for Bench {
    fn pack(&self, _: &Op, weights: &[f32], bias: &[f32]) -> Result<Bytes> {
        let buffer = self.alloc((weights.len() + bias.len()) * 4)?;
        put(&buffer, 0, &[weights, bias].concat());
        Ok(buffer)
    }

    fn operator(&self, op: &Op, operands: &Operands<'_, Self>) -> Result<Vec<Launch<Self>>> {
        let own = |s: &Storage<'_, Self>| (s.buffer.clone(), s.offset);
        let (op, input, output) = (*op, own(&operands.input), own(&operands.output));
        let residual = operands.residual.as_ref().map(own);
        let constants = operands.constants.cloned();
        let kernel = Kernel(Arc::new(move || {
            let read = |(buffer, offset): &(Bytes, usize), n| floats(buffer, *offset, n);
            let [weights, bias] = op.constants();
            let constants = constants.as_ref().map(|c| floats(c, 0, weights + bias));
            let constants = constants.unwrap_or_default();
            let mut result = read(&output, op.output().storage_elements());
            let second = residual.as_ref().zip(op.second());
            let residual = second.map(|(r, tensor)| read(r, tensor.storage_elements()));
            let inputs = reference::Inputs {
                input: &read(&input, op.input().storage_elements()),
                residual: residual.as_deref(),
                weights: &constants[..weights],
                bias: &constants[weights..],
            };
            reference::apply(&op, inputs, &mut result);
            put(&output.0, output.1, &result);
        }));
        // SAFETY: the kernel takes no arguments, and tests run each launch by itself.
        #[allow(unsafe_code)]
        Ok(vec![unsafe { Launch::new(kernel, [1; 3], [1; 3], Args::new(&[])) }])
    }
}

/// What a queue would do with these commands.
fn run(commands: &[Command<Bench>]) {
    for command in commands {
        match command {
            Command::Launch(launch) => (launch.kernel().0)(),
            Command::Copy(copy) => {
                let data = copy.from.lock().unwrap()[copy.from_offset..][..copy.bytes].to_vec();
                copy.to.lock().unwrap()[copy.to_offset..][..copy.bytes].copy_from_slice(&data);
            }
            other => panic!("{other:?}"),
        }
    }
}

fn network(name: &str, size: usize, batch: usize) -> (Model, Network<Bench>, Vec<f32>) {
    let model = build(name, Some(size), batch).unwrap();
    let weights = Weights::pack(&Bench, &model, &Seeded(1)).unwrap();
    let network = Network::new(&Bench, &model, &weights).unwrap();
    let input = Seeded(1).input(network.input_len());
    (model, network, input)
}

#[test]
fn sharing_memory_changes_no_logit() {
    for (name, size) in [("resnet18", 32), ("densenet121", 32), ("inception_v3", 75)] {
        let (model, network, input) = network(name, size, 2);
        let want = reference::execute(&model, &Seeded(1), &input).unwrap();
        network.set_input(&input).unwrap();
        run(network.commands());
        assert_eq!(network.output().unwrap(), want, "{name}");
        run(network.commands());
        assert_eq!(network.output().unwrap(), want, "{name}, again in used memory");
    }
}

#[test]
fn an_inference_copies_in_and_out() {
    let (model, network, input) = network("resnet18", 32, 1);
    network.stage_input(&input).unwrap();
    let commands = network.inference();
    run(&commands);
    let want = reference::execute(&model, &Seeded(1), &input).unwrap();
    assert_eq!(network.staged_output().unwrap(), want);
    assert!(matches!(&commands[0], Command::Copy(copy) if !copy.to_host));
    assert!(matches!(commands.last(), Some(Command::Copy(copy)) if copy.to_host));
    assert_eq!(commands.len(), network.launches().count() + 2);
}

#[test]
fn instances_share_weights_but_no_activations() {
    let model = build("resnet18", Some(32), 1).unwrap();
    let weights = Weights::pack(&Bench, &model, &Seeded(1)).unwrap();
    let [a, b] = [0, 1].map(|_| Network::new(&Bench, &model, &weights).unwrap());
    a.set_input(&Seeded(1).input(a.input_len())).unwrap();
    b.set_input(&Seeded(2).input(b.input_len())).unwrap();
    for (a, b) in a.commands().iter().zip(b.commands()) {
        run(&[a.clone(), b.clone()]);
    }
    for (network, seed) in [(a, 1), (b, 2)] {
        let input = Seeded(seed).input(network.input_len());
        let want = reference::execute(&model, &Seeded(1), &input).unwrap();
        assert_eq!(network.output().unwrap(), want);
    }
}

#[test]
fn profiles_find_their_launches_by_name() {
    let (_, network, _) = network("resnet18", 32, 1);
    let profile = dkp::Profile { micros: 7, ..dkp::Profile::default() };
    let profiles = Profiles::from([("layer1.0.conv2".to_owned(), Arc::new(profile))]);
    let network = network.with_profiles(&profiles);
    assert_eq!(network.step_names().len(), network.launches().count());
    for (launch, name) in network.launches().zip(network.step_names()) {
        let micros = launch.profile().map(|profile| profile.micros);
        assert_eq!(micros, (name.launch == "layer1.0.conv2").then_some(7), "{name:?}");
    }
}

#[test]
fn what_does_not_fit_is_said_with_both_numbers() {
    let (model, network, _) = network("resnet18", 32, 1);
    let wrong = network.set_input(&[0.0; 4]).unwrap_err().to_string();
    assert_eq!(wrong, "input: 4 values given, 3072 wanted");
    let other = build("resnet50", Some(32), 1).unwrap();
    let weights = Weights::pack(&Bench, &model, &Seeded(1)).unwrap();
    let error = Network::new(&Bench, &other, &weights).unwrap_err();
    assert!(matches!(error, Error::Length { .. }), "{error}");
}

impl Backend for Bench {
    const NAME: &'static str = "bench";
    type Buffer = Bytes;
    type Kernel = Kernel;
    type Event = Absent;
    type Checkpoint = Absent;
    type Graph = reef_core::NoGraph;
}

impl Device for Bench {
    type Queue = Absent;
    type Preemptor = Absent;

    fn open(_: usize, _: &str) -> Result<Self> {
        Ok(Self)
    }
    fn info(&self) -> DeviceInfo {
        unimplemented!()
    }
    fn clock(&self) -> Duration {
        unimplemented!()
    }
    fn alloc(&self, bytes: usize) -> Result<Bytes> {
        Ok(Arc::new(Mutex::new(vec![0; bytes])))
    }
    fn alloc_host(&self, bytes: usize) -> Result<Bytes> {
        self.alloc(bytes)
    }
    fn write(&self, buffer: &Bytes, offset: usize, data: &[u8]) -> Result<()> {
        buffer.lock().unwrap()[offset..offset + data.len()].copy_from_slice(data);
        Ok(())
    }
    fn read(&self, buffer: &Bytes, offset: usize, data: &mut [u8]) -> Result<()> {
        data.copy_from_slice(&buffer.lock().unwrap()[offset..offset + data.len()]);
        Ok(())
    }
    fn kernel(&self, _: &str) -> Result<Kernel> {
        unimplemented!()
    }
    fn address(&self, _: &Bytes) -> u64 {
        unimplemented!()
    }
    fn event(&self) -> Result<Absent> {
        unimplemented!()
    }
    fn checkpoint(&self, _: &Launch<Self>) -> Result<Absent> {
        unimplemented!()
    }
    fn preemptor(&self, _: PreemptLevel) -> Result<Absent> {
        unimplemented!()
    }
    fn queue(&self, _: Priority, _: Option<&Absent>) -> Result<Absent> {
        unimplemented!()
    }
}

impl Checkpoint for Absent {
    fn remaining(&self) -> u32 {
        match *self {}
    }
}

impl Event for Absent {
    fn reached(&self) -> Option<Duration> {
        match *self {}
    }
}

impl Preemptor for Absent {
    fn level(&self) -> PreemptLevel {
        match *self {}
    }
    fn evict(&self) -> Result<()> {
        match *self {}
    }
    fn reset(&self) -> Result<()> {
        match *self {}
    }
    fn reactivate(&self) -> Result<()> {
        match *self {}
    }
}

impl Queue for Absent {
    type Backend = Bench;

    fn launch(&mut self, _: Seq, _: &Launch<Bench>, _: Option<&Absent>) -> Result<()> {
        match *self {}
    }
    fn launch_padded(
        &mut self,
        _: Seq,
        _: &Launch<Bench>,
        _: &Padding,
        _: &Launch<Bench>,
        _: &Absent,
    ) -> Result<()> {
        match *self {}
    }
    fn copy(&mut self, _: Seq, _: &Copy<Bench>) -> Result<()> {
        match *self {}
    }
    fn fill(&mut self, _: Seq, _: &Fill<Bench>) -> Result<()> {
        match *self {}
    }
    fn record(&mut self, _: Seq, _: &Absent) -> Result<()> {
        match *self {}
    }
    fn completed(&mut self) -> Result<Seq> {
        match *self {}
    }
    fn try_drain(&mut self) -> Result<Option<Drained<Bench>>> {
        match *self {}
    }
    fn wake(&mut self, _: Thread) -> bool {
        match *self {}
    }
}
