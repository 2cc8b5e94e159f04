//! Waiting, and the ends of streams and contexts. Each has to do with a part of the tree alone.

use crate::catch_panics::catch_panics;
use crate::driver::calls::{self, Stream};
use crate::driver::state::Inside;
use crate::guest::capture::{self, Capture};
use crate::guest::find;
use crate::guest::tree::branch::Branch;
use crate::guest::tree::context::State;
use crate::guest::tree::stream::Stream as StreamRecord;
use crate::guest::ungated_captures;

/// Waits for a stream: all that it was given before has ended then.
pub(crate) fn stream(stream: Stream, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::enter() else { return real() };
    let known = catch_panics(|| find::find(stream).map(|known| (known, known.counts.issued())));
    let code = real();
    if code == 0 {
        known.into_iter().for_each(|(known, issued)| {
            known.counts.note_sync(issued);
            catch_panics(|| known.context().device.waited());
        });
    }
    code
}

/// Waits for a context; zero is the current one. What its streams are given meanwhile is left out.
pub(crate) fn context(of: usize, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::enter() else { return real() };
    let known = catch_panics(|| {
        let branch = find::find_context(if of == 0 { calls::context() } else { of })?;
        let issued = |stream: &'static StreamRecord| (stream, stream.counts.issued());
        let working = branch.streams().filter(|stream| !stream.is_idle());
        Some((branch.context.device, working.map(issued).collect::<Vec<_>>()))
    });
    let code = real();
    if let (0, Some((device, streams))) = (code, known) {
        streams.into_iter().for_each(|(stream, issued)| stream.counts.note_sync(issued));
        catch_panics(|| device.waited());
    }
    code
}

/// Begins a capture, which gates are put into if it takes them. A mark is behind what the stream
/// has: none can be put in until the capture ends.
pub(crate) fn begin_capture(
    stream: Stream,
    takes_gates: impl FnOnce() -> bool,
    real: impl FnOnce() -> u32,
) -> u32 {
    let Some(_inside) = Inside::enter() else { return capture::begin(stream, real) };
    catch_panics(|| mark_last(stream));
    let is_bare = !catch_panics(|| Some(takes_gates())).unwrap_or_default();
    let code = capture::begin(stream, real);
    if code == 0
        && is_bare
        && let Capture::Of(id) = capture::of(stream)
    {
        ungated_captures::add(id);
    }
    code
}

/// Ends a capture.
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

/// Puts a mark behind what a stream has, if it takes one.
fn mark_last(stream: Stream) -> Option<&'static StreamRecord> {
    let known = find::find(stream)?;
    if !known.is_idle() && capture::of(stream) == Capture::None {
        known.context().within(|| known.mark_last());
    }
    Some(known)
}

/// Destroys a stream, which returns at once: what the stream has counts until its last mark has
/// come. Its handle may come back as another's.
pub(crate) fn destroy_stream(stream: Stream, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::enter() else { return real() };
    if !stream.is_default() {
        catch_panics(|| mark_last(stream).into_iter().for_each(find::forget));
        capture::forget(stream);
    }
    real()
}

/// Destroys a context, which waits for its work.
pub(crate) fn end_context(of: usize, real: impl FnOnce() -> u32) -> u32 {
    end(|| find::find_context(of), real, || true)
}

/// Gives a reference to the current context back, which may have been the last one: then it isn't
/// current any more.
pub(crate) fn detach_context(of: usize, real: impl FnOnce() -> u32) -> u32 {
    end(|| find::find_context(of), real, || calls::context() != of)
}

/// Gives a reference to a device's primary context back, or all.
pub(crate) fn end_primary(ordinal: i32, real: impl FnOnce() -> u32) -> u32 {
    let (mut flags, mut is_active) = (0, 1);
    let is_over = || {
        let code = calls::primary_state(ordinal, &mut flags, &mut is_active);
        code == Some(0) && is_active == 0
    };
    end(|| find::find_primary(ordinal), real, is_over)
}

/// Makes a call that may end a context, and says so by `is_over`: with the device's gate open, as
/// it waits for the context's work.
fn end(
    find: impl FnOnce() -> Option<&'static Branch>,
    real: impl FnOnce() -> u32,
    is_over: impl FnOnce() -> bool,
) -> u32 {
    let Some(_inside) = Inside::enter() else { return real() };
    let Some(branch) = catch_panics(find) else { return real() };
    let context = &branch.context;
    context.set(State::Ending);
    capture::settle();
    let holders = &context.device.page.holders;
    holders.override_all();
    let code = real();
    holders.end_override();
    catch_panics(|| {
        if code != 0 || !is_over() {
            return context.set(State::Live);
        }
        branch.streams().for_each(|stream| {
            stream.has_run();
            capture::forget(stream.name());
        });
        find::forget_context(branch);
        context.device.waited();
    });
    code
}

/// Destroys a green context, whose streams run what they have, and take nothing more.
pub(crate) fn end_green(green: usize, real: impl FnOnce() -> u32) -> u32 {
    let Some(_inside) = Inside::enter() else { return real() };
    let branch = catch_panics(|| {
        let mut context = 0;
        let code = calls::context_of_green(&mut context, green);
        find::find_context(context).filter(|_| code == Some(0))
    });
    let Some(branch) = branch else { return real() };
    catch_panics(|| branch.mark_last());
    branch.context.set(State::Ending);
    capture::settle();
    let code = real();
    catch_panics(|| match code {
        0 => find::forget_context(branch),
        _ => branch.context.set(State::Live),
    });
    code
}
