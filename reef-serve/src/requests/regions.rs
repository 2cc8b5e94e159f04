//! Shared memory that clients register under a name, as the standard protocol has it.
//!
//! A region belongs to the principal that registered it, or, where that has shown nothing, to the
//! connection: no other sees it, or can name it in a request. It goes with the last connection that
//! registered or used it. Its memory belongs to the owner that registered it first: see
//! [`registrars`](crate::requests::registrars).

use crate::engine::node::Node;
use crate::error::{Error, Result};
use crate::net::identity::peer::{Life, Peer};
use crate::requests::device_memory::DeviceMemory;
use crate::requests::region_memory::{Kind, Located, Memory, SystemMemory};
use crate::requests::registrars::{Owner, Registrars};
use crate::tensor::short;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

/// Longest name of a region.
const MAX_NAME_LEN: usize = 128;

/// A part of a client's shared memory.
#[derive(Debug, Clone)]
pub(crate) struct Region {
    pub(crate) bytes: u64,
    pub(crate) memory: Memory,
    /// Connections that registered or used it.
    holders: Vec<Life>,
    /// What keeps its bytes counted.
    _counted: Arc<dyn Debug + Send + Sync>,
}

/// Regions by owner and name.
#[derive(Debug)]
pub(crate) struct Regions {
    max: usize,
    /// Of one owner; 0 is no limit.
    max_bytes: u64,
    regions: Mutex<BTreeMap<(Owner, String), Region>>,
    /// Locked with `regions` held.
    registrars: Mutex<Registrars>,
}

impl Regions {
    /// At most so many, and of one owner so many bytes.
    pub(crate) fn new(max: usize, max_bytes: u64) -> Self {
        Self { max, max_bytes, regions: Mutex::default(), registrars: Mutex::default() }
    }

    /// Forgets the regions whose connections are gone.
    pub(crate) fn prune(&self) {
        prune(&mut self.regions.lock());
    }

    /// Registers `bytes` bytes from `offset` on of the shared memory that `key` names. What `count`
    /// gives is kept with it.
    ///
    /// # Errors
    ///
    /// `Exists`; `Invalid` if the key is no plain name or the bytes are not all there; `NotFound`;
    /// `Denied` if it belongs to another user or owner; `Exhausted` if there are too many.
    pub(crate) fn register<C: Debug + Send + Sync + 'static>(
        &self,
        who: &Peer,
        name: &str,
        key: &str,
        (offset, bytes): (u64, u64),
        count: impl FnOnce() -> Result<C>,
    ) -> Result<()> {
        check_name(name)?;
        let memory = Memory::System(SystemMemory::open(key, &who.principal, (offset, bytes))?);
        self.insert(who, name, (memory, bytes), count)
    }

    /// Registers the first `bytes` bytes of device memory that `open` maps, once there may be such
    /// a region. Blocks.
    ///
    /// # Errors
    ///
    /// As [`register`](Self::register), and those of `open`.
    pub(crate) fn register_device<C: Debug + Send + Sync + 'static>(
        &self,
        who: &Peer,
        name: &str,
        bytes: u64,
        open: impl FnOnce() -> Result<DeviceMemory>,
        count: impl FnOnce() -> Result<C>,
    ) -> Result<()> {
        check_name(name)?;
        self.check_place(&self.regions.lock(), &(Owner::of(who), name.into()), bytes)?;
        let memory = Memory::Device(open()?); // without the lock
        self.insert(who, name, (memory, bytes), count)
    }

    fn insert<C: Debug + Send + Sync + 'static>(
        &self,
        who: &Peer,
        name: &str,
        (memory, bytes): (Memory, u64),
        count: impl FnOnce() -> Result<C>,
    ) -> Result<()> {
        let (place, mut regions) = ((Owner::of(who), name.into()), self.regions.lock());
        prune(&mut regions);
        self.check_place(&regions, &place, bytes)?;
        self.check_owner(&regions, who, &memory)?;
        let (holders, _counted) = (vec![who.life.clone()], Arc::new(count()?));
        regions.insert(place, Region { bytes, memory, holders, _counted });
        Ok(())
    }

    /// Refuses memory that another owner registered first.
    fn check_owner(
        &self,
        regions: &BTreeMap<(Owner, String), Region>,
        who: &Peer,
        memory: &Memory,
    ) -> Result<()> {
        match memory {
            Memory::System(memory) => {
                let is_used = |id| regions.values().any(|region| region.memory.is_file(id));
                let named = (&*memory.key, memory.id);
                self.registrars.lock().enter(who, named, self.max, is_used)
            }
            Memory::Device(memory) => {
                let owner = Owner::of(who);
                let of_others = regions.iter().filter(|((of, _), _)| *of != owner);
                match of_others.map(|(_, region)| region).any(|r| r.memory.is_device(memory)) {
                    true => {
                        Err(Error::Denied("CUDA shared memory: belongs to another tenant".into()))
                    }
                    false => Ok(()),
                }
            }
        }
    }

    /// Whether the name is free, and there is room.
    fn check_place(
        &self,
        regions: &BTreeMap<(Owner, String), Region>,
        place: &(Owner, String),
        bytes: u64,
    ) -> Result<()> {
        let (owner, name) = place;
        if regions.contains_key(place) {
            return Err(Error::Exists(format!("shared memory region {name:?} is registered")));
        }
        if regions.len() >= self.max {
            let text = format!("{} shared memory regions are registered already", self.max);
            return Err(Error::Exhausted(text));
        }
        let own = regions.iter().filter(|((of, _), _)| of == owner);
        let used = own.fold(0_u64, |sum, (_, region)| sum.saturating_add(region.bytes));
        if self.max_bytes > 0 && used.saturating_add(bytes) > self.max_bytes {
            let left = self.max_bytes.saturating_sub(used);
            let text = format!(
                "shared memory: {bytes} bytes asked, {left} of {} are left",
                self.max_bytes
            );
            return Err(Error::Exhausted(text));
        }
        Ok(())
    }

    /// Forgets a region of this kind, or all that this connection registered or used if there is no
    /// name.
    pub(crate) fn unregister(&self, who: &Peer, kind: Kind, name: &str) {
        let owner = Owner::of(who);
        let gone = |of: &Owner, n: &str, region: &Region| {
            let is_meant = *of == owner && region.memory.kind() == kind;
            is_meant && (n == name || (name.is_empty() && region.holders.contains(&who.life)))
        };
        self.regions.lock().retain(|(of, n), region| !gone(of, n, region));
    }

    /// The region of this kind called `name`, or all of `who` if there is no name.
    ///
    /// # Errors
    ///
    /// `NotFound`.
    pub(crate) fn status(
        &self,
        who: &Peer,
        kind: Kind,
        name: &str,
    ) -> Result<Vec<(String, Region)>> {
        let (who, mut regions) = (Owner::of(who), self.regions.lock());
        prune(&mut regions);
        let own = regions.iter().filter(|((owner, n), region)| {
            *owner == who && region.memory.kind() == kind && (name.is_empty() || n == name)
        });
        let found: Vec<_> = own.map(|((_, n), region)| (n.clone(), region.clone())).collect();
        if found.is_empty() && !name.is_empty() {
            return Err(missing(name));
        }
        Ok(found)
    }

    /// The place of a tensor of `want` bytes in a region.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Invalid` if it doesn't lie inside or is not as long.
    pub(crate) fn slice(
        &self,
        who: &Peer,
        name: &str,
        offset: u64,
        bytes: u64,
        want: usize,
    ) -> Result<Located> {
        let mut regions = self.regions.lock();
        let key = (Owner::of(who), name.into());
        let region = regions.get_mut(&key).ok_or_else(|| missing(name))?;
        region.hold(&who.life);
        if bytes != want as u64 {
            let text = format!("region {name:?}: {bytes} bytes given, {want} wanted");
            return Err(Error::Invalid(text));
        }
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= region.bytes);
        if !inside {
            return Err(Error::Invalid(format!(
                "region {name:?}: {bytes} bytes at {offset} are outside its {} bytes",
                region.bytes
            )));
        }
        region.memory.part(name, region.bytes, (offset, want))
    }

    /// The device that a region is on, if it is there and on one.
    pub(crate) fn device(&self, who: &Peer, name: &str) -> Option<Arc<Node>> {
        match &self.regions.lock().get(&(Owner::of(who), name.into()))?.memory {
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
        let text = format!("region {:?}: 1 to {MAX_NAME_LEN} bytes", short(name));
        return Err(Error::Invalid(text));
    }
    Ok(())
}

fn missing(name: &str) -> Error {
    Error::NotFound(format!("no shared memory region {:?} is registered", short(name)))
}

#[cfg(test)]
mod tests;
