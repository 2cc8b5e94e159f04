//! Writes, reads, copies and fills of the same bytes at the same time: torn, never undefined. Miri says so if one
//! of them races.

use reef_core::{Cells, Command, Config, Copy, Device, Fill, VirtualQueue, appended};
use reef_cpu::{Buffer, Cpu};
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
fn who_races_gets_torn_bytes_and_nothing_else() {
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
    assert_eq!(cells.read().unwrap(), [want; 2], "each block ran once, whoever looked on");
}
