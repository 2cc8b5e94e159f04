//! Makes a session of a state.

use super::globals::{self, Global};
use super::memory::{Copier, check};
use super::state::{Range, State};
use super::take::models;
use crate::executor::Executor;
use crate::state::allocations::MemoryKind;
use crate::state::lock::lock;
use crate::state::log::{Logged, ender};
use crate::state::queue::{Head, Queue};
use crate::state::shared::Shared;
use reef_remote_calls::{Call, Define, Kind, LEGACY_STREAM, TableCall};
use reef_wire::little_endian::{U16, U32};
use reef_wire::{Hot, hot_bytes};
use std::collections::HashMap;
use std::sync::Arc;

/// Makes all objects again, in a process whose window has the bytes already. The executor may run
/// then.
///
/// # Errors
///
/// The part that differs, or the call that the driver refuses.
pub(crate) fn make(
    shared: &Arc<Shared>,
    queue: &Arc<Queue>,
    state: &State,
) -> Result<Executor, String> {
    let (version, devices) = models(&shared.driver)?;
    let window = lock(&shared.window).as_ref().map_or(0, |window| window.base());
    state.check(version, &devices, window)?;
    shared.driver.relax_captures();
    let mut executor = Executor::new(shared.clone(), queue.clone());
    primaries(shared, state)?;
    for entry in &state.entries {
        let named = entry.made.first().copied();
        lock(&shared.handles).force(named);
        for message in &entry.messages {
            repeat(&mut executor, message)?;
        }
        lock(&shared.handles).force(None);
        let is_there = |id| lock(&shared.handles).is_live(id);
        if let Some(id) = named.filter(|id| !is_there(*id)) {
            return Err(format!("object {id:#x}: has got another number"));
        }
    }
    for &(kind, id) in &state.ended {
        let is_live = lock(&shared.handles).is_live(id);
        if let (Some(call), true) = (ender(kind), is_live) {
            repeat(&mut executor, &call_of(call, &[id], 0))?;
        }
    }
    let events = lock(&shared.handles).children(Kind::Event);
    for (event, context) in events {
        let record = call_of(Call::cuEventRecord, &[event, LEGACY_STREAM], context);
        repeat(&mut executor, &record)?;
    }
    for (_, context) in shared.contexts() {
        shared.driver.set_context(context);
        // SAFETY: no arguments.
        unsafe { shared.driver.of(Call::cuCtxSynchronize).call([]) };
    }
    for body in &state.templates {
        let message = Logged { lane: 0, context: 0, op: Define::OP, body: body.clone() };
        repeat(&mut executor, &message)?;
    }
    memory(shared, state)?;
    values(shared, state)?;
    release(shared, state);
    lock(&shared.handles).set_next(state.next);
    executor.set_lanes(&state.lanes);
    for message in &state.pending {
        let &super::state::Pending { op, lane, number, wants_reply, ref body } = message;
        let head = Head { op, wants_reply, lane, number, len: body.len() };
        queue.push_again(head, body);
    }
    Ok(executor)
}

fn repeat(executor: &mut Executor, message: &Logged) -> Result<(), String> {
    let name = || match TableCall::split(&message.body) {
        Ok((head, _)) if message.op == TableCall::OP => {
            let spec = reef_remote_calls::CALLS.get(usize::from(head.call.get()));
            spec.map_or_else(String::new, |spec| spec.name.to_string_lossy().into_owned())
        }
        _ => format!("operation {}", message.op),
    };
    match executor.repeat(message).map_err(|e| e.to_string())? {
        0 => Ok(()),
        code => Err(format!("{}: code {code} where it had none", name())),
    }
}

fn call_of(call: Call, words: &[u64], context: u64) -> Logged {
    let head =
        TableCall { call: U16::new(call as u16), reserved: U16::new(0), reserved2: U32::new(0) };
    let mut body = hot_bytes(&head).to_vec();
    words.iter().for_each(|word| body.extend_from_slice(&word.to_le_bytes()));
    Logged { lane: 0, context, op: TableCall::OP, body }
}

/// Retains primary contexts as often as the program has, and once at least.
fn primaries(shared: &Shared, state: &State) -> Result<(), String> {
    for primary in &state.primaries {
        let mut handle = 0_usize;
        for _ in 0..primary.retains.max(1) {
            let retain = shared.driver.of(Call::cuDevicePrimaryCtxRetain);
            // SAFETY: a place for a handle.
            let code = unsafe { retain.call([&raw mut handle as usize, primary.device as usize]) };
            check(code).map_err(|code| format!("cuDevicePrimaryCtxRetain: code {code}"))?;
        }
        let named = {
            let mut handles = lock(&shared.handles);
            handles.force(Some(primary.id));
            let named = handles.name(Kind::Context, handle, 0);
            handles.force(None);
            named
        };
        if named != primary.id {
            return Err(format!("object {:#x}: has got another number", primary.id));
        }
        let counted = (primary.id, primary.retains);
        lock(&shared.primaries).insert(primary.device as usize, counted);
    }
    Ok(())
}

/// Releases primary contexts that the program has released.
fn release(shared: &Shared, state: &State) {
    for primary in state.primaries.iter().filter(|primary| primary.retains == 0) {
        let release = shared.driver.of(Call::cuDevicePrimaryCtxRelease_v2);
        // SAFETY: a number.
        unsafe { release.call([primary.device as usize]) };
    }
}

/// Gives the window's memory to its contexts, and ends what there is too much.
fn memory(shared: &Shared, state: &State) -> Result<(), String> {
    for range in &state.memory {
        let context = lock(&shared.handles).get(Kind::Context, range.context);
        if !context.is_ok_and(|handle| handle != 0) {
            return Err(format!("memory at {:#x}: must be of a context that is there", range.at));
        }
    }
    let ranges: HashMap<u64, &Range> = state.memory.iter().map(|range| (range.at, range)).collect();
    let mut window = lock(&shared.window);
    let window = window.as_mut().ok_or("there is no window")?;
    window.keep(&shared.driver, |at, slab| {
        let of = ranges.get(&at);
        let of = of.filter(|range| (range.bytes, range.device) == (slab.bytes, slab.device));
        of.map(|range| range.context)
    });
    for range in &state.memory {
        if !window.slabs().contains_key(&range.at) {
            return Err(format!("memory at {:#x}: has not come", range.at));
        }
    }
    Ok(())
}

/// Writes the variables of modules and libraries.
fn values(shared: &Arc<Shared>, state: &State) -> Result<(), String> {
    for global in &state.globals {
        let (of, context) = {
            let handles = lock(&shared.handles);
            (handles.get(global.kind, global.of), handles.get(Kind::Context, global.context))
        };
        let failed = |code: u32| format!("variable {}: code {code}", global.name);
        let (of, context) = (of.map_err(failed)?, context.map_err(failed)?);
        let mut copier = Copier::new(shared, context).map_err(failed)?;
        let found = globals::find(&shared.driver, global.kind, of, &global.name);
        let Some((at, bytes)) = found.filter(|(_, bytes)| *bytes == global.bytes) else {
            return Err(format!("variable {}: must have {} bytes", global.name, global.bytes));
        };
        if global.is_known && at != global.at {
            let Global { name, at: must, .. } = global;
            return Err(format!("address of variable {name}: must be {must:#x}, got {at:#x}"));
        }
        copier.write(at, &global.value).map_err(failed)?;
        if global.is_known {
            let context = if global.kind == Kind::Library { global.context } else { 0 };
            let owners = [global.of, context];
            lock(&shared.places).put(at, bytes, owners, MemoryKind::Linear);
            lock(&shared.log).globals.insert(at);
        }
    }
    Ok(())
}
