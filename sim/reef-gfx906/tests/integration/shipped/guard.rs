//! Parameter that the host gives to a launch that can be stopped.

use crate::common::{Kernel, Mapped};

/// Eight bytes each of a `reef::Guard`.
const WORDS: usize = 9;

/// Launches blocks of a plain kernel, which note at these addresses when they begin and end, unless
/// they are 0.
pub(crate) fn launch_plain(
    kernel: &Kernel,
    memory: &mut Mapped,
    [blocks, threads]: [u32; 2],
    [start, end]: [u64; 2],
    arguments: &[u64],
) {
    let mut guard = [0; WORDS];
    (guard[0], guard[2]) = (start, end);
    let arguments = [&guard[..], arguments].concat();
    kernel.launch(memory, [blocks, 1, 1], [threads, 1, 1], &arguments).expect("runs");
}

/// `reef::Guard` and the words that it points to.
#[derive(Debug)]
pub(crate) struct Guard {
    pub(crate) live: u32,
    pub(crate) epoch: u32,
    pub(crate) stopped: u32,
    pub(crate) list: Vec<u32>,
    pub(crate) grid: [u32; 3],
    /// Maximum of blocks of the launch's grid, which take turns if the kernel has more.
    pub(crate) width: u32,
}

impl Guard {
    /// Guard of a kernel of this grid, launched in epoch 1 while that is live.
    pub(crate) fn new(grid: [u32; 3]) -> Self {
        let blocks = grid.iter().product::<u32>() as usize;
        Self { live: 1, epoch: 1, stopped: 0, list: vec![u32::MAX; blocks], grid, width: u32::MAX }
    }

    /// Launches all blocks of the kernel, or those in the list.
    pub(crate) fn launch(
        &mut self,
        kernel: &Kernel,
        memory: &mut Mapped,
        threads: u32,
        list_in: Option<&[u32]>,
        arguments: &[u64],
    ) {
        let [x, y, z] = self.grid.map(u64::from);
        let blocks = list_in.map_or(self.list.len(), <[u32]>::len) as u32;
        let width = blocks.min(self.width);
        let guard = [
            memory.map(std::slice::from_ref(&self.live)),
            0,
            memory.map_mut(std::slice::from_mut(&mut self.stopped)),
            memory.map_mut(&mut self.list),
            list_in.map_or(0, |list| memory.map(list)),
            u64::from(self.epoch) << 32,
            x | y << 32,
            z | 1 << 32,
            u64::from(blocks) | u64::from(width) << 32,
        ];
        let arguments = [&guard[..], arguments].concat();
        kernel.launch(memory, [width, 1, 1], [threads, 1, 1], &arguments).expect("runs");
    }

    /// The blocks that have stopped, rising.
    pub(crate) fn listed(&self) -> Vec<u32> {
        let mut listed = self.list[..self.stopped as usize].to_vec();
        listed.sort_unstable();
        listed
    }
}
