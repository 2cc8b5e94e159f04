//! A best-effort client's queue as schedulers and padding see it.

use crate::backend::command::Launch;
use crate::backend::device::Device;
use crate::backend::error::Result;
use crate::backend::info::{DeviceInfo, Seq};
use crate::backend::types::Checkpoint;
use crate::dispatch::padding::Padded;
use crate::dkp;
use crate::scheduler::policy::{QueueView, TaskView};
use crate::vqueue::virtual_queue::VirtualQueue;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Tasks of a client that have not finished, oldest first.
pub(crate) type Tasks = Arc<Mutex<VecDeque<TaskView>>>;

/// What the dispatcher keeps of a best-effort client.
#[derive(Debug)]
pub(crate) struct BeQueue<D: Device> {
    pub(crate) id: u64,
    pub(crate) queue: VirtualQueue<D>,
    pub(crate) tasks: Tasks,
    pub(crate) weight: u32,
    pub(crate) priority: i32,
    pub(crate) served: Duration,
}

impl<D: Device> BeQueue<D> {
    /// What a scheduler sees of it.
    pub(crate) fn view(&mut self) -> QueueView {
        let shared = self.queue.shared();
        shared.watch(); // before the look, or a submission between them would go unheard
        let (mut completed, mut submitted) = shared.cursors();
        let mut tasks = self.tasks.lock();
        if shared.failed().is_some() {
            // Nothing of it will run: all of it counts as finished, half submitted tasks as well.
            submitted = tasks.back().map_or(submitted, |task| task.end.0.max(submitted));
            completed = submitted;
        }
        while tasks.pop_front_if(|task| task.end.0 <= completed).is_some() {}
        QueueView {
            id: self.id,
            completed: Seq(completed),
            submitted: Seq(submitted),
            task: tasks.front().copied(),
            weight: self.weight,
            priority: self.priority,
            served: self.served,
            idle: shared.is_idle(),
        }
    }

    /// Blocks of this client's next kernel that fit beside `rt`. Only while it is quiesced.
    pub(crate) fn padding(
        &mut self,
        device: &D,
        rt: &Launch<D>,
        info: &DeviceInfo,
    ) -> Result<Option<Padded<D>>> {
        let shared = self.queue.shared();
        if shared.failed().is_some() {
            return Ok(None);
        }
        let Some(mut launcher) = shared.try_launcher() else { return Ok(None) };
        if launcher.finish_padded() {
            shared.waiters().notify();
        }
        let Some((be, record)) = launcher.head(device)? else { return Ok(None) };
        let profiles = rt.profile().zip(be.profile());
        let padding = profiles.and_then(|(rt, be)| dkp::plan(rt, be, record.remaining(), info));
        Ok(padding.map(|padding| Padded { padding, be: be.clone(), record }))
    }
}
