//! Nodes of graphs that copy inside the device.

use super::caller::Caller;
use super::reader::Reader;
use crate::state::lock::lock;
use reef_remote_calls::{ADD_NODE, BOX_WORDS, CopyNode, Kind, SET_EXEC_NODE, SET_NODE};
use reef_wire::{Error, Hot, Result};

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
pub(crate) fn copy_node(caller: &mut Caller, body: &[u8]) -> Result<u32> {
    let (head, rest) = CopyNode::split(body)?;
    let mut rest = Reader(rest);
    let mut after = Vec::new();
    for _ in 0..head.after.get() {
        after.push(rest.word()?);
    }
    let mut words = [0; BOX_WORDS];
    for word in &mut words {
        *word = rest.word()?;
    }
    let size = [words[14], words[15], words[16]];
    let copy = Copy3 { from: Side::of(&words[..7]), to: Side::of(&words[7..14]), size };
    Ok(make(caller, head, &after, &copy)?.err().unwrap_or(0))
}

fn make(caller: &Caller, head: &CopyNode, after: &[u64], copy: &Copy3) -> Result<Result<(), u32>> {
    let functions = &caller.shared.driver.functions;
    let mut handles = lock(&caller.shared.handles);
    let (of, node, copy) = (head.of.get(), head.node.get(), std::ptr::from_ref(copy) as usize);
    let made = match head.what.get() {
        ADD_NODE => (|| {
            let graph = handles.get(Kind::Graph, of)?;
            let context = handles.get(Kind::Context, head.context.get())?;
            let get = |id: &u64| handles.get(Kind::Node, *id);
            let after = after.iter().map(get).collect::<Result<Vec<usize>, u32>>()?;
            let mut new = 0_usize;
            let (place, list, count) =
                (&raw mut new as usize, after.as_ptr() as usize, after.len());
            // SAFETY: a place for a handle, handles of the driver's, and a copy inside the device:
            // wrong addresses of it are the driver's to refuse.
            let code =
                unsafe { functions.add_copy_node.call([place, graph, list, count, copy, context]) };
            if code != 0 {
                return Err(code);
            }
            handles.insert(Kind::Node, node, new, of)
        })(),
        SET_NODE => handles.get(Kind::Node, node).and_then(|node| {
            // SAFETY: as above.
            ok(unsafe { functions.set_copy_node.call([node, copy]) })
        }),
        SET_EXEC_NODE => (|| {
            let exec = handles.get(Kind::Exec, of)?;
            let node = handles.get(Kind::Node, node)?;
            let context = handles.get(Kind::Context, head.context.get())?;
            // SAFETY: as above.
            ok(unsafe { functions.set_exec_copy_node.call([exec, node, copy, context]) })
        })(),
        what => return Err(Error::Protocol(format!("node: operation {what}"))),
    };
    Ok(made)
}

fn ok(code: u32) -> Result<(), u32> {
    if code == 0 { Ok(()) } else { Err(code) }
}
