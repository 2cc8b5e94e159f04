//! Nodes of graphs that copy inside the device.

use super::addresses::span;
use super::caller::Caller;
use super::nodes::Change;
use crate::reader::Reader;
use reef_cuda_abi::codes::INVALID_VALUE;
use reef_cuda_abi::layouts::{Memcpy3D, Memcpy3DSide};
use reef_cuda_abi::memory_types::DEVICE;
use reef_remote_calls::{BOX_WORDS, CopyNode};
use reef_wire::{Hot, Result};

/// Source or target of a copy. No address of this process's host memory comes into one.
fn side(words: &[u64]) -> Memcpy3DSide {
    let words: [u64; 7] = words.try_into().expect("it has 7 words");
    let [x, y, z, level, device, pitch, height] = words.map(|word| word as usize);
    let corner = [x, y, z, level];
    Memcpy3DSide { corner, kind: DEVICE, host: 0, device, array: 0, reserved: 0, pitch, height }
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
    let (from, to) = (side(&words[..7]), side(&words[7..14]));
    let copy = Memcpy3D { from, to, size: size.map(|word| word as usize) };
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
fn is_own(caller: &Caller, side: &[u64], size: [u64; 3]) -> bool {
    part(side, size).is_some_and(|(at, bytes)| caller.shared.has(at, bytes))
}

/// Returns a side's first address, and the bytes up to its last one. `None`: rows or slices
/// overlap, so that it is not known what the driver makes of them, or there are more bytes than
/// addresses.
fn part(side: &[u64], [width, height, depth]: [u64; 3]) -> Option<(u64, u64)> {
    let &[x, y, z, level, device, row, rows] = side else { return None };
    if level != 0 {
        return None; // that is an array's
    }
    let has_slices = z > 0 || depth > 1;
    let has_rows = has_slices || y > 0 || height > 1;
    if has_rows && row < x.checked_add(width)? {
        return None;
    }
    if has_slices && rows < y.checked_add(height)? {
        return None;
    }
    let slice = if has_slices { row.checked_mul(rows)? } else { 0 };
    let before = x.checked_add(y.checked_mul(row)?)?.checked_add(z.checked_mul(slice)?)?;
    let bytes = span(span(width, row, height)?, slice, depth)?;
    Some((device.checked_add(before)?, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn box_reaches_from_its_first_byte_to_its_last() {
        let of = |[x, y, z]: [u64; 3], [row, rows]: [u64; 2], size| {
            part(&[x, y, z, 0, 4096, row, rows], size)
        };
        assert_eq!(of([0; 3], [0; 2], [64, 1, 1]), Some((4096, 64)));
        assert_eq!(of([8, 0, 0], [0; 2], [64, 1, 1]), Some((4104, 64)));
        assert_eq!(of([8, 1, 0], [72, 0], [64, 2, 1]), Some((4096 + 80, 72 + 64)));
        assert_eq!(of([0, 1, 1], [64, 8], [64, 2, 2]), Some((4096 + 576, 512 + 128)));
        assert_eq!(of([0; 3], [64, 8], [64, 0, 1]), Some((4096, 0)));
        for (place, pitch, size) in [
            ([0, 5, 0], [0, 0], [64, 1, 1]),
            ([0, 0, 0], [0, 0], [64, 4, 1]),
            ([1, 0, 0], [64, 0], [64, 2, 1]),
            ([0, 0, 3], [64, 0], [64, 1, 1]),
            ([0, 1, 0], [64, 2], [64, 2, 2]),
            ([0, 1 << 40, 0], [1 << 40, 0], [64, 1, 1]),
            ([0, 0, 0], [64, 1 << 60], [64, 1, 3]),
            ([u64::MAX, 0, 0], [0, 0], [64, 1, 1]),
        ] {
            assert_eq!(of(place, pitch, size), None, "{place:?} {pitch:?} {size:?}");
        }
        assert_eq!(part(&[0, 0, 0, 1, 4096, 0, 0], [64, 1, 1]), None, "a level of an array");
    }
}
