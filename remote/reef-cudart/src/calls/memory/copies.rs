//! Copies of bytes and of rows.

use super::pointers::{self, HOST};
use crate::calls::export::{by_default, plain, ptsz};
use crate::codes::*;
use crate::driver::Driver;
use crate::state::context::{check_device, enter, primary};
use crate::types::Stream;
use reef_cuda_abi::layouts::{Memcpy2D, Memcpy2DSide};
use reef_cuda_abi::memory_types;

by_default! {
    cudaMemcpy / cudaMemcpy_ptds(to: usize, from: usize, bytes: usize, kind: u32) = copy_any;
    cudaMemcpy2D / cudaMemcpy2D_ptds(
        to: usize, to_pitch: usize, from: usize, from_pitch: usize, width: usize, height: usize, kind: u32
    ) = copy_rows;
}

ptsz! {
    cudaMemcpyAsync / cudaMemcpyAsync_ptsz(to: usize, from: usize, bytes: usize, kind: u32, stream: Stream) = queue_any;
    cudaMemcpy2DAsync / cudaMemcpy2DAsync_ptsz(
        to: usize, to_pitch: usize, from: usize, from_pitch: usize, width: usize, height: usize, kind: u32,
        stream: Stream
    ) = queue_rows;
}

plain! {
    cudaMemcpyPeer(to: u64, to_device: i32, from: u64, from_device: i32, bytes: usize) = copy_peer;
    cudaMemcpyPeerAsync(
        to: u64, to_device: i32, from: u64, from_device: i32, bytes: usize, stream: Stream
    ) = queue_peer;
}

/// `cudaMemcpyKind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    OnHost,
    ToDevice,
    ToHost,
    OnDevice,
    /// As the addresses are.
    Open,
}

impl Kind {
    /// Reads the program's number.
    ///
    /// # Errors
    ///
    /// `INVALID_DIRECTION`.
    pub(crate) fn of(kind: u32) -> Result<Self, u32> {
        let all = [Self::OnHost, Self::ToDevice, Self::ToHost, Self::OnDevice, Self::Open];
        all.get(kind as usize).copied().ok_or(INVALID_DIRECTION)
    }

    /// Decides what the program has left open.
    ///
    /// # Errors
    ///
    /// The driver's code.
    pub(crate) fn decide(self, driver: &Driver, to: usize, from: usize) -> Result<Self, u32> {
        if self != Self::Open {
            return Ok(self);
        }
        let is_host = |at: usize| pointers::kind(driver, at as u64).map(|kind| kind == HOST);
        Ok(match (is_host(to)?, is_host(from)?) {
            (true, true) => Self::OnHost,
            (false, true) => Self::ToDevice,
            (true, false) => Self::ToHost,
            (false, false) => Self::OnDevice,
        })
    }

    /// Returns whether the target and the source are the host's.
    pub(crate) fn sides(self) -> [bool; 2] {
        [matches!(self, Self::OnHost | Self::ToHost), matches!(self, Self::OnHost | Self::ToDevice)]
    }
}

unsafe fn copy_any(
    stream: Stream,
    to: usize,
    from: usize,
    bytes: usize,
    kind: u32,
) -> Result<(), u32> {
    // SAFETY: cudaMemcpy demands `bytes` bytes of memory of the direction's kinds at both
    // addresses, as `copy` does.
    unsafe { copy(stream, to, from, bytes, Kind::of(kind)?) }
}

unsafe fn queue_any(
    to: usize,
    from: usize,
    bytes: usize,
    kind: u32,
    stream: Stream,
) -> Result<(), u32> {
    // SAFETY: cudaMemcpyAsync demands what `queue` does: memory at both addresses until the stream
    // has copied it.
    unsafe { queue(to, from, bytes, Kind::of(kind)?, stream) }
}

/// Copies, and waits for the end as far as the driver does.
///
/// # Errors
///
/// `INVALID_DIRECTION`, or the driver's code.
///
/// # Safety
///
/// Both addresses have `bytes` bytes of memory, of the kinds that are named.
pub(crate) unsafe fn copy(
    stream: Stream,
    to: usize,
    from: usize,
    bytes: usize,
    kind: Kind,
) -> Result<(), u32> {
    let driver = enter()?;
    if bytes == 0 {
        return Ok(());
    }
    if stream != Stream::DEFAULT {
        // SAFETY: `# Safety` demands memory at both addresses for the length of the call, which
        // waits for the stream. The driver checks the stream.
        return unsafe {
            queue(to, from, bytes, kind, stream)?;
            driver.cuStreamSynchronize(stream)
        };
    }
    // SAFETY: `# Safety` demands `bytes` bytes at both addresses, of these kinds. Each call waits
    // as far as the driver's does.
    unsafe {
        match kind.decide(driver, to, from)? {
            Kind::ToDevice => driver.cuMemcpyHtoD_v2(to as u64, from, bytes),
            Kind::ToHost => driver.cuMemcpyDtoH_v2(to, from as u64, bytes),
            Kind::OnDevice => driver.cuMemcpyDtoD_v2(to as u64, from as u64, bytes),
            Kind::OnHost | Kind::Open => on_host(driver, to, from, bytes, stream),
        }
    }
}

/// Copies in the order of a stream.
///
/// # Errors
///
/// As [`copy`].
///
/// # Safety
///
/// As [`copy`], until the stream has reached the copy's end.
pub(crate) unsafe fn queue(
    to: usize,
    from: usize,
    bytes: usize,
    kind: Kind,
    stream: Stream,
) -> Result<(), u32> {
    let driver = enter()?;
    if bytes == 0 {
        return Ok(());
    }
    // SAFETY: `# Safety` demands `bytes` bytes at both addresses, of these kinds, until the stream
    // has copied them.
    unsafe {
        match kind.decide(driver, to, from)? {
            Kind::ToDevice => driver.cuMemcpyHtoDAsync_v2(to as u64, from, bytes, stream),
            Kind::ToHost => driver.cuMemcpyDtoHAsync_v2(to, from as u64, bytes, stream),
            Kind::OnDevice => driver.cuMemcpyDtoDAsync_v2(to as u64, from as u64, bytes, stream),
            Kind::OnHost | Kind::Open => on_host(driver, to, from, bytes, stream),
        }
    }
}

/// Copies within the host's memory, after all that the stream has.
unsafe fn on_host(
    driver: &Driver,
    to: usize,
    from: usize,
    bytes: usize,
    stream: Stream,
) -> Result<(), u32> {
    // SAFETY: the callers `copy` and `queue` demand `bytes` bytes of the host's memory at both
    // addresses. They may overlap. The driver checks the stream.
    unsafe {
        driver.cuStreamSynchronize(stream)?;
        std::ptr::copy(from as *const u8, to as *mut u8, bytes);
    }
    Ok(())
}

fn side(at: usize, pitch: usize, is_host: bool) -> Memcpy2DSide {
    let kind = if is_host { memory_types::HOST } else { memory_types::DEVICE };
    let (host, device) = if is_host { (at, 0) } else { (0, at) };
    Memcpy2DSide { corner: [0; 2], kind, host, device, array: 0, pitch }
}

#[allow(clippy::too_many_arguments)] // the runtime's
unsafe fn copy_rows(
    stream: Stream,
    to: usize,
    to_pitch: usize,
    from: usize,
    from_pitch: usize,
    width: usize,
    height: usize,
    kind: u32,
) -> Result<(), u32> {
    // SAFETY: cudaMemcpy2D demands the rows at both addresses for the length of the call, which
    // waits for the stream.
    unsafe {
        queue_rows(to, to_pitch, from, from_pitch, width, height, kind, stream)?;
        enter()?.cuStreamSynchronize(stream)
    }
}

/// Copies rows in the order of a stream.
///
/// # Errors
///
/// `INVALID_PITCH`, `INVALID_DIRECTION`, or the driver's code.
///
/// # Safety
///
/// Both addresses have the rows, until the stream has reached the copy's end.
#[allow(clippy::too_many_arguments)] // the runtime's
pub(super) unsafe fn queue_rows(
    to: usize,
    to_pitch: usize,
    from: usize,
    from_pitch: usize,
    width: usize,
    height: usize,
    kind: u32,
    stream: Stream,
) -> Result<(), u32> {
    let (driver, kind) = (enter()?, Kind::of(kind)?);
    if width == 0 || height == 0 {
        return Ok(());
    }
    if width > to_pitch || width > from_pitch {
        return Err(INVALID_PITCH);
    }
    let kind = kind.decide(driver, to, from)?;
    if height == 1 || width == to_pitch && width == from_pitch {
        let bytes = width.checked_mul(height).ok_or(INVALID_VALUE)?;
        // SAFETY: `# Safety` demands the rows, which have no gap between them, so there are `bytes`
        // bytes at both addresses.
        return unsafe { queue(to, from, bytes, kind, stream) };
    }
    let [to_host, from_host] = kind.sides();
    let rows = Memcpy2D {
        from: side(from, from_pitch, from_host),
        to: side(to, to_pitch, to_host),
        size: [width, height],
    };
    // SAFETY: `# Safety` demands the rows at both addresses until the stream has copied them.
    // `rows` is a local of the driver's type, which it reads during the call.
    unsafe { driver.cuMemcpy2DAsync_v2((&raw const rows).cast(), stream) }
}

unsafe fn copy_peer(
    to: u64,
    to_device: i32,
    from: u64,
    from_device: i32,
    bytes: usize,
) -> Result<(), u32> {
    // SAFETY: cudaMemcpyPeer demands `bytes` bytes of the devices' memory at both addresses for the
    // length of the call, which waits for the copy.
    unsafe {
        queue_peer(to, to_device, from, from_device, bytes, Stream::DEFAULT)?;
        enter()?.cuStreamSynchronize(Stream::DEFAULT)
    }
}

unsafe fn queue_peer(
    to: u64,
    to_device: i32,
    from: u64,
    from_device: i32,
    bytes: usize,
    stream: Stream,
) -> Result<(), u32> {
    let driver = enter()?;
    check_device(driver, to_device)?;
    check_device(driver, from_device)?;
    if bytes == 0 {
        return Ok(());
    }
    if to_device == from_device {
        // SAFETY: cudaMemcpyPeerAsync demands `bytes` bytes of the devices' memory at both
        // addresses until the stream has copied them.
        return unsafe { driver.cuMemcpyDtoDAsync_v2(to, from, bytes, stream) };
    }
    let contexts = [primary(driver, to_device)?, primary(driver, from_device)?];
    // SAFETY: cudaMemcpyPeerAsync demands `bytes` bytes of the devices' memory at both addresses
    // until the stream has copied them. The contexts are the devices' primary ones.
    unsafe { driver.cuMemcpyPeerAsync(to, contexts[0], from, contexts[1], bytes, stream) }
}
