//! Handles of what the server has: memory and kernels.

use super::connection::Connection;
use super::mirror::Mirror;
use crate::messages::{MAX_PIECE_LEN, Write};
use reef_core::dkp::Resources;
use reef_core::{Error, Result};
use reef_wire::Id;
use reef_wire::little_endian::U64;
use std::ops::Range;
use std::sync::Arc;

/// A name at the server; dropping it releases the object there, once its work has ended.
#[derive(Debug)]
pub(super) struct Handle {
    pub(super) connection: Arc<Connection>,
    pub(super) id: Id,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.connection.free(self.id);
    }
}

/// Memory of a remote device, or of its host.
#[derive(Debug, Clone)]
pub struct Buffer {
    pub(super) handle: Arc<Handle>,
    pub(super) address: u64,
    pub(super) bytes: usize,
    /// Bytes of host memory, which the client has as well.
    pub(super) mirror: Option<Arc<Mirror>>,
}

impl Buffer {
    pub(super) fn id(&self) -> u64 {
        self.handle.id.bits()
    }

    /// Has the server alone keep its bytes, because other than copies may touch them.
    pub(super) fn expose(&self) {
        if let Some(mirror) = &self.mirror {
            // Without a session whatever follows fails.
            let _ = mirror.expose(|fresh| self.send(mirror, fresh));
        }
    }

    /// Sends bytes of the mirror ahead of a command.
    ///
    /// # Errors
    ///
    /// Without a session.
    pub(super) fn send(&self, mirror: &Mirror, range: Range<usize>) -> Result<()> {
        for from in range.clone().step_by(MAX_PIECE_LEN) {
            let piece = mirror.bytes(from..range.end.min(from + MAX_PIECE_LEN));
            let write = Write { buffer: U64::new(self.id()), offset: U64::new(from as u64) };
            self.handle.connection.post_hot(&write, &piece)?;
        }
        Ok(())
    }

    /// Checks that a range lies inside.
    pub(super) fn check(&self, offset: usize, bytes: usize) -> Result<Range<usize>> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.bytes => Ok(offset..end),
            _ => {
                let have = self.bytes;
                Err(Error::invalid(
                    "range",
                    format!("must be inside a buffer of {have} bytes, got {bytes} at {offset}"),
                ))
            }
        }
    }
}

/// A function of the server's device, ready to launch.
#[derive(Debug, Clone)]
pub struct Kernel(pub(super) KernelSource);

#[derive(Debug, Clone)]
pub(super) enum KernelSource {
    /// One of the launches that the server has prepared for an operation.
    Prepared(Arc<Handle>, u32, Resources),
    /// A kernel by name, with arguments of the client.
    Named(Arc<Handle>),
}
