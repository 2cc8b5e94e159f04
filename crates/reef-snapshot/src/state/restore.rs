//! Brings a snapshot back: memory with its contents, and a queue to continue.

use super::work::{Region, Work};
use crate::error::{Error, Result};
use crate::format::file::Snapshot;
use crate::format::manifest::{MAX_LEFT, Manifest, RegionState};
use crate::format::reader::Fault;
use reef_core::{Command, Device, Parked, Seq};

impl Snapshot {
    /// Writes the memory of `work` as it was, and returns the queue to continue with:
    /// [`enable_parked`](reef_core::VirtualQueue::enable_parked). Nothing may run on that memory.
    ///
    /// A snapshot between tasks is also restored where the device launches the task otherwise.
    ///
    /// # Errors
    ///
    /// `Other` if the network, its weights or the backend are not those of the snapshot; `Plan` if
    /// the task has begun and the device launches it otherwise; nothing has been written then. The
    /// device's; `Damaged` if the file was changed since it was opened.
    pub fn restore<D: Device>(&mut self, work: &Work<'_, D>) -> Result<Parked<D>> {
        let manifest = self.manifest().clone();
        check(&manifest, work)?;
        check_left(&manifest, work).map_err(|fault| self.refusal(fault))?;
        let is_whole = !manifest.queue.position().is_between();
        for (state, region) in regions(&manifest, work, is_whole)? {
            let refusal = |fault| self.refusal(fault);
            self.reader.region(state, refusal, |offset, bytes| {
                Ok(work.device.write(region, offset, bytes)?)
            })?;
        }
        parked(&manifest, work)
    }
}

/// Refuses other work than that of the snapshot.
fn check<D: Device>(manifest: &Manifest, work: &Work<'_, D>) -> Result<()> {
    let other = |what, want: String, have: String| Err(Error::Other { what, want, have });
    if manifest.device.backend != D::NAME {
        return other("backend", manifest.device.backend.clone(), D::NAME.into());
    }
    if manifest.model != work.model {
        let want = format!("{} ({})", manifest.name, manifest.model);
        return other("network", want, format!("{} ({})", work.name, work.model));
    }
    if manifest.weights != work.weights {
        return other("weights", manifest.weights.to_string(), work.weights.to_string());
    }
    let position = manifest.queue.position();
    let is_same_plan =
        (manifest.plan, manifest.queue.commands) == (work.plan, work.task.len() as u64);
    if is_same_plan || position.is_between() {
        return Ok(());
    }
    Err(Error::Plan {
        at: position.at,
        commands: position.commands,
        device: manifest.device.name.clone(),
        want: manifest.plan,
        have: work.plan,
    })
}

/// Refuses more commands than a queue takes: between tasks their number is that of the work, not
/// that of the file.
fn check_left<D: Device>(manifest: &Manifest, work: &Work<'_, D>) -> Result<(), Fault> {
    let (position, commands) = (manifest.queue.position(), work.task.len() as u64);
    let rest = if position.is_between() { 0 } else { commands - position.at };
    let left = position.tasks.saturating_mul(commands).saturating_add(rest);
    if left <= MAX_LEFT {
        return Ok(());
    }
    let what = format!("{} tasks of {commands} commands are left", position.tasks);
    Err(Fault::Damaged(format!("queue: {what}, must be at most {MAX_LEFT} commands")))
}

/// The regions to write, with the memory of each: all, or those that last.
fn regions<'a, D: Device>(
    manifest: &'a Manifest,
    work: &'a Work<'_, D>,
    is_whole: bool,
) -> Result<Vec<(&'a RegionState, &'a D::Buffer)>> {
    let wanted = work.memory.iter().filter(|region| is_whole || region.lasts);
    let pair = |region: &'a Region<D>| {
        let state = manifest.memory.iter().find(|state| state.name == region.name);
        let have = format!("{} bytes of {}", region.bytes, region.name);
        let Some(state) = state.filter(|state| state.bytes == region.bytes as u64) else {
            let want = state.map_or("none".into(), |state| format!("{} bytes", state.bytes));
            return Err(Error::Other { what: "memory", want, have });
        };
        Ok((state, &region.buffer))
    };
    wanted.map(pair).collect()
}

/// The queue, with the commands of the task.
fn parked<D: Device>(manifest: &Manifest, work: &Work<'_, D>) -> Result<Parked<D>> {
    let queue = &manifest.queue;
    let position = queue.position();
    let partial = queue.partial.as_ref().map(|partial| partial.blocks()).transpose()?;
    let rest: &[Command<D>] =
        if position.is_between() { &[] } else { &work.task[position.at as usize..] };
    let mut commands = rest.to_vec();
    for _ in 0..position.tasks {
        commands.extend(work.task.iter().cloned());
    }
    Ok(Parked::new(Seq(queue.completed), commands, partial)?)
}
