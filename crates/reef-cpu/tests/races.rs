//! Writes, reads, copies and fills of the same bytes at the same time: torn, never undefined. Miri
//! says so if one of them races.

use reef_core::{Cells, Command, Config, Copy, Device, Fill, VirtualQueue, appended};
use reef_cpu::{Buffer, Cpu};
use reef_op::rounding::Rounded;
use reef_op::{Activate, Bounds, Function, Layout, Op, Operands, Operators, Storage, Tensor};
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes that are fought over, from an odd offset on, so that words are shared at both ends.
const AT: usize = 3;
const BYTES: usize = if cfg!(miri) { 16 } else { 4096 };
const ROUNDS: u32 = if cfg!(miri) { 10 } else { 200 };

/// Everything that ever stands in a byte is one of these.
const VALUES: [u8; 4] = [0, 0x11, 0x22, 0x33];

fn only_what_was_written(device: &Cpu, buffer: &Buffer) {
    let mut bytes = vec![0xff; BYTES];
    device.read(buffer, AT, &mut bytes).unwrap();
    let strange = bytes.iter().find(|byte| !VALUES.contains(byte));
    assert_eq!(strange, None, "a byte that was never written");
}

#[test]
fn racing_copies_get_torn_bytes_and_nothing_else() {
    let device = Cpu::open(0, "units=2").unwrap();
    let [shared, source] = [(); 2].map(|()| device.alloc(AT + BYTES + 1).unwrap());
    device.write(&source, 0, &[0x11; AT + BYTES + 1]).unwrap();
    let (mut submitter, queue) = VirtualQueue::enable(&device, Config::default()).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for value in [0x22, 0x33] {
            let (device, shared, over) = (&device, &shared, &over);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    device.write(shared, AT, &[value; BYTES]).unwrap();
                    only_what_was_written(device, shared);
                }
            });
        }
        for _ in 0..ROUNDS {
            let [from, to] = [&source, &shared].map(Clone::clone);
            let copy =
                Copy { from, from_offset: 0, to, to_offset: AT, bytes: BYTES, to_host: false };
            submitter.submit_blocking(Command::Copy(copy)).unwrap();
            let buffer = shared.clone();
            let fill = Fill { buffer, offset: AT + 1, bytes: BYTES - 4, word: 0x1111_1111 };
            submitter.submit_blocking(Command::Fill(fill)).unwrap();
        }
        queue.finish().unwrap();
        over.store(true, Ordering::Relaxed);
    });
    let mut guards = [0xff; AT + BYTES + 1];
    device.read(&shared, 0, &mut guards).unwrap();
    assert_eq!((&guards[..AT], guards[AT + BYTES]), (&[0; AT][..], 0), "neighbours are left alone");
}

#[test]
fn cells_may_be_read_while_blocks_write_them() {
    let device = Cpu::open(0, "units=2").unwrap();
    let cells = Cells::new(&device, 2).unwrap();
    let (mut submitter, queue) = VirtualQueue::enable(&device, Config::default()).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                assert_eq!(cells.read().unwrap().len(), 2);
            }
        });
        for value in 0..ROUNDS {
            submitter.submit_blocking(cells.append(value.into(), 1)).unwrap();
        }
        queue.finish().unwrap();
        over.store(true, Ordering::Relaxed);
    });
    let want = appended((0..ROUNDS).map(u64::from));
    assert_eq!(cells.read().unwrap(), [want; 2], "each block ran once despite racing reads");
}

/// The launches that put ReLU6 of `input` into `output`.
fn relu(device: &Cpu, input: &Buffer, output: &Buffer) -> reef_core::Result<Vec<Command<Cpu>>> {
    let tensor = Tensor::new(Layout::Native, [1, 4, 1, BYTES / 16]);
    let op = Op::Activate(Activate {
        input: tensor,
        output: tensor,
        function: Function::Clamp(Bounds::RELU6),
    });
    let storage = |buffer| Storage { buffer, offset: 0 };
    let (input, output) = (storage(input), storage(output));
    let rounded = Rounded::default();
    let operands =
        Operands { input, residual: None, output, constants: None, scratch: None, rounded };
    Ok(device.operator(&op, &operands)?.into_iter().map(Command::Launch).collect())
}

fn submit(device: &Cpu, rounds: u32, commands: &[Command<Cpu>], meanwhile: impl FnOnce()) {
    let (mut submitter, queue) = VirtualQueue::enable(device, Config::default()).unwrap();
    for command in (0..rounds).flat_map(|_| commands) {
        submitter.submit_blocking(command.clone()).unwrap();
    }
    meanwhile();
    queue.finish().unwrap();
}

/// Kernels load and store plainly, so the host's copies wait for the blocks that run. No memory is
/// allocated meanwhile: what one thread frees and another gets would order the two and hide a race
/// from miri.
#[test]
fn the_host_writes_and_reads_what_a_kernel_works_on() {
    let device = Cpu::open(0, "units=2").unwrap();
    let [input, output] = [(); 2].map(|()| device.alloc(BYTES).unwrap());
    let launches = relu(&device, &input, &output).unwrap();
    submit(&device, ROUNDS / 10, &launches, || {
        for round in 0..ROUNDS {
            let mut seen = [0; 4];
            device.write(&input, 0, &(round as f32 - 3.5).to_ne_bytes()).unwrap();
            device.read(&output, 0, &mut seen).unwrap();
            let seen = f32::from_ne_bytes(seen);
            assert!((0.0..=6.0).contains(&seen), "{seen} is nothing that ReLU6 gives");
            std::thread::yield_now();
        }
    });
    device.write(&input, 0, &1e9_f32.to_ne_bytes()).unwrap();
    submit(&device, 1, &launches, || ());
    let mut six = [0; 4];
    device.read(&output, 0, &mut six).unwrap();
    assert_eq!(f32::from_ne_bytes(six), 6.0, "and the kernels have run");
}

/// Two queues run the same launches at once, and a third one copies.
#[test]
fn queues_share_a_network() {
    let device = Cpu::open(0, "units=3").unwrap();
    let [input, output, copied] = [(); 3].map(|()| device.alloc(BYTES).unwrap());
    let launches = relu(&device, &input, &output).unwrap();
    std::thread::scope(|scope| {
        for commands in [launches.clone(), launches, copies(&input, &output, &copied)] {
            let device = &device;
            scope.spawn(move || submit(device, ROUNDS, &commands, || ()));
        }
    });
}

fn copies(input: &Buffer, output: &Buffer, other: &Buffer) -> Vec<Command<Cpu>> {
    let copy = |from: &Buffer, to: &Buffer| {
        let (from, to) = (from.clone(), to.clone());
        Command::Copy(Copy { from, from_offset: 0, to, to_offset: 0, bytes: BYTES, to_host: false })
    };
    vec![copy(output, other), copy(other, input)]
}

#[test]
fn an_output_over_its_input_is_refused() {
    let device = Cpu::open(0, "units=1").unwrap();
    let buffer = device.alloc(BYTES).unwrap();
    let error = relu(&device, &buffer, &buffer).unwrap_err().to_string();
    assert!(error.contains("cannot overlap what is read"), "{error}");
}
