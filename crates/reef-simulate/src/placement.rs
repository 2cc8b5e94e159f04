//! Placement of clients on devices.

use crate::class::Class;
use crate::device::inference::Inference;
use crate::fleet::{Arrivals, Client, Fleet};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Policy that places clients on devices. Each client is placed once; real-time ones come first,
/// both in the fleet's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// On the device with the least load of both classes.
    Spread,
    /// On the first device that has room.
    Pack,
    /// Real-time clients on the device with the fewest of them, best-effort ones on that with the
    /// least load.
    RtApart,
    /// On the device where they slow others, and others slow them, the least.
    LeastInterference,
}

impl Placement {
    /// All, with their names.
    pub const ALL: [(&'static str, Self); 4] = [
        ("spread", Self::Spread),
        ("pack", Self::Pack),
        ("rt-apart", Self::RtApart),
        ("least-interference", Self::LeastInterference),
    ];

    /// Returns the policy of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(of, _)| *of == name).map(|(_, placement)| *placement)
    }

    /// Returns the device's rank: the client gets the device with the lowest.
    fn key(self, kind: &Kind, on: &DeviceLoad, device: usize, fleet: &Fleet) -> f64 {
        let full = if on.fits(kind, fleet) { 0.0 } else { 1e12 };
        match self {
            Self::Spread => on.load,
            Self::Pack if full == 0.0 => device as f64,
            Self::Pack => full + on.load,
            Self::RtApart if kind.class == Class::Rt => f64::from(on.rt) * 1e6 + on.load,
            Self::RtApart => on.load,
            Self::LeastInterference => full + on.interference(kind),
        }
    }
}

/// Properties of clients that are alike, for placing.
struct Kind {
    class: Class,
    inference: Inference,
    /// Part of a device's time that one wants.
    load: f64,
}

/// Clients on a device, in numbers.
#[derive(Clone, Default)]
struct DeviceLoad {
    load: f64,
    rt_load: f64,
    rt: u32,
    be: u32,
    /// Sums over its clients, each by its load.
    pressure: f64,
    sensitivity: f64,
}

impl DeviceLoad {
    fn fits(&self, kind: &Kind, fleet: &Fleet) -> bool {
        match kind.class {
            Class::Rt => self.rt == 0 || self.rt_load + kind.load <= fleet.rt_load,
            Class::Be => self.be < fleet.be_per_gpu,
        }
    }

    /// Returns by how much a client would slow those that are here, and they it. Real-time tasks
    /// wait for each other.
    fn interference(&self, kind: &Kind) -> f64 {
        let Kind { inference, load, class } = kind;
        let colocate =
            inference.sensitivity * self.pressure + inference.pressure * self.sensitivity;
        let waiting = if *class == Class::Rt { 2.0 * self.rt_load } else { 0.0 };
        load * (colocate + waiting)
    }

    fn take(&mut self, kind: &Kind) {
        self.load += kind.load;
        self.pressure += kind.load * kind.inference.pressure;
        self.sensitivity += kind.load * kind.inference.sensitivity;
        match kind.class {
            Class::Rt => (self.rt, self.rt_load) = (self.rt + 1, self.rt_load + kind.load),
            Class::Be => self.be += 1,
        }
    }
}

/// A client: the position of its kind in the fleet, and its number among them.
pub(crate) type Placed = (u32, u32);

/// The clients of each device.
pub(crate) fn place(fleet: &Fleet, placement: Placement) -> Vec<Vec<Placed>> {
    let mut loads = vec![DeviceLoad::default(); fleet.devices()];
    let mut placed = vec![Vec::new(); fleet.devices()];
    for class in [Class::Rt, Class::Be] {
        for (at, client) in fleet.clients.iter().enumerate() {
            if client.class == class {
                let at = at as u32;
                place_kind(fleet, placement, at, &mut loads, &mut placed);
            }
        }
    }
    placed
}

fn place_kind(
    fleet: &Fleet,
    placement: Placement,
    at: u32,
    loads: &mut [DeviceLoad],
    placed: &mut [Vec<Placed>],
) {
    let client = &fleet.clients[at as usize];
    let inference = Inference::new(&fleet.profile.networks[&client.network]);
    let load = load(fleet, client, &inference);
    let kind = Kind { class: client.class, inference, load };
    // Keys are not negative, so that their bits are in their order.
    let key = |on: &DeviceLoad, device| placement.key(&kind, on, device, fleet).to_bits();
    let keys = loads.iter().enumerate().map(|(device, on)| Reverse((key(on, device), device)));
    let mut heap: BinaryHeap<_> = keys.collect();
    for number in 0..client.count {
        let Some(mut top) = heap.peek_mut() else { return };
        let device = top.0.1;
        loads[device].take(&kind);
        placed[device].push((at, number));
        *top = Reverse((key(&loads[device], device), device));
    }
}

/// Part of a device's time that a client wants, alone.
fn load(fleet: &Fleet, client: &Client, inference: &Inference) -> f64 {
    let seconds = inference.alone / 1e9;
    match &client.arrivals {
        Arrivals::Closed { pause_us } => seconds / (seconds + pause_us / 1e6),
        Arrivals::Poisson { per_second } | Arrivals::Periodic { per_second, .. } => {
            per_second * seconds
        }
        Arrivals::Bursts { per_second, size } => per_second * f64::from(*size) * seconds,
        Arrivals::Trace(_) => {
            let times = fleet.times(client);
            let span = times.and_then(|times| times.last()).map_or(1.0, |&last| last as f64 / 1e9);
            let requests = times.map_or(0, |times| times.len()) as f64;
            requests * seconds / span.max(1e-9) / f64::from(client.count.max(1))
        }
    }
}
