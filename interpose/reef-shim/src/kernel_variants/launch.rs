//! Launches of kernels: measured, sliced or plain.

use super::builder::Order;
use super::cut::StopKind;
use super::driver::timing::Events;
use super::fitting::{fit, function, measured};
use super::kernels::{self, Kernel};
use super::report;
use super::shape::{Plan, Shape, ShapeKey, State};
use crate::actions::launch::{Work, launch_gated, launch_slice, wait_for_room};
use crate::catch_panics::catch_panics;
use crate::driver::calls::{self, Stream, capability};
use crate::driver::state::Inside;
use crate::guest::capture;
use crate::guest::device::Device;
use crate::guest::find;
use crate::guest::tree::branch::Branch;
use crate::order;
use crate::settings::{Slices, settings};
use crate::stops::sliced_stream::LaunchCopy;
use reef_guest::page::Time;
use reef_ptx::variant::{Launch, Mode, Slice};
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Duration from which a kernel is long.
const LONG: Duration = Duration::from_micros(500);
/// Number of measurements of a kernel, and of its slices.
const MEASURED: u32 = 2;
const MEASURED_SLICES: u32 = 3;
/// Launches after which a short kernel is measured again: its duration may depend on its data.
const AGAIN: u64 = 256;
/// Time for which real-time work counts as there after it held this program.
const RECENT: u64 = 60_000_000_000;
/// Upper bound of the time of slices, as a multiple of the kernel's.
const MAX_COST: f64 = 1.15;
/// Maximum number of shapes of a kernel.
const MAX_SHAPES: usize = 64;

/// Launch of a kernel by the program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelLaunch {
    pub(crate) function: usize,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared: u32,
    pub(crate) stream: Stream,
    pub(crate) params: *mut *mut c_void,
    /// True if it has neither attributes nor packed parameters.
    pub(crate) is_simple: bool,
}

/// Way in which a launch is made.
#[derive(Debug, Default)]
enum Way {
    #[default]
    Plain,
    Measured(Arc<Kernel>, ShapeKey, Events),
    Sliced(Arc<Plan>, &'static Device),
}

/// Launches a kernel as it is, measured, or by its instrumented variant in slices: decides which.
pub(crate) fn launch_variant(of: &KernelLaunch, work: Work, real: impl FnOnce() -> u32) -> u32 {
    let way = match Inside::enter() {
        Some(_inside) => catch_panics(|| way(of).unwrap_or_default()),
        None => Way::Plain,
    };
    match way {
        Way::Plain => order::shared(|| launch_gated(of.stream, work, real)),
        Way::Measured(kernel, key, events) => {
            let mut is_measured = false;
            let code = order::shared(|| {
                launch_gated(of.stream, work, || {
                    let (code, both) = events.measure(of.stream, real);
                    is_measured = both;
                    code
                })
            });
            match kernel.shapes().get_mut(&key).filter(|_| code == 0 && is_measured) {
                Some(shape) => shape.plain.wait_for(events),
                None => events.destroy(),
            }
            code
        }
        Way::Sliced(plan, device) => {
            // A driver whose queue is full blocks, and all other launches would wait with it.
            let lock = if wait_for_room(of.stream) { order::exclusive() } else { None };
            let code = lock.and_then(|_lock| plan.launch_slices(of));
            let counts = &device.page.counts;
            let count = if code.is_some() { &counts.sliced } else { &counts.whole };
            count.fetch_add(1, Relaxed);
            code.unwrap_or_else(|| order::shared(|| launch_gated(of.stream, work, real)))
        }
    }
}

/// Chooses the way of a launch. `None`: plain.
fn way(of: &KernelLaunch) -> Option<Way> {
    if capture::is_any_open() || !of.is_simple {
        return None;
    }
    let stream = find::stream(of.stream)?;
    let device = stream.context().device;
    if !may_be_held(device) || stream.context().handle() != calls::context() {
        return None;
    }
    let kernel = kernels::find_or_unknown(of.function);
    let context = stream.context().name();
    let key = ShapeKey { context, grid: of.grid, block: of.block, shared: of.shared };
    let mut shapes = kernel.shapes();
    if shapes.len() >= MAX_SHAPES && !shapes.contains_key(&key) {
        return None;
    }
    // The program launches it, so it is there now.
    let function = || function(&kernel, of.function).unwrap_or(of.function);
    let shape = shapes.entry(key).or_insert_with(|| Shape::new(function()));
    shape.launches += 1;
    match &shape.state {
        State::Plain(_) => {
            device.page.counts.whole.fetch_add(1, Relaxed);
            return None;
        }
        State::Short if shape.launches < AGAIN => return None,
        State::Short => {
            shape.begin_again();
            return None;
        }
        State::Measured => {
            // A gate comes before the first event, so a hold is not part of the time.
            if shape.plain.begun() < MEASURED {
                let events = Events::new()?;
                drop(shapes);
                return Some(Way::Measured(kernel, key, events));
            }
        }
        State::Ready(plan, _) if of.params.is_null() && !plan.parameters.is_empty() => return None,
        State::Long(_) | State::Ready(..) => {}
    }
    let is_ready = matches!(shape.state, State::Ready(..));
    step(shape, &kernel, of.function, &key);
    match &shape.state {
        State::Ready(plan, _) if is_ready => Some(Way::Sliced(plan.clone(), device)),
        _ => None, // from the next one on
    }
}

/// Takes a shape to its next state, if that needs no launch.
pub(super) fn step(shape: &mut Shape, kernel: &Kernel, handle: usize, key: &ShapeKey) {
    match &shape.state {
        State::Measured if shape.plain.is_free() && shape.plain.count >= MEASURED => {
            shape.launches = 0;
            shape.state = match shape.plain.shortest {
                Some(shortest) if shortest >= LONG => long(kernel, handle, key, shortest),
                _ => State::Short,
            };
        }
        State::Long(order) => {
            let order = order.clone();
            let Some(built) = order.result().cloned() else { return };
            let plain = shape.plain.shortest.unwrap_or_default();
            let plan = built.and_then(|built| fit(kernel, handle, key, built, plain));
            shape.state = match plan {
                Ok(plan) => State::Ready(Arc::new(plan), order),
                Err(why) => simpler(&order, why),
            };
        }
        State::Ready(plan, order) => {
            if let Some(why) = plan.excess() {
                shape.state = simpler(order, why);
            }
        }
        State::Measured | State::Short | State::Plain(_) => {}
    }
}

/// Orders a simpler variant than one that doesn't fit, for this reason.
fn simpler(order: &Order, why: String) -> State {
    match order.simpler() {
        Some(order) => {
            order.send();
            State::Long(order)
        }
        None => State::Plain(why),
    }
}

/// Orders the variant of a long kernel.
fn long(kernel: &Kernel, handle: usize, key: &ShapeKey, plain: Duration) -> State {
    report::begin();
    if let Err(why) = kernel.code.as_ref() {
        return State::Plain(why.clone());
    }
    let is_of = |branch: &&Branch| branch.context.name() == key.context;
    let branch = find::find_context(calls::context()).filter(is_of);
    let capability = calls::device().and_then(capability);
    let (Some(branch), Some(capability)) = (branch, capability) else {
        return State::Plain("its device is not known".into());
    };
    let stops = match settings().slices {
        Some(Slices::NoStops) => StopKind::Never,
        _ => measured(kernel, handle, key, plain).map_or(StopKind::Never, |it| it.stops()),
    };
    let (name, code) = (kernel.name.clone(), kernel.code.clone());
    let order = Order::new(name, code, branch, capability, stops);
    order.send();
    State::Long(order)
}

/// Returns whether this program may be held, and real-time work was there of late. Time limits and
/// memory that leaves the device stay with plain launches.
pub(super) fn may_be_held(device: &Device) -> bool {
    /// Time of the last hold that was seen, and the number of holds then.
    static LAST: AtomicU64 = AtomicU64::new(0);
    static SEEN: AtomicU64 = AtomicU64::new(0);
    if !is_scheduled(device) {
        return false;
    }
    let (now, holds) = (Time::now().0, device.page.spans.ended());
    if device.page.holders.is_held() || SEEN.swap(holds, Relaxed) != holds {
        LAST.store(now, Relaxed);
    }
    let last = LAST.load(Relaxed);
    last != 0 && now.saturating_sub(last) < RECENT
}

/// Returns whether this program's kernels may be sliced on a device.
fn is_scheduled(device: &Device) -> bool {
    let is_best_effort = !device.is_real_time() && !device.phase.is_active();
    is_best_effort && device.has_daemon() && device.meter.is_none()
}

impl KernelLaunch {
    /// Copies what the launch has, for launches of a variant of its kernel, whose own parameters
    /// have these bytes.
    pub(super) fn copy(&self, variant: usize, parameters: &[usize]) -> LaunchCopy {
        let (mut bytes, mut places) = (Vec::new(), Vec::new());
        for (index, size) in parameters.iter().enumerate() {
            let at = bytes.len();
            places.push(at);
            bytes.resize(at + size.div_ceil(8), 0_u64);
            // SAFETY: cuLaunchKernel demands an address of each parameter, of as many bytes as the
            // kernel takes, which is `size`. `bytes` has just got room for them.
            unsafe {
                let from = (*self.params.add(index)).cast::<u8>();
                std::ptr::copy_nonoverlapping(from, bytes[at..].as_mut_ptr().cast(), *size);
            }
        }
        let (grid, block, shared) = (self.grid, self.block, self.shared);
        LaunchCopy { variant, grid, block, shared, bytes, places }
    }
}

impl Plan {
    /// Launches all slices. `None`: nothing was launched.
    fn launch_slices(&self, of: &KernelLaunch) -> Option<u32> {
        let _inside = Inside::enter()?;
        if capture::is_any_open() {
            return None; // it has begun since the way was chosen
        }
        let mut timed = self.measure();
        let has_gates = timed.is_none();
        let copy = of.copy(self.variant, &self.parameters);
        let sliced = self.guard.as_ref().and_then(|guard| {
            let sliced = guard.stop_context.sliced(find::stream(of.stream)?)?;
            // Nor are launches stopped that are measured.
            Some((sliced, has_gates.then_some(&guard.count)))
        });
        for (at, group) in self.groups.iter().enumerate() {
            let mut gated = |is_first: bool, real: &mut dyn FnMut() -> u32| {
                let is_first = is_first && at == 0;
                let mut real = || {
                    if is_first {
                        timed = timed.filter(|events| events.begin(of.stream));
                    }
                    real()
                };
                // A hold between slices would be a part of their time.
                let has_gate = is_first || has_gates;
                if has_gate { launch_slice(of.stream, is_first, real) } else { real() }
            };
            let launched = match sliced {
                Some((sliced, count)) => sliced.launch_group(of.stream, group, &copy, count, gated),
                None => {
                    let mut slices = group.slices.iter().enumerate().map(|(at, slice)| {
                        let stream = of.stream.0;
                        let mut launch =
                            || copy.launch_blocks(stream, slice.blocks, &self.own(slice, of.grid));
                        (at, gated(at == 0, &mut launch))
                    });
                    let failed = slices.find(|(_, code)| *code != 0);
                    failed.map_or(Ok(()), |(at, code)| Err((code, at > 0)))
                }
            };
            if let Err((code, others)) = launched {
                sliced.inspect(|(sliced, _)| sliced.end(of.stream));
                timed.into_iter().for_each(Events::destroy);
                return (at > 0 || others).then_some(code);
            }
        }
        sliced.inspect(|(sliced, _)| sliced.end(of.stream));
        self.launches.fetch_add(1, Relaxed);
        if let Some(events) = timed {
            let mut sliced = self.sliced.lock().unwrap_or_else(PoisonError::into_inner);
            if events.end(of.stream) {
                sliced.wait_for(events);
            } else {
                events.destroy();
            }
        }
        Some(0)
    }

    /// Returns the variant's own parameter for a slice that is not stopped.
    pub(super) fn own(&self, slice: &Slice, grid: [u32; 3]) -> Launch {
        let stop = self.guard.as_ref().map_or(0, |guard| guard.stop_context.never());
        Launch { stop, number: 1, offset: slice.offset, grid, ..PLAIN }
    }

    pub(super) fn slices(&self) -> usize {
        self.groups.iter().map(|group| group.slices.len()).sum()
    }

    /// Returns events for the launch, if it is one of those that are measured.
    fn measure(&self) -> Option<Events> {
        let mut sliced = self.sliced.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = sliced.count < MEASURED_SLICES && sliced.is_free();
        if is_due { Events::new() } else { None }
    }

    /// Returns the reason for which the launch isn't sliced any more: slices take longer.
    fn excess(&self) -> Option<String> {
        let mut sliced = self.sliced.lock().unwrap_or_else(PoisonError::into_inner);
        if !sliced.is_free() || sliced.count < MEASURED_SLICES {
            return None;
        }
        let cost = sliced.shortest?.as_secs_f64() / self.plain.as_secs_f64();
        let percent = 100.0 * (cost - 1.0);
        (cost > MAX_COST).then(|| format!("{} slices took {percent:.0} % longer", self.slices()))
    }
}

/// A slice without an entry guard reads neither a stop word nor a map.
pub(super) const PLAIN: Launch = Launch {
    stop: 0,
    map: 0,
    mode: Mode::First,
    number: 0,
    offset: [0; 3],
    grid: [0; 3],
    left: 0,
    left_before: 0,
};
