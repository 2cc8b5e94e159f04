//! Checks of the memory that operations name, before they take effect (`REEF_FAKE_CHECK=1`): a
//! process that gives the driver an address of its own by mistake ends.

use super::op::{Kernel, Op};
use super::settings::setting;
use super::world::World;
use std::sync::LazyLock;

/// Returns whether operations are checked.
pub(crate) fn is_on() -> bool {
    static IS_ON: LazyLock<bool> = LazyLock::new(|| setting("REEF_FAKE_CHECK", 0) != 0);
    *IS_ON
}

/// Memory that an address names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemoryKind {
    Device,
    /// Memory of the host's that the driver has allocated.
    Host,
    /// Reserved addresses without memory, or a range that leaves its memory: a fault of the device.
    Nothing,
    /// It is none of the driver's.
    Foreign,
}

fn place(world: &World, at: usize, bytes: usize) -> MemoryKind {
    if bytes == 0 {
        return MemoryKind::Device;
    }
    let globals = world.globals.values().flatten().map(|(_, at, bytes)| (*at, *bytes));
    let known = world
        .range(at)
        .or_else(|| globals.into_iter().find(|(from, len)| (*from..from + len).contains(&at)));
    let Some((from, len)) = known else {
        let reserved = world.reserved.range(..=at).next_back();
        let is_reserved = reserved.is_some_and(|(from, len)| at - from < *len);
        return if is_reserved { MemoryKind::Nothing } else { MemoryKind::Foreign };
    };
    let is_host = world.memory.contains_key(&from)
        && !world.taken.contains_key(&from)
        && !world.pooled.contains_key(&from)
        && !world.foreign.contains_key(&from);
    if bytes > from + len - at {
        MemoryKind::Nothing
    } else if is_host {
        MemoryKind::Host
    } else {
        MemoryKind::Device
    }
}

/// Returns whether an operation may take effect; not if the device would have a fault.
///
/// # Panics
///
/// An address is none of the driver's, or of the host's where it must be of the device: the process
/// ends.
pub(crate) fn may_run(world: &World, op: &Op, is_inside: bool) -> bool {
    let places = match *op {
        Op::Copy { to, from, bytes } => vec![place(world, to, bytes), place(world, from, bytes)],
        Op::Fill { to, bytes, .. } => vec![place(world, to, bytes), MemoryKind::Device],
        Op::Write(at, _) => vec![place(world, at, 4), MemoryKind::Device],
        // The effect of a kernel is the program's matter, and a fault of it the device's.
        Op::Kernel(Kernel::Digest, ..) | Op::Blocks(_) => return false,
        Op::Kernel(kernel, to, value) => {
            let from = if kernel == Kernel::Join { value } else { to };
            let all = [to, from].map(|at| place(world, at as usize, 8));
            return all == [MemoryKind::Device; 2];
        }
        _ => return true,
    };
    let hosts = places.iter().filter(|place| **place == MemoryKind::Host).count();
    if places.contains(&MemoryKind::Foreign) || hosts > usize::from(!is_inside) {
        eprintln!("fake driver: {op:?} names memory that is not the device's: {places:?}");
        std::process::abort();
    }
    !places.contains(&MemoryKind::Nothing)
}
