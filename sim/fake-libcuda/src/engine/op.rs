//! Operations of a stream.

use std::sync::atomic::{AtomicU32, Ordering};

/// Factor that makes the order of `mix` and `join` visible.
const MULTIPLIER: u64 = 6_364_136_223_846_793_005;

/// A kernel that was launched, with its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernel {
    Mix,
    Add,
    Join,
    /// Prints its value.
    Say,
    /// Digests of pieces of memory, as a worker that carries a session makes them.
    Digest,
}

impl Kernel {
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "mix" => Some(Self::Mix),
            "add" => Some(Self::Add),
            "join" => Some(Self::Join),
            "say" => Some(Self::Say),
            "reef_digest" => Some(Self::Digest),
            _ => None,
        }
    }
}

/// One operation of a stream or a graph.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Kernel(Kernel, u64, u64),
    /// A launch of a kernel in PTX, by its number.
    Blocks(u64),
    Copy {
        to: usize,
        from: usize,
        bytes: usize,
    },
    Fill {
        to: usize,
        value: u8,
        bytes: usize,
    },
    Write(usize, u32),
    Wait {
        at: usize,
        value: u32,
        flags: u32,
    },
    Record {
        event: usize,
        times: u64,
    },
    WaitFor {
        event: usize,
        times: u64,
    },
    Host(extern "C" fn(usize), usize),
    Graph(usize),
    /// The end of memory.
    Free(usize),
    /// The end of a pool's memory, by the pool and a number.
    Leave(usize, u64),
    /// Of graphs alone: another graph in the place of a node.
    Child(usize),
    /// Of graphs alone: a graph that runs or doesn't, as a handle said when the node was made.
    If {
        body: usize,
        runs: bool,
    },
    /// Of graphs alone: an allocation, whose address is known from the beginning.
    Memory {
        at: usize,
        bytes: u64,
    },
    Empty,
}

impl Op {
    /// The graph inside of a node.
    pub(crate) fn child(&self) -> Option<usize> {
        if let Self::Child(child) = self { Some(*child) } else { None }
    }

    /// `CUgraphNodeType`.
    pub(crate) fn kind(&self) -> u32 {
        match self {
            Self::Kernel(..) | Self::Blocks(_) => 0,
            Self::Copy { .. } => 1,
            Self::Fill { .. } => 2,
            Self::Host(..) => 3,
            Self::Child(_) | Self::Graph(_) => 4,
            Self::Empty => 5,
            Self::WaitFor { .. } => 6,
            Self::Record { .. } => 7,
            Self::Memory { .. } => 10,
            Self::Free(_) | Self::Leave(..) => 11,
            Self::Write(..) | Self::Wait { .. } => 12,
            Self::If { .. } => 13,
        }
    }
}

/// Returns whether the word at `at` lets a wait pass, as `cuStreamWaitValue32` says.
pub(crate) fn passes(at: usize, value: u32, flags: u32) -> bool {
    // SAFETY: cuStreamWaitValue32 demands that the program keeps the word, which is aligned, while
    // its stream waits for it.
    let word = unsafe { &*(at as *const AtomicU32) }.load(Ordering::SeqCst);
    match flags & 3 {
        0 => word.wrapping_sub(value) as i32 >= 0,
        1 => word == value,
        2 => word & value != 0,
        _ => !(word | value) != 0,
    }
}

/// Adds to two sums for each of the pieces of 2 MiB, whose number is before the sums.
///
/// # Safety
///
/// As [`take_effect`].
unsafe fn digest(from: *const u64, out: *mut u64) {
    const WORDS: usize = (2 << 20) / 8;
    const CONSTANTS: [[u64; 3]; 2] = [
        [0x9e37_79b9_7f4a_7c15, 0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53],
        [0xd6e8_feb8_6659_fd93, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb],
    ];
    // SAFETY: `take_effect` demands memory at the kernel's addresses. The number of pieces is the
    // first word of the output.
    let pieces = unsafe { *out } as usize;
    for piece in 0..pieces {
        // SAFETY: `take_effect` demands memory at the kernel's addresses: the pieces, and two sums
        // for each of them.
        let (words, sums) = unsafe {
            let words = std::slice::from_raw_parts(from.add(WORDS * piece), WORDS);
            (words, std::slice::from_raw_parts_mut(out.add(2 + 2 * piece), 2))
        };
        for (sum, [multiple, first, second]) in sums.iter_mut().zip(CONSTANTS) {
            let mut place = 0_u64;
            for word in words {
                place = place.wrapping_add(multiple);
                let mut x = place ^ word;
                x = (x ^ (x >> 33)).wrapping_mul(first);
                x = (x ^ (x >> 33)).wrapping_mul(second);
                *sum = sum.wrapping_add(x ^ (x >> 33));
            }
        }
    }
}

/// Applies an operation to memory.
///
/// # Safety
///
/// Memory that the operation names stays until it has run. The driver demands that of the program.
pub(crate) unsafe fn take_effect(op: &Op) {
    match *op {
        // SAFETY: `# Safety` demands memory at both parameters of the kernel until the operation
        // has run.
        Op::Kernel(Kernel::Digest, from, out) => unsafe {
            digest(from as *const u64, out as *mut u64)
        },
        Op::Kernel(kernel, to, value) => {
            let to = to as *mut u64;
            // SAFETY: `# Safety` demands a word at `to`, and at `value` for `join`, until the
            // operation has run.
            unsafe {
                *to = match kernel {
                    Kernel::Add => (*to).wrapping_add(value),
                    Kernel::Mix => (*to).wrapping_mul(MULTIPLIER).wrapping_add(value),
                    Kernel::Say => {
                        libc::printf(c"say %llu\n".as_ptr(), value);
                        *to
                    }
                    Kernel::Join => {
                        (*to).wrapping_mul(MULTIPLIER).wrapping_add(*(value as *const u64))
                    }
                    Kernel::Digest => *to, // as above
                };
            }
        }
        // SAFETY: `# Safety` demands `bytes` bytes at both addresses until the operation has run.
        // They may overlap.
        Op::Copy { to, from, bytes } => unsafe {
            std::ptr::copy(from as *const u8, to as *mut u8, bytes);
        },
        // SAFETY: `# Safety` demands `bytes` bytes at `to` until the operation has run.
        Op::Fill { to, value, bytes } => unsafe {
            std::ptr::write_bytes(to as *mut u8, value, bytes)
        },
        Op::Write(at, value) => {
            // SAFETY: `# Safety` demands the word until the operation has run. The driver demands
            // that it is aligned.
            unsafe { &*(at as *const AtomicU32) }.store(value, Ordering::SeqCst);
        }
        Op::Host(function, data) => function(data),
        // All others take effect where they are made, or when they have ended.
        _ => {}
    }
}
