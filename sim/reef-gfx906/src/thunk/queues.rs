//! Creating and changing hardware queues.

use crate::abi::{QueueResource, Status, put};
use crate::device::machine::{Words, device};
use crate::queue::ring::Ring;

const SDMA: u32 = 2;
const SDMA_XGMI: u32 = 5;
const COMPUTE_AQL: u32 = 21;

/// Success if the handle was known.
fn status_of(is_known: bool) -> Status {
    if is_known { Status::Success } else { Status::InvalidHandle }
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtCreateQueue(
    node: u32,
    kind: u32,
    percentage: u32,
    priority: i32,
    address: u64,
    bytes: u64,
    _event: *const (),
    resource: *mut QueueResource,
) -> Status {
    let copies = matches!(kind, SDMA | SDMA_XGMI);
    if node != crate::memory::DEVICE_NODE {
        return Status::InvalidNode;
    }
    if resource.is_null() || !(copies || kind == COMPUTE_AQL) {
        return Status::InvalidParameter;
    }
    // SAFETY: not null, and the interface demands a resource. HSA's runtime has filled in the
    // pointers of compute queues.
    let asked = unsafe { resource.read_unaligned() };
    let words = Words::lasting();
    let (write_pointer, read_pointer) = if copies {
        (words.write.as_ptr() as u64, words.read.as_ptr() as u64)
    } else {
        (asked.write_pointer, asked.read_pointer)
    };
    let Some(ring) = Ring::new(address, bytes, write_pointer, read_pointer) else {
        return Status::InvalidParameter;
    };
    let Some(id) = device().create_queue(ring, copies, priority, percentage > 0) else {
        return Status::OutOfResources;
    };
    let doorbell = words.doorbell.as_ptr() as u64;
    put(resource, QueueResource { id: id.into(), doorbell, write_pointer, read_pointer, ..asked })
}

#[unsafe(no_mangle)]
extern "C" fn hsaKmtDestroyQueue(id: u64) -> Status {
    status_of(u32::try_from(id).is_ok_and(|id| device().destroy_queue(id)))
}

/// The ring of a queue stays where it is.
#[unsafe(no_mangle)]
extern "C" fn hsaKmtUpdateQueue(
    id: u64,
    percentage: u32,
    priority: i32,
    _address: u64,
    _bytes: u64,
    _event: *const (),
) -> Status {
    let update = |id| device().update_queue(id, percentage > 0, priority);
    status_of(u32::try_from(id).is_ok_and(update))
}

/// Bits beyond the units that there are have no meaning.
#[unsafe(no_mangle)]
extern "C" fn hsaKmtSetQueueCUMask(id: u64, bits: u32, mask: *const u32) -> Status {
    if mask.is_null() || bits == 0 || !bits.is_multiple_of(32) {
        return Status::InvalidParameter;
    }
    // SAFETY: not null, and the interface demands `bits` bits at `mask`, a multiple of 32.
    let words = unsafe { std::slice::from_raw_parts(mask, bits as usize / 32) };
    let mask = words.iter().take(2).rev().fold(0, |mask, &word| mask << 32 | u64::from(word));
    status_of(u32::try_from(id).is_ok_and(|id| device().set_mask(id, mask)))
}

/// There is no global wave sync: kernels can't ask for it here.
#[unsafe(no_mangle)]
extern "C" fn hsaKmtAllocQueueGWS(_id: u64, _count: u32, first: *mut u32) -> Status {
    put(first, 0)
}
