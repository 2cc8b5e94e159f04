//! A client's own instance, which may take tensors from the client's memory by itself.

use crate::class::Class;
use crate::engine::api::Instance;
use crate::error::Result;
use crate::local::segment::Segment;
use crate::models::loaded_model::LoadedModel;
use crate::tenants::tenant::Tenant;

/// Requests of a best-effort client before its memory is pinned for the device.
///
/// Pinning and unpinning hold locks of the driver that real-time work needs (docs/lab/nvidia.md): a
/// client that stays gains by it, one that comes for a few requests only delays others.
pub(crate) const PINNED_AFTER: u32 = 64;

/// An instance, and whether it takes tensors from the client's memory by itself.
pub(super) struct Shared {
    pub(super) instance: Box<dyn Instance>,
    pub(super) direct: bool,
    requests: u32,
}

impl Shared {
    pub(super) fn new(
        model: &LoadedModel,
        class: Class,
        tenant: &Tenant,
        segment: &Segment,
    ) -> Result<Self> {
        let instance = model.base.instance(class, tenant.grant().client())?;
        let mut shared = Self { instance, direct: false, requests: 0 };
        if class == Class::RealTime {
            shared.pin(segment)?;
        }
        Ok(shared)
    }

    fn pin(&mut self, segment: &Segment) -> Result<()> {
        self.direct = self.instance.share(segment.host_memory(), &segment.places())?;
        Ok(())
    }

    /// Counts a request. A best-effort client that has stayed for so many has its memory pinned.
    pub(super) fn count(&mut self, class: Class, segment: &Segment) -> Result<()> {
        self.requests = self.requests.saturating_add(1);
        if class == Class::BestEffort && self.requests == PINNED_AFTER {
            self.pin(segment)?;
        }
        Ok(())
    }
}
