//! A kernel launch as its packet and its kernel's descriptor describe it.

use super::unit::{Need, Unit};
use crate::access::{Unmapped, u16_at, u32_at, u64_at};
use crate::isa::code::Code;
use crate::isa::wave::Wave;
use crate::memory::View;
use std::sync::Arc;

const LANES: u32 = 64;
/// A workgroup has at most 1024 work-items.
const MAX_ITEMS: u64 = 1024;

/// Bits of the descriptor that say which registers a wave finds filled.
mod properties {
    pub(super) const PRIVATE_BUFFER: u16 = 1;
    pub(super) const PACKET: u16 = 1 << 1;
    pub(super) const QUEUE: u16 = 1 << 2;
    pub(super) const ARGUMENTS: u16 = 1 << 3;
    pub(super) const LAUNCH: u16 = 1 << 4;
    pub(super) const FLAT_SCRATCH: u16 = 1 << 5;
    pub(super) const PRIVATE_SIZE: u16 = 1 << 6;
}

/// Common part of all workgroups of a launch.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    pub(crate) id: u64,
    pub(crate) kernel: u64,
    packet: u64,
    arguments: u64,
    entry: u64,
    /// Work-items of a workgroup and of the grid.
    group: [u32; 3],
    grid: [u32; 3],
    lds: u32,
    private: u32,
    vgprs: u32,
    properties: u16,
    /// `compute_pgm_rsrc2`.
    resources: u32,
}

impl Launch {
    /// Reads the packet at `at`, with the descriptor that it names.
    pub(crate) fn read(id: u64, at: u64, view: &View<'_>) -> Result<Self, String> {
        let packet: [u8; 64] = view.bytes(at).map_err(|bad| bad.to_string())?;
        let kernel = u64_at(&packet, 32);
        let descriptor: [u8; 64] = view
            .bytes(kernel)
            .map_err(|Unmapped(at)| format!("kernel descriptor {at:#x}: not mapped"))?;
        let launch = Self {
            id,
            kernel,
            packet: at,
            arguments: u64_at(&packet, 40),
            entry: kernel.wrapping_add(u64_at(&descriptor, 16)),
            group: [4, 6, 8].map(|field| u16_at(&packet, field).into()),
            grid: [12, 16, 20].map(|field| u32_at(&packet, field)),
            lds: u32_at(&packet, 28).max(u32_at(&descriptor, 0)),
            private: u32_at(&packet, 24).max(u32_at(&descriptor, 4)),
            vgprs: ((u32_at(&descriptor, 48) & 63) + 1) * 4,
            properties: u16_at(&descriptor, 56),
            resources: u32_at(&descriptor, 52),
        };
        launch.check()
    }

    fn check(self) -> Result<Self, String> {
        let items: u64 = self.group.iter().map(|&items| u64::from(items)).product();
        if items == 0 || items > MAX_ITEMS || self.grid.contains(&0) {
            return Err(format!("a grid of {:?} in groups of {:?}", self.grid, self.group));
        }
        let groups: u64 = self.groups().iter().map(|&groups| u64::from(groups)).product();
        if groups > u64::from(u32::MAX) {
            return Err(format!("a grid of {groups} groups"));
        }
        if Unit::default().take(self.need()).is_none() {
            return Err(format!("{:?} don't fit on a compute unit", self.need()));
        }
        Ok(self)
    }

    /// Workgroups in each direction.
    pub(crate) fn groups(&self) -> [u32; 3] {
        std::array::from_fn(|axis| self.grid[axis].div_ceil(self.group[axis]))
    }

    /// All workgroups.
    pub(crate) fn total(&self) -> u32 {
        self.groups().iter().product()
    }

    /// Place of workgroup number `index` in the grid.
    pub(crate) fn place(&self, index: u32) -> [u32; 3] {
        let groups = self.groups();
        [index % groups[0], index / groups[0] % groups[1], index / groups[0] / groups[1]]
    }

    /// Resources that each workgroup takes of its unit.
    pub(crate) fn need(&self) -> Need {
        let items: u32 = self.group.iter().product();
        Need {
            waves: items.div_ceil(LANES),
            vgprs: self.vgprs,
            lds: self.lds.next_multiple_of(512),
        }
    }

    /// Bytes of shared memory of a workgroup.
    pub(crate) fn lds_bytes(&self) -> usize {
        self.lds as usize
    }

    /// The waves of the workgroup at `place`, before their first instruction.
    pub(crate) fn waves(&self, place: [u32; 3], code: &Arc<Code>) -> Vec<Wave> {
        // Workgroups at the end of the grid may be smaller.
        let size: [u32; 3] = std::array::from_fn(|axis| {
            (self.grid[axis] - place[axis] * self.group[axis]).min(self.group[axis])
        });
        let items: u32 = size.iter().product();
        (0..items)
            .step_by(LANES as usize)
            .map(|first| self.wave(place, size, first, code))
            .collect()
    }

    fn wave(&self, place: [u32; 3], size: [u32; 3], first: u32, code: &Arc<Code>) -> Wave {
        let items = size.iter().product::<u32>() - first;
        let exec = if items >= LANES { u64::MAX } else { (1 << items) - 1 };
        let mut wave = Wave::with_code(self.entry, self.vgprs as usize, exec, Arc::clone(code));
        wave.poison();
        if self.private > 0 {
            wave.set_private(self.private as usize);
        }
        self.fill_sgprs(&mut wave, place);
        self.fill_vgprs(&mut wave, size, first, items.min(LANES));
        wave
    }

    fn fill_sgprs(&self, wave: &mut Wave, place: [u32; 3]) {
        let split = |value: u64| [value as u32, (value >> 32) as u32];
        let user: [(u16, &[u32]); 7] = [
            (properties::PRIVATE_BUFFER, &[0; 4]),
            (properties::PACKET, &split(self.packet)),
            (properties::QUEUE, &[0; 2]),
            (properties::ARGUMENTS, &split(self.arguments)),
            (properties::LAUNCH, &split(self.id)),
            (properties::FLAT_SCRATCH, &[0; 2]),
            (properties::PRIVATE_SIZE, &[self.private]),
        ];
        let user = user.iter().filter(|(bit, _)| self.properties & bit != 0);
        let user = user.flat_map(|(_, words)| words.iter().copied());
        let wants = |bit: usize| self.resources >> bit & 1 != 0;
        let places = (0..3).filter(|axis| wants(7 + axis)).map(|axis: usize| place[axis]);
        // Which wave of the group it is, which no compiler asks for, and where the wave's private
        // memory begins: each has its own.
        let others = [10, 0].into_iter().filter(|&bit| wants(bit)).map(|_| 0);
        let values = user.chain(places).chain(others);
        for (register, value) in values.enumerate() {
            wave.set_sgpr(register, value);
        }
    }

    /// Each lane's place in the workgroup, in as many registers as the kernel wants.
    fn fill_vgprs(&self, wave: &mut Wave, size: [u32; 3], first: u32, lanes: u32) {
        let wanted = (self.resources >> 11 & 3).min(2) as usize;
        for lane in 0..lanes {
            let item = first + lane;
            let place = [item % size[0], item / size[0] % size[1], item / size[0] / size[1]];
            for (register, &value) in place[..=wanted].iter().enumerate() {
                wave.set_vgpr(register, lane as usize, value);
            }
        }
    }
}
