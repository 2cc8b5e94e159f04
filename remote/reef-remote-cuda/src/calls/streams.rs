//! Host functions in streams.

use super::export::{check, ptsz, stream};
use crate::session::session;
use crate::state::host_functions::note_host_function;
use reef_cuda_abi::codes::*;
use reef_remote_calls::CallHost;
use reef_wire::little_endian::U64;
use reef_wire::{Hot, hot_bytes};

ptsz! {
    cuLaunchHostFunc / cuLaunchHostFunc_ptsz(on: usize, function: usize, data: usize) = host;
}

fn host(is_ptsz: bool, on: usize, function: usize, data: usize) -> Result<(), u32> {
    let session = session()?;
    if function == 0 {
        return Err(INVALID_VALUE);
    }
    let (on, token) = (stream(on, is_ptsz), note_host_function(function, data));
    let body = CallHost { stream: U64::new(on), token: U64::new(token) };
    check(session.quiet_plain(CallHost::OP, &[hot_bytes(&body)]))
}
