//! Parameter by which a preemptible launch controls its blocks: `reef::Guard` in kernels/reef.h.

/// The first parameter of every preemptible kernel.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Guard {
    /// Address of the lowest epoch that may run.
    pub(crate) live: u64,
    /// Address of the launch's epoch, or 0: it is `epoch`.
    pub(crate) epoch_word: u64,
    /// Address of the number of blocks that have stopped.
    pub(crate) stopped: u64,
    /// Address of the list of those.
    pub(crate) list_out: u64,
    /// Address of the list of blocks to run, or 0: `first` and on.
    pub(crate) list_in: u64,
    pub(crate) first: u32,
    pub(crate) epoch: u32,
    pub(crate) grid: [u32; 3],
    pub(crate) may_stop: u32,
    /// Blocks of this launch, and of its grid, whose blocks take turns if that is smaller.
    pub(crate) count: u32,
    pub(crate) stride: u32,
}

impl Guard {
    /// Guard of a plain launch, which nothing stops: kernels of kernels/builtin.cu set the words of
    /// the host's at these addresses, unless they are 0, to the device's time when the launch
    /// begins and, if it is one block, when it has ended.
    pub(crate) fn noting(start: u64, end: u64) -> Self {
        Self { live: start, stopped: end, ..Self::default() }
    }
}

/// Blocks of a kernel that can be told from each other in a list entry.
pub(crate) const MAX_BLOCKS: u32 = (1 << 30) - 1;

#[cfg(test)]
mod tests {
    use super::Guard;
    use std::mem::offset_of;

    #[test]
    fn it_is_laid_out_as_in_the_header() {
        assert_eq!(size_of::<Guard>(), 72);
        assert_eq!(offset_of!(Guard, first), 40);
        assert_eq!(offset_of!(Guard, grid), 48);
        assert_eq!(offset_of!(Guard, may_stop), 60);
        assert_eq!(offset_of!(Guard, stride), 68);
    }
}
