//! Registration of clients' shared memory: rights, device and budget.

use crate::engine::node::Node;
use crate::error::{Error, Result};
use crate::net::identity::peer::Peer;
use crate::net::identity::principal::Principal;
use crate::requests::device_memory::DeviceMemory;
use crate::server::Server;
use crate::tenants::grant::check_prefix;
use bytes::Bytes;
use std::sync::Arc;

impl Server {
    /// Registers shared memory of `peer`.
    ///
    /// # Errors
    ///
    /// `Denied` if it may not register memory, or not this key; errors of
    /// [`Regions::register`](crate::requests::regions::Regions::register).
    pub(crate) fn register(
        &self,
        peer: &Peer,
        name: &str,
        key: &str,
        offset: u64,
        bytes: u64,
    ) -> Result<()> {
        self.check_may_share(peer)?;
        check_prefix(&self.config.get().rights, &peer.principal, key)?;
        let what = format!("shared memory of {}", peer.principal);
        self.regions.prune(); // their bytes count until then
        let counted = || -> Result<_> {
            let of_others = self.tenants.take_of_others(&peer.principal, bytes)?;
            Ok((of_others, self.registry.budget().reserve(&what, bytes)?))
        };
        self.regions.register(peer, name, key, offset, bytes, counted)
    }

    fn check_may_share(&self, peer: &Peer) -> Result<()> {
        if peer.may_share || matches!(peer.principal, Principal::Token(_)) {
            return Ok(());
        }
        let text = "shared memory over TCP requires a token or listen.tcp_shared_memory";
        Err(Error::Denied(text.into()))
    }

    /// Registers the first `bytes` bytes of device memory of `peer`, by its driver's handle, on a
    /// thread of the device: one at a time of its principal, because a device may hang.
    ///
    /// # Errors
    ///
    /// `Denied` if it may not register memory; `Invalid` for an unknown device or memory;
    /// `Unimplemented` without a CUDA device; errors of
    /// [`Regions::register_device`](crate::requests::regions::Regions::register_device).
    pub(crate) async fn register_cuda(
        self: &Arc<Self>,
        peer: &Peer,
        name: &str,
        handle: Bytes,
        device: i64,
        bytes: u64,
    ) -> Result<()> {
        self.check_cuda()?;
        self.check_may_share(peer)?;
        let node = self.cuda_node(device)?.clone();
        let workers = &self.network_workers[node.index];
        let principal = peer.principal.clone();
        let (server, peer, name) = (self.clone(), peer.clone(), name.to_owned());
        let register = move || {
            server.regions.prune();
            let what = format!("shared memory of {}", peer.principal);
            let open = || DeviceMemory::open(&node, &handle, bytes);
            let counted = || -> Result<_> {
                let of_others = server.tenants.take_of_others(&peer.principal, bytes)?;
                Ok((of_others, server.registry.reserve_on(&node, &what, bytes)?))
            };
            server.regions.register_device(&peer, &name, bytes, open, counted)
        };
        workers.run_blocking(&principal, (), register).await
    }

    /// True if clients can share memory of CUDA devices.
    pub(crate) fn has_cuda(&self) -> bool {
        self.nodes.iter().any(|node| node.cuda_ordinal().is_some())
    }

    /// Refuses CUDA memory without a CUDA device.
    ///
    /// # Errors
    ///
    /// `Unimplemented`.
    pub(crate) fn check_cuda(&self) -> Result<()> {
        if self.has_cuda() {
            return Ok(());
        }
        let have: Vec<_> = self.nodes.iter().map(|node| &*node.name).collect();
        Err(Error::Unimplemented(format!("CUDA shared memory on {}", have.join(", "))))
    }

    fn cuda_node(&self, device: i64) -> Result<&Arc<Node>> {
        // Other devices have no CUDA number, and a negative number matches no device.
        let is_match =
            |node: &&Arc<Node>| node.cuda_ordinal().is_some_and(|n| i64::try_from(n) == Ok(device));
        self.nodes.iter().find(is_match).ok_or_else(|| {
            let have: Vec<_> = self.nodes.iter().map(|node| &*node.name).collect();
            let have = have.join(", ");
            Error::Invalid(format!("CUDA shared memory: unknown device {device} (have: {have})"))
        })
    }
}
