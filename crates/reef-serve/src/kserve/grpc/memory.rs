//! Calls for shared memory of the system, and of CUDA devices.

use super::proto::cuda_shared_memory_status_response::RegionStatus as CudaStatus;
use super::proto::system_shared_memory_status_response::RegionStatus;
use super::proto::*;
use crate::error::Result;
use crate::net::identity::peer::Peer;
use crate::requests::region_memory::{Kind, Memory, SystemMemory};
use crate::server::Server;
use std::sync::Arc;

pub(super) fn status(
    server: &Server,
    peer: &Peer,
    request: &SystemSharedMemoryStatusRequest,
) -> Result<SystemSharedMemoryStatusResponse> {
    let regions = server.regions.status(peer, Kind::System, &request.name)?;
    let regions = regions.into_iter().filter_map(|(name, region)| match region.memory {
        Memory::System(SystemMemory { key, offset, .. }) => {
            let byte_size = region.bytes;
            Some((name.clone(), RegionStatus { name, key, offset, byte_size }))
        }
        Memory::Device(_) => None,
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
    server.regions.unregister(peer, Kind::System, &request.name);
    Ok(SystemSharedMemoryUnregisterResponse {})
}

pub(super) fn cuda_status(
    server: &Server,
    peer: &Peer,
    request: &CudaSharedMemoryStatusRequest,
) -> Result<CudaSharedMemoryStatusResponse> {
    server.check_cuda()?;
    let regions = server.regions.status(peer, Kind::Cuda, &request.name)?;
    let regions = regions.into_iter().filter_map(|(name, region)| match region.memory {
        Memory::System(_) => None,
        Memory::Device(memory) => {
            let (device_id, byte_size) = (memory.node.cuda_ordinal()?, region.bytes);
            Some((name.clone(), CudaStatus { name, device_id, byte_size }))
        }
    });
    Ok(CudaSharedMemoryStatusResponse { regions: regions.collect() })
}

pub(super) async fn cuda_register(
    server: &Arc<Server>,
    peer: &Peer,
    request: CudaSharedMemoryRegisterRequest,
) -> Result<CudaSharedMemoryRegisterResponse> {
    let CudaSharedMemoryRegisterRequest { name, raw_handle, device_id, byte_size } = request;
    server.register_cuda(peer, &name, raw_handle, device_id, byte_size).await?;
    Ok(CudaSharedMemoryRegisterResponse {})
}

pub(super) fn cuda_unregister(
    server: &Server,
    peer: &Peer,
    request: &CudaSharedMemoryUnregisterRequest,
) -> Result<CudaSharedMemoryUnregisterResponse> {
    server.check_cuda()?;
    server.regions.unregister(peer, Kind::Cuda, &request.name);
    Ok(CudaSharedMemoryUnregisterResponse {})
}
