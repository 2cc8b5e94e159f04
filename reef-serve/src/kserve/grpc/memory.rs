//! Shared memory of the system.

use super::proto::system_shared_memory_status_response::RegionStatus;
use super::proto::*;
use crate::error::Result;
use crate::net::identity::peer::Peer;
use crate::server::Server;

pub(super) fn status(
    server: &Server,
    peer: &Peer,
    request: &SystemSharedMemoryStatusRequest,
) -> Result<SystemSharedMemoryStatusResponse> {
    let regions = server.regions.status(peer, &request.name)?;
    let regions = regions.into_iter().map(|(name, region)| {
        let status = RegionStatus {
            name: name.clone(),
            key: region.key,
            offset: region.offset,
            byte_size: region.bytes,
        };
        (name, status)
    });
    Ok(SystemSharedMemoryStatusResponse { regions: regions.collect() })
}

pub(super) fn register(
    server: &Server,
    peer: &Peer,
    request: &SystemSharedMemoryRegisterRequest,
) -> Result<SystemSharedMemoryRegisterResponse> {
    let SystemSharedMemoryRegisterRequest { name, key, offset, byte_size } = request;
    server.register(peer, name, key, *offset, *byte_size)?;
    Ok(SystemSharedMemoryRegisterResponse {})
}

pub(super) fn unregister(
    server: &Server,
    peer: &Peer,
    request: &SystemSharedMemoryUnregisterRequest,
) -> Result<SystemSharedMemoryUnregisterResponse> {
    server.regions.unregister(peer, &request.name);
    Ok(SystemSharedMemoryUnregisterResponse {})
}
