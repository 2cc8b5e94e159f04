//! The handle of an open device and what stands in it. No driver call is made here but to load the
//! kernels of networks.

use crate::code::builtin::Builtin;
use crate::code::loaded::Builds;
use crate::driver::clock::Clock;
use crate::driver::context::Context;
use crate::driver::control_stream::ControlStream;
use crate::driver::handles::cloned;
use crate::driver::stream::Writer;
use crate::driver::timeout::Timeout;
use crate::hal::calls::{Start, Vendor};
use crate::hal::facts::Facts;
use crate::hal::options::{ColocationMode, Options, Precision};
use crate::preempt::preemptor::Preemptor;
use crate::tuning::TunedPlans;
use reef_core::{Caps, Error, Priority, Result};
use std::sync::{Arc, OnceLock};

/// More blocks than a launch of a network has: such launches run as they are.
const SHORT_BLOCKS: u32 = 2000;

/// Name of kernels/hopper.cu, and of one of its kernels.
const GROUPS: &str = "hopper";
const FIRST_OF_GROUPS: &str = "groups_f16_64x64";

/// An open device.
#[derive(Debug)]
pub struct Gpu<V: Vendor>(pub(crate) Arc<Open<V>>);

cloned!(Gpu);

/// State that the handles of one open device share.
#[derive(Debug)]
pub(crate) struct Open<V: Vendor> {
    pub(crate) builtin: Builtin<V>,
    /// kernels/network.cu, loaded when a network first wants it.
    pub(crate) network: OnceLock<Builds<V>>,
    /// kernels/hopper.cu, likewise; `None`: it isn't to be used, the device has none, or its driver
    /// refused it.
    pub(crate) groups: OnceLock<Option<Builds<V>>>,
    /// kernels/tensor.cu, likewise.
    pub(crate) tensor: OnceLock<Builds<V>>,
    /// kernels/quantized.cu, likewise.
    pub(crate) quantized: OnceLock<Builds<V>>,
    pub(crate) writer: Writer<V>,
    /// Control stream of all preemptors.
    pub(crate) control: ControlStream<V>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) options: Options,
    /// Plans of convolutions that were measured.
    pub(crate) chosen: TunedPlans,
    /// The preemptor of queues that are never stopped.
    pub(crate) never: Preemptor<V>,
    /// See [`Gpu::unstopped`].
    pub(crate) unstopped: [Arc<()>; 2],
    pub(crate) context: Arc<Context<V>>,
}

impl<V: Vendor> Gpu<V> {
    /// The vendor's part of the device.
    pub fn vendor(&self) -> &V {
        &self.0.context.vendor
    }

    pub(crate) fn context(&self) -> &Arc<Context<V>> {
        &self.0.context
    }

    pub(crate) fn facts(&self) -> &Facts {
        self.0.context.vendor.facts()
    }

    pub(crate) fn builtin(&self) -> &Builtin<V> {
        &self.0.builtin
    }

    /// Kernels of networks for images.
    pub(crate) fn network(&self) -> Result<&Builds<V>> {
        self.shipped(&self.0.network, "network")
    }

    /// Kernels on warpgroups, if they may be used and this device and its driver
    /// run them: asked once.
    pub(crate) fn groups(&self) -> Option<&Builds<V>> {
        let load = || Builds::usable(self.context(), GROUPS, FIRST_OF_GROUPS).ok();
        self.0.groups.get_or_init(|| self.options().warpgroups.then(load).flatten()).as_ref()
    }

    /// Kernels on warpgroups where they were found before.
    ///
    /// # Errors
    ///
    /// `NotFound` if there are none.
    pub(crate) fn found_groups(&self) -> Result<&Builds<V>> {
        self.groups()
            .ok_or_else(|| Error::NotFound(format!("{}: no kernels of warpgroups", V::NAME)))
    }

    /// Kernels of operations on ordinary tensors.
    pub(crate) fn tensor(&self) -> Result<&Builds<V>> {
        self.shipped(&self.0.tensor, "tensor")
    }

    /// Kernels of networks for images whose tensors have numbers of 8 bits.
    pub(crate) fn quantized(&self) -> Result<&Builds<V>> {
        self.shipped(&self.0.quantized, "quantized")
    }

    fn shipped<'a>(&self, place: &'a OnceLock<Builds<V>>, name: &str) -> Result<&'a Builds<V>> {
        if let Some(loaded) = place.get() {
            return Ok(loaded);
        }
        let loaded = Builds::shipped(self.context(), name)?;
        Ok(place.get_or_init(|| loaded)) // of two that load at once one is kept
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Precision of networks on this device.
    pub fn precision(&self) -> Precision {
        let own = if self.facts().tensor_cores { Precision::Tf32 } else { Precision::Fp32 };
        self.0.options.precision.unwrap_or(own)
    }

    /// Start of launch number `at` of those that run one after the other.
    pub(crate) fn start_of(&self, at: usize) -> Start {
        let early = at > 0 && self.facts().starts_early;
        if early { Start::Early } else { Start::InTurn }
    }

    /// Plans of convolutions, if they are to be measured.
    pub(crate) fn tuned(&self) -> Option<&TunedPlans> {
        self.0.options.tune.then_some(&self.0.chosen)
    }

    /// Timeout of work of this class.
    pub(crate) fn timeout(&self, class: Priority) -> Timeout {
        Timeout::new(self.options().timeout.filter(|_| class == Priority::BestEffort))
    }

    /// Returns whether real-time kernels are launched with best-effort blocks next to them.
    pub(crate) fn pads(&self) -> bool {
        self.options().colocation == Some(ColocationMode::Padded)
    }

    pub(crate) fn writer(&self) -> Writer<V> {
        self.0.writer
    }

    /// Stream in which words are set past all other work.
    pub(crate) fn control(&self) -> &ControlStream<V> {
        &self.0.control
    }

    /// Blocks of a best-effort queue that run at a time next to real-time work: those of
    /// `colocated_blocks`, or by their length. Short ones run as they are: a ResNet-152 keeps 52 %
    /// next to a closed loop at 1.08 times its p99. With 66 blocks it keeps 31 % at 1.10 (H200,
    /// docs/lab/nvidia.md).
    pub(crate) fn caps(&self) -> Caps {
        let (options, every_second) = (self.options(), self.facts().be_units / 2);
        match options.colocated_blocks {
            Some(blocks) => Caps::all(blocks),
            // Without graphs each launch waits for the one before on the host: not measured.
            None if !self.facts().graphs => Caps::all(every_second),
            None => Caps { short: SHORT_BLOCKS, long: every_second, percent: 100 },
        }
    }

    /// Returns whether graphs can run on a part of the units. They are not told to where an option
    /// says how best-effort blocks run.
    pub(crate) fn has_parts(&self) -> bool {
        let Options { colocated_blocks, split, gates, colocation, .. } = self.options();
        let is_capped = matches!(colocation, None | Some(ColocationMode::Capped));
        self.facts().parts
            && is_capped
            && colocated_blocks.is_none()
            && split.is_none()
            && gates.is_none()
    }

    /// Options that the device was opened with.
    pub(crate) fn options(&self) -> &Options {
        &self.0.options
    }

    /// The preemptor of queues that are never stopped.
    pub(crate) fn never(&self) -> &Preemptor<V> {
        &self.0.never
    }

    /// Stands in graphs for all queues of a class that nothing stops.
    pub(crate) fn unstopped(&self, priority: Priority) -> &Arc<()> {
        &self.0.unstopped[usize::from(priority == Priority::RealTime)]
    }
}
