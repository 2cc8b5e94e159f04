//! Nodes of graphs that copy inside the device.

use super::addresses::span;
use super::caller::Caller;
use super::nodes::Change;
use crate::driver::INVALID_VALUE;
use crate::reader::Reader;
use reef_remote_calls::{BOX_WORDS, CopyNode};
use reef_wire::{Hot, Result};

/// `CU_MEMORYTYPE_DEVICE`.
const DEVICE: u32 = 2;

/// `CUDA_MEMCPY3D`. No address of this process's host memory comes into one.
#[repr(C)]
struct Copy3 {
    from: Side,
    to: Side,
    size: [u64; 3],
}

/// A side of the copy.
#[repr(C)]
struct Side {
    place: [u64; 4],
    memory: u32,
    host: u64,
    device: u64,
    array: u64,
    reserved: u64,
    pitch: [u64; 2],
}

impl Side {
    fn of(words: &[u64]) -> Self {
        let [x, y, z, level, device, row, rows] = words.try_into().expect("it has 7 words");
        let (place, pitch) = ([x, y, z, level], [row, rows]);
        Self { place, memory: DEVICE, host: 0, device, array: 0, reserved: 0, pitch }
    }
}

/// Adds a node, or changes one. Returns the driver's code.
///
/// # Errors
///
/// `Protocol` for a body that cannot be.
pub(crate) fn copy_node(caller: &Caller, body: &[u8]) -> Result<u32> {
    let (head, rest) = CopyNode::split(body)?;
    let mut rest = Reader(rest);
    let after = rest.words(head.after.get())?;
    let mut words = [0; BOX_WORDS];
    for word in &mut words {
        *word = rest.word()?;
    }
    let size = [words[14], words[15], words[16]];
    if !is_own(caller, &words[..7], size) || !is_own(caller, &words[7..14], size) {
        return Ok(INVALID_VALUE);
    }
    let copy = Copy3 { from: Side::of(&words[..7]), to: Side::of(&words[7..14]), size };
    let functions = &caller.shared.driver.functions;
    let change = Change {
        what: head.what.get(),
        node: head.node.get(),
        of: head.of.get(),
        context: head.context.get(),
        after,
        functions: [functions.add_copy_node, functions.set_copy_node, functions.set_exec_copy_node],
    };
    // SAFETY: a copy inside the device, of the program's memory.
    unsafe { change.make(&caller.shared, &raw const copy as usize) }
}

/// Returns whether a side of the copy is memory of the program's.
fn is_own(caller: &Caller, side: &[u64], [width, height, depth]: [u64; 3]) -> bool {
    let &[x, y, z, _, device, row, rows] = side else { return false };
    let slice = row.saturating_mul(rows);
    let before = [x, y.saturating_mul(row), z.saturating_mul(slice)];
    let before = before.into_iter().fold(0, u64::saturating_add);
    let bytes = span(span(width, row, height), slice, depth);
    device.checked_add(before).is_some_and(|at| caller.shared.has(at, bytes))
}
