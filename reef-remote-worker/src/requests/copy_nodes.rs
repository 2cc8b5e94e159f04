//! Nodes of graphs that copy inside the device.

use super::caller::Caller;
use super::nodes::Change;
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
    // SAFETY: a copy inside the device. Wrong addresses of it are the driver's to refuse.
    unsafe { change.make(&caller.shared, &raw const copy as usize) }
}
