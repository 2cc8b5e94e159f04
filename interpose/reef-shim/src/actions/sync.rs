//! Waits, captures, and the ends of streams and contexts.

use super::pools;
use crate::catch_panics::catch_panics;
use crate::driver::calls::{self, Stream};
use crate::driver::primary;
use crate::driver::state::Inside;
use crate::guest::capture::{self, Capture};
use crate::guest::find;
use crate::guest::iteration;
use crate::guest::tree::branch::Branch;
use crate::guest::tree::context::State;
use crate::guest::tree::stream::Stream as StreamRecord;
use crate::guest::ungated_captures;
use crate::order;

/// Waits for a stream: all of its earlier work has ended then.
pub(crate) fn stream(stream: Stream, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::enter() else { return real() };
    let known = catch_panics(|| find::find(stream).map(|known| (known, known.counts.issued())));
    let code = real();
    if code == 0 {
        iteration::end();
        known.into_iter().for_each(|(known, issued)| {
            known.counts.note_sync(issued);
            catch_panics(|| known.context().device.note_wait());
        });
    }
    code
}

/// Waits for a context; zero is the current one. Work that its streams get in the meantime isn't
/// counted as ended.
pub(crate) fn context(of: usize, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::enter() else { return real() };
    let known = catch_panics(|| {
        let branch = find::find_context(if of == 0 { calls::context() } else { of })?;
        let issued = |stream: &'static StreamRecord| (stream, stream.counts.issued());
        let working = branch.streams().filter(|stream| !stream.is_idle());
        Some((branch.context.device, working.map(issued).collect::<Vec<_>>()))
    });
    let code = real();
    if code == 0 {
        iteration::end();
    }
    if let (0, Some((device, streams))) = (code, known) {
        streams.into_iter().for_each(|(stream, issued)| stream.counts.note_sync(issued));
        catch_panics(|| device.note_wait());
    }
    code
}

/// Waits for an event: the work of this thread's iteration has ended then, as far as it waits for
/// it.
pub(crate) fn event(real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::enter() else { return real() };
    let code = real();
    if code == 0 {
        iteration::end();
    }
    code
}

/// Begins a capture, which gets gates if it takes them. A mark is inserted after the stream's work
/// first, because none can be inserted until the capture ends.
pub(crate) fn begin_capture(
    stream: Stream,
    takes_gates: impl FnOnce() -> bool,
    real: impl FnOnce() -> u32,
) -> u32 {
    let Some(_inside) = Inside::enter() else { return capture::begin(stream, real) };
    catch_panics(|| mark_last(stream));
    let is_ungated = !catch_panics(|| Some(takes_gates())).unwrap_or_default();
    let code = order::shared(|| capture::begin(stream, real));
    if code == 0
        && is_ungated
        && let Capture::Of(id) = capture::of(stream)
    {
        ungated_captures::add(id);
    }
    code
}

pub(crate) fn end_capture(stream: Stream, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::enter() else { return capture::end(stream, real) };
    let open = capture::of(stream);
    let code = capture::end(stream, real);
    if let Capture::Of(id) = open
        && capture::of(stream) != open
    {
        ungated_captures::remove(id);
    }
    code
}

/// Inserts a mark after a stream's work, if the stream takes one.
fn mark_last(stream: Stream) -> Option<&'static StreamRecord> {
    let known = find::find(stream)?;
    if !known.is_idle() && capture::of(stream) == Capture::None {
        known.context().within(|| known.mark_last());
    }
    Some(known)
}

/// Destroys a stream. The call returns at once: the stream's work counts until its last mark has
/// come. Another stream may get the same handle.
pub(crate) fn destroy_stream(stream: Stream, real: impl FnOnce() -> u32) -> u32 {
    pools::end_stream(stream);
    let Some(_inside) = Inside::enter() else { return real() };
    if !stream.is_default() {
        // A mark that the watchdog had begun would come after the last one, with an older number.
        capture::settle();
        catch_panics(|| mark_last(stream).into_iter().for_each(find::forget));
        capture::forget(stream);
    }
    real()
}

/// Destroys a context, which waits for its work.
pub(crate) fn end_context(of: usize, real: impl FnOnce() -> u32) -> u32 {
    end(of, real, || true)
}

/// Releases a reference to the current context. If it was the last one, the context isn't current
/// any more.
pub(crate) fn detach_context(of: usize, real: impl FnOnce() -> u32) -> u32 {
    end(of, real, || calls::context() != of)
}

/// Releases the last reference to a device's primary context, or all of them.
pub(crate) fn end_primary(ordinal: i32, real: impl FnOnce() -> u32) -> u32 {
    let scheduled = catch_panics(|| find::find_primary(ordinal));
    let handle = scheduled.map(|branch| branch.context.handle());
    match handle.or_else(|| primary::handle(ordinal)) {
        Some(of) => end(of, real, || !primary::is_active(ordinal)),
        None => real(), // a null handle would mean the current context
    }
}

/// Makes a call that may end the context of a handle; `is_over` says whether it did. The device's
/// gate is open meanwhile, because the call waits for the context's work.
fn end(of: usize, real: impl FnOnce() -> u32, is_over: impl FnOnce() -> bool) -> u32 {
    let Some(_inside) = Inside::enter() else { return real() };
    match catch_panics(|| find::find_context(of)) {
        Some(branch) => end_branch(branch, real, is_over),
        None => {
            let code = real();
            if code == 0 && is_over() {
                capture::forget_context(of);
            }
            code
        }
    }
}

fn end_branch(
    branch: &'static Branch,
    real: impl FnOnce() -> u32,
    is_over: impl FnOnce() -> bool,
) -> u32 {
    let context = &branch.context;
    context.set(State::Ending);
    capture::settle();
    let holders = &context.device.page.holders;
    holders.override_all();
    order::settle(); // a compiler may wait for work behind a gate
    let code = real();
    holders.end_override();
    catch_panics(|| {
        if code != 0 || !is_over() {
            return context.set(State::Live);
        }
        branch.streams().for_each(StreamRecord::has_run);
        capture::forget_context(context.handle());
        find::forget_context(branch);
        context.device.note_wait();
    });
    code
}

/// Destroys a green context. Its streams finish their work, and take no more.
pub(crate) fn end_green(green: usize, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::enter() else { return real() };
    let branch = catch_panics(|| {
        let mut context = 0;
        let code = calls::context_of_green(&mut context, green);
        find::find_context(context).filter(|_| code == Some(0))
    });
    let Some(branch) = branch else { return real() };
    branch.context.set(State::Ending);
    capture::settle();
    catch_panics(|| branch.mark_last()); // after all marks of the watchdog
    order::settle();
    let code = real();
    catch_panics(|| match code {
        0 => {
            capture::forget_context(branch.context.handle());
            find::forget_context(branch);
        }
        _ => branch.context.set(State::Live),
    });
    code
}
