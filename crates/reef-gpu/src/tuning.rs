//! Plans of convolutions that were measured, and the observer that hears how far measuring is.

use parking_lot::Mutex;
use reef_core::Result;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Index of the tile, and splits.
pub(crate) type Choice = (u8, u8);

/// Plans that were chosen since the device was opened, by the convolution's shape.
#[derive(Debug, Default)]
pub(crate) struct TunedPlans(Mutex<BTreeMap<String, Choice>>);

impl TunedPlans {
    /// The plan chosen for `shape`, or the one that `measure` finds now; only one thread measures
    /// at a time.
    pub(crate) fn get_or_measure(
        &self,
        shape: &str,
        measure: impl FnOnce() -> Result<Choice>,
    ) -> Result<Choice> {
        let mut plans = self.0.lock();
        if let Some(&choice) = plans.get(shape) {
            return Ok(choice);
        }
        let choice = measure()?;
        plans.insert(shape.into(), choice);
        Ok(choice)
    }
}

/// Progress of measuring one convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuning<'a> {
    /// The convolution: window, channels and image.
    pub shape: &'a str,
    /// Plans that have been measured; in the end `plans`.
    pub done: usize,
    /// Plans that there are.
    pub plans: usize,
}

/// Callback that observes tuning.
type Observer = Box<dyn Fn(&Tuning<'_>) + Send + Sync>;

static OBSERVER: OnceLock<Observer> = OnceLock::new();

/// Calls `observer` before each plan that any device of this process measures, and after the last
/// one of a convolution. Only the first observer is taken; returns whether it was this one.
///
/// It is called by the thread that prepares a network, in the middle of that: it must not use the
/// device.
pub fn observe_tuning(observer: impl Fn(&Tuning<'_>) + Send + Sync + 'static) -> bool {
    OBSERVER.set(Box::new(observer)).is_ok()
}

/// Tells the observer, if there is one.
pub(crate) fn tell(tuning: Tuning<'_>) {
    if let Some(observer) = OBSERVER.get() {
        observer(&tuning);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    static HEARD: AtomicUsize = AtomicUsize::new(0);

    #[test]
    fn the_first_observer_hears_of_it() {
        let word = Tuning { shape: "a shape of this test", done: 3, plans: 4 };
        tell(word); // there is no observer yet
        let is_ours = move |tuning: &Tuning<'_>| *tuning == word;
        assert!(observe_tuning(move |tuning| {
            HEARD.fetch_add(usize::from(is_ours(tuning)), Ordering::Relaxed);
        }));
        assert!(!observe_tuning(|_| unreachable!("it came second")));
        tell(word);
        assert_eq!(HEARD.load(Ordering::Relaxed), 1);
    }
}
