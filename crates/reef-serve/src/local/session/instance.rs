//! Instance of a client, which may read and write the client's memory directly.

use crate::class::Class;
use crate::engine::api::Instance;
use crate::error::Result;
use crate::local::segment::Segment;
use crate::models::loaded_model::LoadedModel;
use crate::tenants::tenant::Tenant;

/// Requests of a best-effort client before its memory is pinned for the device.
///
/// Pinning and unpinning hold locks of the driver that real-time work needs (docs/lab/nvidia.md). A
/// client that stays gains from it; one with few requests would only delay others.
pub(crate) const PINNED_AFTER: u32 = 64;

/// An instance, and whether it accesses the client's memory directly.
pub(super) struct ClientInstance {
    pub(super) instance: Box<dyn Instance>,
    pub(super) is_direct: bool,
    requests: u32,
}

impl ClientInstance {
    pub(super) fn new(
        model: &LoadedModel,
        class: Class,
        tenant: &Tenant,
        segment: &Segment,
    ) -> Result<Self> {
        let instance = model.base.instance(class, tenant.grant().client())?;
        let mut shared = Self { instance, is_direct: false, requests: 0 };
        if class == Class::RealTime {
            shared.pin(segment)?;
        }
        Ok(shared)
    }

    fn pin(&mut self, segment: &Segment) -> Result<()> {
        self.is_direct = self.instance.share(segment.host_memory(), &segment.buffer_offsets())?;
        Ok(())
    }

    /// Counts a request. The memory of a best-effort client is pinned after [`PINNED_AFTER`]
    /// requests.
    pub(super) fn count(&mut self, class: Class, segment: &Segment) -> Result<()> {
        self.requests = self.requests.saturating_add(1);
        if class == Class::BestEffort && self.requests == PINNED_AFTER {
            self.pin(segment)?;
        }
        Ok(())
    }
}
