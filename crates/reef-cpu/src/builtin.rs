//! Kernels that ship with the software device under a name.

use crate::kernel::{Block, Kernel, Outcome};
use reef_core::{Args, Error, Result, words};
use std::sync::atomic::AtomicU32;

type Body = fn(&mut Block<'_>, &Args) -> Outcome;

/// All of them.
const KERNELS: &[(&str, Body)] = &[("append", append), ("add", add), ("multiply", multiply)];

pub(crate) fn kernel(name: &str) -> Result<Kernel> {
    let found = KERNELS.iter().find(|(have, _)| *have == name);
    let Some(&(name, body)) = found else {
        let have: Vec<_> = KERNELS.iter().map(|(have, _)| *have).collect();
        return Err(Error::NotFound(format!(
            "cpu: no kernel {name:?} (have: {})",
            have.join(", ")
        )));
    };
    Ok(Kernel::new(name, body))
}

/// The kernel of the conformance suite: see [`Device::kernel`](reef_core::Device::kernel).
fn append(block: &mut Block<'_>, args: &Args) -> Outcome {
    let &[cells, value, rounds] = args.words() else { return Outcome::Done };
    for _ in 0..rounds {
        if block.stopped() {
            return Outcome::Stopped;
        }
        (0..64).for_each(|_| std::hint::spin_loop());
    }
    // SAFETY: the maker of the launch has given an array with a cell for each block, as
    // `Launch::new` demands, and all accesses to it are atomic words.
    let cell = unsafe { &*(cells as *const [AtomicU32; 2]).add(block.index as usize) };
    let mut bytes = [0; 8];
    words::read(cell, 0, &mut bytes);
    let appended = u64::from_ne_bytes(bytes).wrapping_mul(3).wrapping_add(value);
    words::write(cell, 0, &appended.to_ne_bytes());
    Outcome::Done
}

/// Threads of a block of the two kernels below.
const TOY_BLOCK: usize = 128;

/// `temp[i] = b[t] + a[i]` of REEF's toy network `mocked_kernel`; `t` counts within the block.
fn add(block: &mut Block<'_>, args: &Args) -> Outcome {
    toy(block, args, |by_thread, by_index, t, i| by_thread[t] + by_index[i])
}

/// `output[i] = temp[t] * c[i]` of the same.
fn multiply(block: &mut Block<'_>, args: &Args) -> Outcome {
    toy(block, args, |by_thread, by_index, t, i| by_thread[t] * by_index[i])
}

/// Arguments are the address read by thread, the one read by index, the one written, as in REEF's
/// schedule graph.
fn toy(block: &Block<'_>, args: &Args, f: impl Fn(&[f32], &[f32], usize, usize) -> f32) -> Outcome {
    let &[first, second, output] = args.words() else { return Outcome::Done };
    let start = block.index as usize * TOY_BLOCK;
    // SAFETY: the maker of the launch has given three arrays with an element for each thread of the
    // grid, as `Launch::new` demands. The one written is none of the others, and this block alone
    // writes these elements.
    let (by_thread, by_index, output) = unsafe {
        (
            std::slice::from_raw_parts(first as *const f32, TOY_BLOCK),
            std::slice::from_raw_parts((second as *const f32).add(start), TOY_BLOCK),
            std::slice::from_raw_parts_mut((output as *mut f32).add(start), TOY_BLOCK),
        )
    };
    if block.stopped() {
        return Outcome::Stopped;
    }
    for (t, out) in output.iter_mut().enumerate() {
        *out = f(by_thread, by_index, t, t);
    }
    Outcome::Done
}
