//! Kernels run on waves made by hand: what a command processor does for one dispatch, and no more.

#![allow(dead_code, reason = "each test uses a part")]

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use reef_gfx906::isa::{Code, Fault, Memory, Pause, Wave, poisoned};

/// Memory of this process that a test says is mapped.
#[derive(Debug, Default)]
pub(crate) struct Mapped {
    ranges: Vec<Range<u64>>,
    start: Option<Instant>,
}

impl Mapped {
    pub(crate) fn map<T>(&mut self, values: &[T]) -> u64 {
        let start = values.as_ptr() as u64;
        self.ranges.push(start..start + size_of_val(values) as u64);
        start
    }
}

impl Mapped {
    /// As [`map`](Self::map), for what kernels write.
    pub(crate) fn map_mut<T>(&mut self, values: &mut [T]) -> u64 {
        let start = values.as_mut_ptr() as u64;
        self.ranges.push(start..start + size_of_val(values) as u64);
        start
    }
}

impl Memory for Mapped {
    fn is_mapped(&self, address: u64, bytes: usize) -> bool {
        self.mapped_around(address, bytes).is_some()
    }

    fn mapped_around(&self, address: u64, bytes: usize) -> Option<Range<u64>> {
        let end = address.checked_add(bytes as u64)?;
        self.ranges.iter().find(|range| range.start <= address && end <= range.end).cloned()
    }

    fn clock(&self) -> u64 {
        self.start.map_or(0, |start| start.elapsed().as_nanos() as u64 / 10)
    }
}

/// A code object in memory.
#[derive(Debug)]
pub(crate) struct Kernel {
    image: Vec<u64>,
    descriptor: usize,
    /// Bytes of shared memory that a launch adds.
    pub(crate) shared: usize,
    pub(crate) code: Arc<Code>,
}

fn number(bytes: &[u8], at: usize, len: usize) -> usize {
    bytes[at..at + len].iter().rev().fold(0, |all, &byte| all << 8 | usize::from(byte))
}

impl Kernel {
    /// Loads segments, and finds the descriptor by its symbol.
    pub(crate) fn load(elf: &[u8], name: &str) -> Self {
        let (segments, count) = (number(elf, 32, 8), number(elf, 56, 2));
        let headers = (0..count).map(|k| &elf[segments + 56 * k..][..56]);
        let loads: Vec<_> = headers
            .filter(|header| number(header, 0, 4) == 1)
            .map(|h| (number(h, 8, 8), number(h, 16, 8), number(h, 32, 8)))
            .collect();
        let size = loads.iter().map(|(_, to, bytes)| to + bytes).max().expect("has segments");
        let mut bytes = vec![0; size.next_multiple_of(8)];
        for (from, to, len) in loads {
            bytes[to..to + len].copy_from_slice(&elf[from..from + len]);
        }
        let descriptor = symbol(elf, &format!("{name}.kd"));
        let image = bytes.chunks(8).map(|chunk| number(chunk, 0, 8) as u64).collect();
        Self { image, descriptor, shared: 0, code: Arc::default() }
    }

    fn field(&self, offset: usize, len: usize) -> usize {
        let at = self.descriptor + offset;
        let bytes: Vec<u8> = self.image.iter().flat_map(|word| word.to_le_bytes()).collect();
        number(&bytes, at, len)
    }

    /// Runs `grid` workgroups of `group` threads with the arguments, one workgroup after the other.
    pub(crate) fn launch(
        &self,
        memory: &mut Mapped,
        grid: [u32; 3],
        group: [u32; 3],
        arguments: &[u64],
    ) -> Result<u64, Fault> {
        memory.map(&self.image);
        let packet = self.packet(grid, group);
        let (packet, arguments) = (memory.map(&packet[..]), memory.map(arguments));
        let mut executed = 0;
        for z in 0..grid[2] {
            for y in 0..grid[1] {
                for x in 0..grid[0] {
                    let mut workgroup = self.workgroup([x, y, z], group, packet, arguments);
                    executed += run(&mut workgroup, self.field(0, 4) + self.shared, memory)?;
                }
            }
        }
        Ok(executed)
    }

    fn packet(&self, grid: [u32; 3], group: [u32; 3]) -> Box<[u32]> {
        let mut packet = vec![0u32; 16];
        packet[1] = group[0] | group[1] << 16;
        packet[2] = group[2];
        for axis in 0..3 {
            packet[3 + axis] = grid[axis] * group[axis];
        }
        packet.into()
    }

    fn workgroup(&self, id: [u32; 3], group: [u32; 3], packet: u64, arguments: u64) -> Vec<Wave> {
        let threads = group.iter().product::<u32>();
        (0..threads.div_ceil(64))
            .map(|wave| self.wave(wave * 64, id, group, packet, arguments))
            .collect()
    }

    fn wave(&self, first: u32, id: [u32; 3], group: [u32; 3], packet: u64, arguments: u64) -> Wave {
        let base = self.image.as_ptr() as u64 + self.descriptor as u64;
        let entry = base.wrapping_add(self.field(16, 8) as u64);
        let (rsrc1, rsrc2, properties) = (self.field(48, 4), self.field(52, 4), self.field(56, 2));
        let threads = group.iter().product::<u32>();
        let lanes = (threads - first).min(64);
        let exec = u64::MAX >> (64 - lanes);
        let vgprs = ((rsrc1 & 63) + 1) * 4;
        let mut wave = Wave::with_code(entry, vgprs, exec, Arc::clone(&self.code));
        wave.poison();
        wave.set_private(self.field(4, 4));
        let mut next = 0;
        let mut set = |values: &[u32]| {
            for &value in values {
                wave.set_sgpr(next, value);
                next += 1;
            }
        };
        let wide = |value: u64| [value as u32, (value >> 32) as u32];
        let pointers =
            [&[0; 4][..], &wide(packet), &[0; 2], &wide(arguments), &[0; 2], &[0; 2], &[0]];
        for (bit, values) in pointers.iter().enumerate() {
            if properties >> bit & 1 != 0 {
                set(values);
            }
        }
        for (axis, id) in id.into_iter().enumerate() {
            if rsrc2 >> (7 + axis) & 1 != 0 {
                set(&[id]);
            }
        }
        set(&[0]);
        for lane in 0..lanes {
            let thread = first + lane;
            let at =
                [thread % group[0], thread / group[0] % group[1], thread / group[0] / group[1]];
            for (axis, at) in at.into_iter().enumerate().take(vgprs.min(3)) {
                wave.set_vgpr(axis, lane as usize, at);
            }
        }
        wave
    }
}

fn symbol(elf: &[u8], name: &str) -> usize {
    let (sections, count) = (number(elf, 40, 8), number(elf, 60, 2));
    let section = |k: usize| &elf[sections + 64 * k..][..64];
    let table =
        (0..count).map(section).find(|s| number(s, 4, 4) == 11).expect("has dynamic symbols");
    let strings = number(section(number(table, 40, 4)), 24, 8);
    let (start, size) = (number(table, 24, 8), number(table, 32, 8));
    let symbols = elf[start..start + size].chunks(24);
    let mut values = symbols.filter_map(|symbol| {
        let text = &elf[strings + number(symbol, 0, 4)..];
        (text.starts_with(name.as_bytes()) && text[name.len()] == 0).then(|| number(symbol, 8, 8))
    });
    values.next().expect("the kernel is there")
}

/// Runs waves in turn until all have ended.
fn run(waves: &mut Vec<Wave>, lds: usize, memory: &Mapped) -> Result<u64, Fault> {
    let mut lds = poisoned(lds);
    let mut executed = 0;
    while !waves.is_empty() {
        let mut left = Vec::new();
        for mut wave in waves.drain(..) {
            loop {
                match wave.run(&mut lds, memory, 10_000)? {
                    Pause::Steps => {}
                    Pause::Ended => {
                        executed += wave.executed();
                        break;
                    }
                    Pause::Barrier | Pause::Sleep => {
                        left.push(wave);
                        break;
                    }
                }
            }
        }
        *waves = left;
    }
    Ok(executed)
}
