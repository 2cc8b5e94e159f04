//! The preemptor: a word in the device's memory that only grows.
//!
//! `live` is the lowest epoch that may run. Each launch carries the epoch in which it was made;
//! evicting writes the next one, which voids all launches made before for ever. Nothing is ever
//! cleared, so nothing has to be waited for. What is launched again carries the new epoch, which
//! each queue takes when it has nothing in flight: a queue that has not been drained when others go
//! on stays in its epoch, void.
//!
//! On a device that was opened with `gates=N`, kernels have no guard that could check the word;
//! there it closes and opens the gates of its queues.

use crate::driver::control_stream::ControlStream;
use crate::driver::handles::cloned;
use crate::driver::signal::DeviceSignal;
use crate::hal::calls::Vendor;
use crate::preempt::gate::Gate;
use crate::preempt::gate_set::GateSet;
use reef_core::{Error, PreemptLevel, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Stops the queues that were opened with it.
#[derive(Debug)]
pub struct Preemptor<V: Vendor>(Arc<State<V>>);

cloned!(Preemptor);

#[derive(Debug)]
struct State<V: Vendor> {
    level: PreemptLevel,
    /// Epoch of launches made from now on. Written by `reactivate`.
    epoch: AtomicU32,
    /// Launches of `epoch` are void, or may be any moment; or gates are closed.
    evicted: AtomicBool,
    /// The device has taken the call that makes them so.
    told: AtomicBool,
    /// Gates of queues whose kernels have no guards; that they are is the device's choice.
    gates: Option<GateSet<V>>,
    /// Carries the word to the device, past everything else.
    control: ControlStream<V>,
    /// Word that blocks check.
    live: DeviceSignal<V>,
}

impl<V: Vendor> Preemptor<V> {
    pub(crate) fn new(
        control: &ControlStream<V>,
        level: PreemptLevel,
        gated: bool,
    ) -> Result<Self> {
        let live = DeviceSignal::new(control)?;
        Ok(Self(Arc::new(State {
            level,
            live,
            epoch: AtomicU32::new(0),
            evicted: AtomicBool::new(false),
            told: AtomicBool::new(false),
            gates: gated.then(|| GateSet::new(control.context())).transpose()?,
            control: control.clone(),
        })))
    }

    /// The address of the lowest epoch that may run.
    pub(crate) fn live(&self) -> u64 {
        self.0.live.address()
    }

    /// The epoch of launches made now.
    pub(crate) fn epoch(&self) -> u32 {
        self.0.epoch.load(Ordering::Acquire)
    }

    /// Returns whether queues have gates instead of guarded kernels.
    pub(crate) fn is_gated(&self) -> bool {
        self.0.gates.is_some()
    }

    /// Closes and opens this gate, too, from now on.
    pub(crate) fn join(&self, gate: &Arc<Gate<V>>) {
        if let Some(gates) = &self.0.gates {
            gates.join(gate);
        }
    }

    /// Returns whether launches of this epoch may be void. If so, the device's reports of their
    /// ends mean nothing.
    ///
    /// Read it after the device's word: the device hears of the eviction later than this does. Read
    /// it before the epoch: a thread that sees that queues were reactivated sees the epoch that
    /// began with it.
    pub(crate) fn is_evicted(&self) -> bool {
        self.0.evicted.load(Ordering::Acquire)
    }

    fn deep_enough(&self, asked: PreemptLevel) -> Result<()> {
        if self.0.level < asked {
            return Err(Error::Level {
                backend: V::NAME,
                what: "preemptor",
                asked,
                have: self.0.level,
            });
        }
        Ok(())
    }

    /// Closes the gates, or makes launches of this epoch void.
    fn stop(&self) -> Result<()> {
        match &self.0.gates {
            Some(gates) => gates.close(),
            None => {
                let next = self.epoch().wrapping_add(1);
                self.0.control.write(self.live(), next)?;
            }
        }
        Ok(())
    }
}

impl<V: Vendor> reef_core::Preemptor for Preemptor<V> {
    fn level(&self) -> PreemptLevel {
        self.0.level
    }

    fn needs_room(&self) -> bool {
        !self.0.control.context().vendor.facts().writes_without_kernels
    }

    /// Gates close by words of the host.
    fn calls_driver(&self) -> bool {
        !self.is_gated()
    }

    /// One write does for both levels: at level All, running blocks check the same word.
    fn evict(&self) -> Result<()> {
        self.deep_enough(PreemptLevel::DeviceQueue)?;
        if self.0.told.swap(true, Ordering::SeqCst) {
            return Ok(()); // it is on its way
        }
        // If the call fails it stays so: queues may have asked for a report meanwhile, which tells
        // of launches that have run as well.
        self.0.evicted.store(true, Ordering::SeqCst);
        self.stop().inspect_err(|_| self.0.told.store(false, Ordering::SeqCst))
    }

    fn reset(&self) -> Result<()> {
        self.deep_enough(PreemptLevel::All)?;
        self.evict()
    }

    fn reactivate(&self) -> Result<()> {
        if self.is_evicted() {
            self.0.epoch.fetch_add(1, Ordering::AcqRel);
            self.0.evicted.store(false, Ordering::SeqCst);
            self.0.told.store(false, Ordering::SeqCst);
            if let Some(gates) = &self.0.gates {
                gates.open();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::gpu::Gpu;
    use crate::hal::fake::{Fake, Put};
    use crate::hal::options::Options;
    use reef_core::{Device, Error, PreemptLevel, Preemptor as _};
    use std::sync::atomic::Ordering;

    fn preemptor(level: PreemptLevel) -> (Gpu<Fake>, super::Preemptor<Fake>) {
        let gpu = Gpu::new(Fake::default(), Options::default()).unwrap();
        let preemptor = gpu.preemptor(level).unwrap();
        gpu.vendor().puts.lock().clear();
        (gpu, preemptor)
    }

    #[test]
    fn eviction_voids_the_epoch_and_later_launches_have_another() {
        let (gpu, preemptor) = preemptor(PreemptLevel::All);
        for epoch in 0..3 {
            assert_eq!((preemptor.epoch(), preemptor.is_evicted()), (epoch, false));
            preemptor.evict().unwrap();
            assert_eq!((preemptor.epoch(), preemptor.is_evicted()), (epoch, true));
            preemptor.reactivate().unwrap();
        }
        let writes: Vec<_> = (1..=3).map(|epoch| Put::Write(preemptor.live(), epoch)).collect();
        assert_eq!(*gpu.vendor().puts.lock(), writes);
    }

    #[test]
    fn evicting_and_reactivating_twice_is_once() {
        let (gpu, preemptor) = preemptor(PreemptLevel::All);
        preemptor.evict().unwrap();
        preemptor.reset().unwrap();
        assert_eq!(gpu.vendor().puts.lock().len(), 1);
        preemptor.reactivate().unwrap();
        preemptor.reactivate().unwrap();
        assert_eq!(preemptor.epoch(), 1);
    }

    #[test]
    fn call_beyond_the_level_is_an_error_and_changes_nothing() {
        let (gpu, shallow) = preemptor(PreemptLevel::DeviceQueue);
        assert!(matches!(shallow.reset(), Err(Error::Level { .. })));
        assert!(!shallow.is_evicted());
        let (_gpu, host) = preemptor(PreemptLevel::HostQueue);
        assert!(matches!(host.evict(), Err(Error::Level { .. })));
        assert_eq!(gpu.vendor().puts.lock().len(), 0);
    }

    #[test]
    fn all_preemptors_of_a_device_share_one_stream() {
        let (gpu, _preemptor) = preemptor(PreemptLevel::All);
        let opened = || gpu.vendor().opened.load(Ordering::Relaxed);
        let before = opened();
        let three = [(); 3].map(|()| gpu.preemptor(PreemptLevel::All).unwrap());
        three.iter().for_each(|preemptor| preemptor.evict().unwrap());
        assert_eq!(opened(), before);
    }

    #[test]
    fn a_word_that_is_used_again_is_set_to_zero_by_the_device() {
        let (gpu, first) = preemptor(PreemptLevel::All);
        first.evict().unwrap();
        let live = first.live();
        drop(first);
        let second = gpu.preemptor(PreemptLevel::All).unwrap();
        assert_eq!(second.live(), live);
        assert_eq!(*gpu.vendor().puts.lock(), [Put::Write(live, 1), Put::Write(live, 0)]);
    }

    #[test]
    fn failed_eviction_is_repeated_and_its_epoch_may_be_void() {
        let (gpu, preemptor) = preemptor(PreemptLevel::All);
        gpu.vendor().refused_writes.store(1, Ordering::SeqCst);
        preemptor.evict().unwrap_err();
        assert!(preemptor.is_evicted() && gpu.vendor().puts.lock().is_empty());
        preemptor.evict().unwrap();
        preemptor.evict().unwrap();
        assert_eq!(*gpu.vendor().puts.lock(), [Put::Write(preemptor.live(), 1)]);
        preemptor.reactivate().unwrap();
        gpu.vendor().refused_writes.store(1, Ordering::SeqCst);
        preemptor.evict().unwrap_err();
        preemptor.reactivate().unwrap();
        assert_eq!(
            (preemptor.epoch(), preemptor.is_evicted()),
            (2, false),
            "it may run: live is 1"
        );
    }

    #[test]
    fn a_stop_that_is_a_kernel_needs_room() {
        let needs = |fake| {
            let gpu = Gpu::new(fake, Options::default()).unwrap();
            gpu.preemptor(PreemptLevel::All).unwrap().needs_room()
        };
        let by_kernels = Fake::with(|facts| facts.writes_without_kernels = false);
        assert_eq!([Fake::default(), by_kernels].map(needs), [false, true]);
    }

    #[test]
    fn on_a_device_with_gates_only_what_can_be_stopped_has_them() {
        let options = Options { gates: Some(4), ..Options::default() };
        let gpu = Gpu::new(Fake::default(), options).unwrap();
        let gated = gpu.preemptor(PreemptLevel::DeviceQueue).unwrap();
        assert!(gated.is_gated() && !gated.calls_driver());
        assert!(!gpu.never().is_gated(), "real-time queues never wait");
        let (_gpu, guarded) = preemptor(PreemptLevel::DeviceQueue);
        assert!(!guarded.is_gated() && guarded.calls_driver(), "kernels have guards");
    }
}
