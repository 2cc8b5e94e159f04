//! Tensors: inputs and outputs of any network, each with its name, shape and element type.

use crate::entry::args::{data_bytes, give_text, place};
use crate::entry::record;
use crate::entry::types::*;
use crate::fault::{Fault, Result};
use crate::guard::answer;
use crate::handles;
use crate::status::reef_status;
use reef::models::{Extent, Port, Ports};
use reef::tensor::Element;
use reef_any::{Network, Turn};
use std::ffi::{c_char, c_void};
use std::{ptr, slice};

/// Number of the network's inputs, or of its outputs. Any thread.
///
/// # Safety
///
/// `count` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reef_network_count_tensors(
    network: *const reef_network,
    end: reef_end,
    count: *mut usize,
) -> reef_status {
    answer(|| {
        place("count", count)?;
        let network = handles::get::<Network>(network.addr())?;
        let found = ports(&network, end)?.len();
        // SAFETY: `count` is not null, as `place` has checked, and can be written: reef.h demands
        // it of the program.
        unsafe { count.write_unaligned(found) };
        Ok(())
    })
}

/// Element type, rank and size of an input or output, which are counted from 0. Any thread.
///
/// # Safety
///
/// `info` is null or as large as its `struct_size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reef_network_get_tensor(
    network: *const reef_network,
    end: reef_end,
    index: usize,
    info: *mut reef_tensor_info,
) -> reef_status {
    answer(|| {
        let network = handles::get::<Network>(network.addr())?;
        let (_, port) = at(ports(&network, end)?, index)?;
        let rank = port.spec.dims.len();
        let many = |_| Fault::invalid(format!("{}: rank must fit 32 bits, got {rank}", port.name));
        let facts = reef_tensor_info {
            struct_size: 0,
            element: element(port.spec.element),
            rank: u32::try_from(rank).map_err(many)?,
            reserved: 0,
            bytes: port.spec.bytes() as u64,
        };
        // SAFETY: `info` is null or as large as its `struct_size`: reef.h demands it of the
        // program.
        unsafe { record::write(facts, info) }
    })
}

/// The name of an input or output as its file has it, cut to `size` bytes with the zero byte at its
/// end. `needed`, if it isn't NULL, gets the bytes that the whole name takes with it. Any thread.
///
/// # Safety
///
/// `size` bytes at `name` can be written, or `size` is 0; `needed` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reef_network_get_tensor_name(
    network: *const reef_network,
    end: reef_end,
    index: usize,
    name: *mut c_char,
    size: usize,
    needed: *mut usize,
) -> reef_status {
    answer(|| {
        let network = handles::get::<Network>(network.addr())?;
        let (_, port) = at(ports(&network, end)?, index)?;
        // SAFETY: `size` bytes at `name` can be written, or `size` is 0, and `needed` is null or
        // can be written: reef.h demands it of the program.
        unsafe { give_text(&port.name, name, size, needed) }
    })
}

/// The sizes of an input or output, of which there are as many as its rank. -1 is one that each
/// request decides: see `reef_network_read_size`. Any thread.
///
/// # Safety
///
/// `count` numbers at `sizes` can be written, or it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reef_network_get_tensor_shape(
    network: *const reef_network,
    end: reef_end,
    index: usize,
    sizes: *mut i64,
    count: usize,
) -> reef_status {
    answer(|| {
        let network = handles::get::<Network>(network.addr())?;
        let (_, port) = at(ports(&network, end)?, index)?;
        let mut dims: Vec<i64> = port.spec.dims.iter().map(|&size| size as i64).collect();
        if let Extent::Bounded { axis, .. } = port.extent {
            dims[axis] = -1;
        }
        if count != dims.len() {
            let text = format!("{} must have {} sizes, got {count}", port.name, dims.len());
            return Err(Fault::invalid(text));
        }
        if count > 0 {
            place("sizes", sizes)?;
            let (from, bytes) = (dims.as_ptr().cast::<u8>(), size_of_val(&*dims));
            // SAFETY: `sizes` is not null, so `count` numbers can be written: reef.h demands it of
            // the program. `dims` has as many, in memory of its own. Bytes are always aligned.
            unsafe { ptr::copy_nonoverlapping(from, sizes.cast(), bytes) };
        }
        Ok(())
    })
}

/// Writes an input of the next request: all of its bytes, in row-major order. REEF_BUSY: a
/// request is on its way.
///
/// Any thread; calls for one network wait for each other.
///
/// # Safety
///
/// `bytes` bytes at `data` can be read, or it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reef_network_write_tensor(
    network: *const reef_network,
    index: usize,
    data: *const c_void,
    bytes: usize,
) -> reef_status {
    answer(|| {
        let network = handles::get::<Network>(network.addr())?;
        let (offset, port) = at(network.inputs(), index)?;
        data_bytes(&port.name, data, bytes, port.spec.bytes())?;
        let mut turn = Turn::wait(&network)?;
        if bytes > 0 {
            // SAFETY: `data_bytes` has refused null, so `bytes` bytes can be read: reef.h demands
            // it of the program.
            turn.write(offset, unsafe { slice::from_raw_parts(data.cast(), bytes) })?;
        }
        Ok(())
    })
}

/// Reads an output of the last request that finished: all of its bytes, of which those of the sizes
/// that it decided have values. REEF_BUSY: a request is on its way. REEF_INVALID: data did not end
/// a loop within its bound.
///
/// Any thread; calls for one network wait for each other.
///
/// # Safety
///
/// `bytes` bytes at `data` can be written, or it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reef_network_read_tensor(
    network: *const reef_network,
    index: usize,
    data: *mut c_void,
    bytes: usize,
) -> reef_status {
    answer(|| {
        let network = handles::get::<Network>(network.addr())?;
        let (offset, port) = at(network.outputs(), index)?;
        data_bytes(&port.name, data, bytes, port.spec.bytes())?;
        let turn = Turn::wait(&network)?;
        let mut read = vec![0; bytes]; // so that C's place is left alone if it fails
        if bytes > 0 {
            turn.read(offset, &mut read)?;
            // SAFETY: `data_bytes` has refused null, so `bytes` bytes can be written: reef.h
            // demands it of the program. `read` is as long, and memory of its own.
            unsafe { ptr::copy_nonoverlapping(read.as_ptr(), data.cast(), bytes) };
        }
        Ok(())
    })
}

/// Reads the size that the last request which finished decided for an output, in place of -1 in its
/// shape. REEF_INVALID: all of its sizes are fixed.
///
/// Any thread; calls for one network wait for each other.
///
/// # Safety
///
/// `size` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reef_network_read_size(
    network: *const reef_network,
    index: usize,
    size: *mut u64,
) -> reef_status {
    answer(|| {
        place("size", size)?;
        let network = handles::get::<Network>(network.addr())?;
        let (_, port) = at(network.outputs(), index)?;
        let fixed = || Fault::invalid(format!("{}: all of its sizes are fixed", port.name));
        let Extent::Bounded { axis, .. } = port.extent else { return Err(fixed()) };
        let offset = network.outputs().size_of(port).ok_or_else(fixed)?;
        let mut read = [0; 8];
        Turn::wait(&network)?.read(offset, &mut read)?;
        let found = u64::try_from(i64::from_le_bytes(read)).unwrap_or_default();
        // SAFETY: `size` is not null, as `place` has checked, and can be written: reef.h demands it
        // of the program.
        unsafe { size.write_unaligned(found.min(port.spec.dims[axis] as u64)) };
        Ok(())
    })
}

fn ports(network: &Network, end: reef_end) -> Result<&Ports> {
    match end {
        REEF_INPUT => Ok(network.inputs()),
        REEF_OUTPUT => Ok(network.outputs()),
        _ => Err(Fault::invalid(format!("end {end} (have: REEF_INPUT 1, REEF_OUTPUT 2)"))),
    }
}

/// Tensor number `index`, with its first byte among all.
fn at(ports: &Ports, index: usize) -> Result<(usize, &Port)> {
    let have = ports.len();
    let none = || Fault::invalid(format!("tensor must be less than {have}, got {index}"));
    ports.get(index).ok_or_else(none)
}

fn element(element: Element) -> reef_element {
    match element {
        Element::Bool => REEF_BOOL,
        Element::U8 => REEF_U8,
        Element::U16 => REEF_U16,
        Element::U32 => REEF_U32,
        Element::U64 => REEF_U64,
        Element::I8 => REEF_I8,
        Element::I16 => REEF_I16,
        Element::I32 => REEF_I32,
        Element::I64 => REEF_I64,
        Element::F16 => REEF_F16,
        Element::F32 => REEF_F32,
        Element::F64 => REEF_F64,
        Element::BF16 => REEF_BF16,
    }
}
