//! Shared memory that clients register under a name, as the standard protocol defines.
//!
//! A region belongs to a tenant: the user that the kernel names, also on loopback, or else the
//! token, the certificate or the address. All connections of a tenant share its regions, and no
//! other tenant sees one or can name it in a request. A region is removed with the last connection
//! that registered or used it. While it is registered, no other tenant can register its memory,
//! except the user that owns that memory.

use crate::engine::node::Node;
use crate::error::{Error, Result};
use crate::net::identity::peer::{Life, Peer};
use crate::net::identity::principal::Principal;
use crate::requests::device_memory::DeviceMemory;
use crate::requests::region_memory::{Kind, Memory, RegionSlice, SystemMemory};
use crate::tensor::short;
use parking_lot::Mutex;
use reef_guest::slots::{SlotShares, Standing, Used};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs::File;
use std::sync::{Arc, Weak};

/// Maximum length of a region's name, in bytes.
const MAX_NAME_LEN: usize = 128;

/// A part of a client's shared memory.
#[derive(Debug, Clone)]
pub(crate) struct Region {
    pub(crate) bytes: u64,
    pub(crate) memory: Memory,
    /// Connections that registered or used it.
    holders: Vec<Life>,
    /// Guard that keeps its bytes counted.
    _counted: Arc<dyn Debug + Send + Sync>,
}

/// Tenant that owns a region.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Owner(Principal);

impl Owner {
    /// Returns the tenant of a connection: a user is the same one by a Unix socket and on loopback.
    fn of(peer: &Peer) -> Self {
        let user = peer.principal.uid().map(Principal::User);
        Self(user.unwrap_or_else(|| peer.principal.clone()))
    }
}

/// Regions by owner and name.
#[derive(Debug)]
pub(crate) struct Regions {
    parts: SlotShares,
    /// Maximum of one owner; 0 means no limit.
    max_bytes: u64,
    regions: Mutex<BTreeMap<(Owner, String), Region>>,
    /// Open files of system memory: each counts as a region, also once that has gone and a request
    /// still uses it. Locked after the regions.
    files: Mutex<Vec<(Owner, Weak<File>)>>,
}

impl Regions {
    /// Allows `parts` of regions, and `max_bytes` bytes of one owner.
    pub(crate) fn new(parts: SlotShares, max_bytes: u64) -> Self {
        Self { parts, max_bytes, regions: Mutex::default(), files: Mutex::default() }
    }

    /// Removes the regions whose connections have closed.
    pub(crate) fn prune(&self) {
        prune(&mut self.regions.lock());
    }

    /// Registers `bytes` bytes at `offset` of the shared memory that `key` names. The result of
    /// `count` is kept with it.
    ///
    /// # Errors
    ///
    /// `Exists`; `Invalid` if the key is not a plain name or the bytes are not all there;
    /// `NotFound`; `Denied` if it belongs to another user or owner; `Exhausted` if there are too
    /// many.
    pub(crate) fn register<C: Debug + Send + Sync + 'static>(
        &self,
        peer: &Peer,
        name: &str,
        key: &str,
        offset: u64,
        bytes: u64,
        count: impl FnOnce() -> Result<C>,
    ) -> Result<()> {
        check_name(name)?;
        let memory = Memory::System(SystemMemory::open(key, &peer.principal, offset, bytes)?);
        self.insert(peer, name, memory, bytes, count)
    }

    /// Registers the first `bytes` bytes of device memory, mapped by `open` once the region is
    /// allowed. Blocks.
    ///
    /// # Errors
    ///
    /// Errors of [`register`](Self::register) and of `open`.
    pub(crate) fn register_device<C: Debug + Send + Sync + 'static>(
        &self,
        peer: &Peer,
        name: &str,
        bytes: u64,
        open: impl FnOnce() -> Result<DeviceMemory>,
        count: impl FnOnce() -> Result<C>,
    ) -> Result<()> {
        check_name(name)?;
        self.check_free(&self.regions.lock(), &(Owner::of(peer), name.into()), bytes)?;
        let memory = Memory::Device(open()?); // without the lock
        self.insert(peer, name, memory, bytes, count)
    }

    fn insert<C: Debug + Send + Sync + 'static>(
        &self,
        peer: &Peer,
        name: &str,
        memory: Memory,
        bytes: u64,
        count: impl FnOnce() -> Result<C>,
    ) -> Result<()> {
        let (key, mut regions) = ((Owner::of(peer), name.into()), self.regions.lock());
        prune(&mut regions);
        self.check_free(&regions, &key, bytes)?;
        self.check_owner(&regions, peer, &memory)?;
        let (holders, _counted) = (vec![peer.life.clone()], Arc::new(count()?));
        if let Memory::System(memory) = &memory {
            self.files.lock().push((Owner::of(peer), memory.file()));
        }
        regions.insert(key, Region { bytes, memory, holders, _counted });
        Ok(())
    }

    /// Refuses memory that another owner has registered. A user may always register its own memory.
    fn check_owner(
        &self,
        regions: &BTreeMap<(Owner, String), Region>,
        peer: &Peer,
        memory: &Memory,
    ) -> Result<()> {
        let (owner, what) = (
            Owner::of(peer),
            match memory {
                Memory::System(_) if peer.principal.uid().is_some() => return Ok(()),
                Memory::System(memory) => format!("shared memory {:?}", short(&memory.key)),
                Memory::Device(_) => "CUDA shared memory".into(),
            },
        );
        let mut of_others = regions.iter().filter(|((of, _), _)| *of != owner);
        if of_others.any(|(_, region)| region.memory.is_same(memory)) {
            return Err(Error::Denied(format!("{what}: belongs to another tenant")));
        }
        Ok(())
    }

    /// Refuses a name in use, and a region without room.
    fn check_free(
        &self,
        regions: &BTreeMap<(Owner, String), Region>,
        key: &(Owner, String),
        bytes: u64,
    ) -> Result<()> {
        let (owner, name) = key;
        if regions.contains_key(key) {
            return Err(Error::Exists(format!(
                "shared memory region {name:?} is registered already"
            )));
        }
        if let Some(full) = self.parts.full(owner.0.standing(), self.used_by(regions, owner)) {
            let text = full.text("shared memory regions", &owner.0);
            return Err(Error::Exhausted(text));
        }
        let own = regions.iter().filter(|((of, _), _)| of == owner);
        let used = own.fold(0_u64, |sum, (_, region)| sum.saturating_add(region.bytes));
        if self.max_bytes > 0 && used.saturating_add(bytes) > self.max_bytes {
            let left = self.max_bytes.saturating_sub(used);
            let text = format!(
                "shared memory: must be at most the {left} bytes left of {}, got {bytes}",
                self.max_bytes
            );
            return Err(Error::Exhausted(text));
        }
        Ok(())
    }

    /// Counts the regions of `owner`, and those of all.
    fn used_by(&self, regions: &BTreeMap<(Owner, String), Region>, owner: &Owner) -> Used {
        let mut files = self.files.lock();
        files.retain(|(_, file)| file.strong_count() > 0);
        let of_devices = regions.iter().filter(|(_, region)| region.memory.kind() == Kind::Cuda);
        let of_devices = of_devices.map(|((of, _), _)| of);
        let mut used = Used::default();
        for of in files.iter().map(|(of, _)| of).chain(of_devices) {
            used.all += 1;
            used.own += usize::from(of == owner);
            used.anonymous += usize::from(of.0.standing() == Standing::Anonymous);
            used.others += usize::from(of.0.standing() < Standing::Owner);
        }
        used
    }

    /// Removes a region of this kind. Without a name, removes all that this connection registered
    /// or used.
    pub(crate) fn unregister(&self, peer: &Peer, kind: Kind, name: &str) {
        let owner = Owner::of(peer);
        let gone = |of: &Owner, n: &str, region: &Region| {
            let is_match = *of == owner && region.memory.kind() == kind;
            is_match && (n == name || (name.is_empty() && region.holders.contains(&peer.life)))
        };
        self.regions.lock().retain(|(of, n), region| !gone(of, n, region));
    }

    /// Returns the region of this kind called `name`, or all of `peer` if there is no name.
    ///
    /// # Errors
    ///
    /// `NotFound`.
    pub(crate) fn status(
        &self,
        peer: &Peer,
        kind: Kind,
        name: &str,
    ) -> Result<Vec<(String, Region)>> {
        let (own, mut regions) = (Owner::of(peer), self.regions.lock());
        prune(&mut regions);
        let own = regions.iter().filter(|((owner, n), region)| {
            *owner == own && region.memory.kind() == kind && (name.is_empty() || n == name)
        });
        let found: Vec<_> = own.map(|((_, n), region)| (n.clone(), region.clone())).collect();
        if found.is_empty() && !name.is_empty() {
            return Err(not_found(name));
        }
        Ok(found)
    }

    /// Returns the memory of a tensor of `want` bytes in a region.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Invalid` if it does not lie inside or has another length.
    pub(crate) fn slice(
        &self,
        peer: &Peer,
        name: &str,
        offset: u64,
        bytes: u64,
        want: usize,
    ) -> Result<RegionSlice> {
        let mut regions = self.regions.lock();
        let key = (Owner::of(peer), name.into());
        let region = regions.get_mut(&key).ok_or_else(|| not_found(name))?;
        region.hold(&peer.life);
        if bytes != want as u64 {
            let text = format!("region {name:?}: must have {want} bytes, got {bytes}");
            return Err(Error::Invalid(text));
        }
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= region.bytes);
        if !inside {
            return Err(Error::Invalid(format!(
                "region {name:?}: {bytes} bytes at {offset} must lie inside its {} bytes",
                region.bytes
            )));
        }
        region.memory.part(name, region.bytes, offset, want)
    }

    /// Returns the device of a region, if it exists and is device memory.
    pub(crate) fn device(&self, peer: &Peer, name: &str) -> Option<Arc<Node>> {
        match &self.regions.lock().get(&(Owner::of(peer), name.into()))?.memory {
            Memory::System(_) => None,
            Memory::Device(memory) => Some(memory.node.clone()),
        }
    }
}

fn prune(regions: &mut BTreeMap<(Owner, String), Region>) {
    regions.retain(|_, region| {
        region.holders.retain(Life::is_open);
        !region.holders.is_empty()
    });
}

impl Region {
    /// Notes a connection that uses it.
    fn hold(&mut self, life: &Life) {
        if !self.holders.contains(life) {
            self.holders.retain(Life::is_open);
            self.holders.push(life.clone());
        }
    }
}

fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > MAX_NAME_LEN {
        let text = format!("region {:?}: name must have 1 to {MAX_NAME_LEN} bytes", short(name));
        return Err(Error::Invalid(text));
    }
    Ok(())
}

fn not_found(name: &str) -> Error {
    Error::NotFound(format!("no shared memory region {:?} is registered", short(name)))
}

#[cfg(test)]
mod tests;
