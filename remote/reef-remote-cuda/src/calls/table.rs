//! Calls that are packed by the table.

use super::export::{check, stream};
use crate::refused::refuse;
use crate::session::session;
use crate::state::lock::mint;
use reef_cuda_abi::codes::INVALID_VALUE;
use reef_remote_calls::{
    Arg, Call, Kind, MAX_ARGS, TableCall, Way, are_context_flags_known, for_each_call,
};
use reef_wire::little_endian::{U16, U32};
use reef_wire::{Hot, hot_bytes};
use std::ffi::{CStr, c_char};

macro_rules! word {
    ($arg:ident) => {
        usize
    };
}

macro_rules! export_one {
    ($name:ident as $call:ident, $is_ptsz:literal ($($arg:ident),*)) => {
        #[allow(non_snake_case)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($arg: word!($arg)),*) -> u32 {
            // SAFETY: the arguments are those of the program, passed on unread. The driver demands
            // that addresses among them are null or valid, and so does `table`.
            unsafe { table(Call::$call, $is_ptsz, &[$($arg),*]) }.err().unwrap_or(0)
        }
    };
    ($name:ident ($($arg:ident),*)) => {
        export_one!($name as $name, false ($($arg),*));
    };
    ($name:ident / $ptsz:ident ($($arg:ident),*)) => {
        export_one!($name as $name, false ($($arg),*));
        export_one!($ptsz as $name, true ($($arg),*));
    };
}

macro_rules! export {
    (
        exported { $($way:ident $name:ident $(/ $ptsz:ident)? ($($arg:ident: $kind:expr),*);)* }
        custom { $($rest:tt)* }
    ) => {
        $(export_one!($name $(/ $ptsz)? ($($arg),*));)*
    };
}

for_each_call!(export);

/// Makes a call of the table.
///
/// # Errors
///
/// The driver's code.
///
/// # Safety
///
/// Arguments that are addresses are null, or what the driver's function wants.
pub(crate) unsafe fn table(call: Call, is_ptsz: bool, args: &[usize]) -> Result<(), u32> {
    let (spec, session) = (call.spec(), session()?);
    if !are_context_flags_known(spec, args) {
        return Err(refuse(c"a context with core dumps or an unknown flag"));
    }
    if call == Call::cuStreamSynchronize && session.is_done(stream(args[0], is_ptsz)) {
        return Ok(()); // a copy from this stream has just ended
    }
    let mut body: Vec<u8> = Vec::with_capacity(8 * MAX_ARGS);
    let mut minted = 0;
    let mut put = |word: u64| body.extend_from_slice(&word.to_le_bytes());
    for (arg, &value) in spec.args.iter().zip(args) {
        match *arg {
            Arg::Word32 => put(u64::from(value as u32)),
            Arg::Word64 => put(value as u64),
            Arg::Handle(Kind::Stream) => put(stream(value, is_ptsz)),
            Arg::Handle(_) | Arg::End(_) => put(value as u64),
            Arg::New(_) | Arg::Known(_) if value == 0 => return Err(INVALID_VALUE),
            Arg::New(_) | Arg::Known(_) => {
                minted = mint();
                put(minted);
            }
            Arg::Out(_) => put(u64::from(value != 0)),
            Arg::Handles(_, count) => {
                let count = if value == 0 { 0 } else { args[count] };
                put(8 * count as u64);
                for at in 0..count {
                    // SAFETY: not null if `count` isn't zero, and `# Safety` demands what the
                    // driver does: `count` handles. Their alignment does not matter.
                    put(unsafe { (value as *const u64).add(at).read_unaligned() });
                }
            }
            Arg::In(_) | Arg::Text if value == 0 => return Err(INVALID_VALUE),
            Arg::In(len) => {
                // SAFETY: not null, and `# Safety` demands what the driver does: a struct of `len`
                // bytes, which the program does not change during the call.
                let bytes = unsafe { std::slice::from_raw_parts(value as *const u8, len) };
                put_bytes(&mut put, bytes);
            }
            Arg::Text => {
                // SAFETY: not null, and `# Safety` demands what the driver does: a text that ends
                // with a zero.
                let text = unsafe { CStr::from_ptr(value as *const c_char) };
                put_bytes(&mut put, text.to_bytes());
            }
            Arg::Null => {}
        }
    }
    let head =
        TableCall { call: U16::new(call as u16), reserved: U16::new(0), reserved2: U32::new(0) };
    if spec.way == Way::Quiet {
        return check(session.quiet_table(&head, &body));
    }
    let (code, bytes) = session.call(TableCall::OP, &[hot_bytes(&head), &body])?;
    let says_why = matches!(call, Call::cuGraphExecUpdate_v2 | Call::cuStreamEndCapture);
    if code == 0 || says_why {
        // SAFETY: `results` has the demands of this function, and `args` are the same.
        unsafe { results(call, args, minted, &bytes) };
    }
    check(code)
}

fn put_bytes(put: &mut impl FnMut(u64), bytes: &[u8]) {
    put(bytes.len() as u64);
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        put(u64::from_le_bytes(word));
    }
}

/// Writes what a call returned.
///
/// # Safety
///
/// As [`table`].
unsafe fn results(call: Call, args: &[usize], minted: u64, mut bytes: &[u8]) {
    for (arg, &value) in call.spec().args.iter().zip(args) {
        let len = match *arg {
            Arg::Out(len) if value != 0 => len,
            Arg::New(_) => {
                // SAFETY: `table` has refused null for a new handle, and the driver demands that
                // its place may be written. Alignment does not matter.
                unsafe { (value as *mut u64).write_unaligned(minted) };
                continue;
            }
            Arg::Known(_) => 8,
            _ => continue,
        };
        let Some((result, rest)) = bytes.split_at_checked(len.next_multiple_of(8)) else { return };
        // SAFETY: not null, and the driver demands `len` bytes there that may be written. `result`
        // has at least `len`.
        unsafe { std::ptr::copy_nonoverlapping(result.as_ptr(), value as *mut u8, len) };
        bytes = rest;
    }
}
