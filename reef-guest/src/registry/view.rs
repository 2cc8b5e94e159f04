//! What is known of a guest, for metrics.

use super::connection::Guest;
use crate::join::wire::Uuid;
use crate::page::layout::{Counts, Identity};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A guest at one moment. Counts are the guest's own words.
#[derive(Clone, Debug)]
pub struct GuestView {
    /// Its number, class and process.
    pub who: Identity,
    /// Its user.
    pub uid: u32,
    /// Processes of a job are held together; empty: none.
    pub job: String,
    /// Its device.
    pub device: Uuid,
    /// Launches of kernels, captured ones left out.
    pub kernels: u64,
    /// Launches of graphs.
    pub graphs: u64,
    /// Launches that found the gate closed.
    pub delayed: u64,
    /// Gates put into streams and graphs.
    pub gates: u64,
    /// How often it opened its own gate because it had been closed for too long.
    pub breathers: u64,
    /// Gates and marks that its driver refused.
    pub refused: u64,
    /// Whether it is held (best-effort) or holds (real-time).
    pub is_active: bool,
}

impl GuestView {
    pub(super) fn new(guest: &Guest) -> Self {
        let Guest { who, uid, job, device, page, .. } = guest;
        let Counts { kernels, graphs, delayed, gates, graph_gates, breathers, refused, .. } =
            &page.counts;
        let read = |count: &AtomicU64| count.load(Relaxed);
        Self {
            who: *who,
            uid: *uid,
            job: job.clone(),
            device: *device,
            kernels: read(kernels),
            graphs: read(graphs),
            delayed: read(delayed),
            gates: read(gates).saturating_add(read(graph_gates)),
            breathers: read(breathers),
            refused: read(refused),
            is_active: page.holders.is_held() || page.activity.is_busy(),
        }
    }
}
