//! Prediction of the end of a client's next inference, from the earlier ones.
//!
//! A sleeping client takes some 50 µs to wake up. So it is woken that long before the answer, and
//! polls for it then (at most for [`EARLY_WAKE_POLL_TIMEOUT`]). The cost is polling for late
//! answers. Therefore the estimate is a low one, and no client is woken early if answers are much
//! later in the mean.

use crate::local::channel::EARLY_WAKE_POLL_TIMEOUT;
use std::time::Duration;

/// Time by which a client is woken before the answer: about the time of a wake.
const WAKE_TIME: Duration = Duration::from_micros(60);

/// Maximum duration of inferences for early wakes; longer ones gain nothing noticeable.
const MAX_INFERENCE: Duration = Duration::from_millis(20);

/// Prediction for the next inference.
#[derive(Debug, Default)]
pub(super) struct EndPrediction {
    /// Duration of the faster inferences; 0 before the first one.
    time: Duration,
    /// Mean of the delay beyond that, over the last few.
    late: Duration,
}

impl EndPrediction {
    /// Records the duration of an inference.
    pub(super) fn note(&mut self, duration: Duration) {
        if self.time.is_zero() {
            self.time = duration;
        }
        let late = duration.saturating_sub(self.time);
        self.late = (self.late * 7 + late) / 8;
        self.time =
            if duration < self.time { (self.time + duration) / 2 } else { self.time + late / 16 };
    }

    /// Returns the time on the device after which to wake the client; `None` for no early wake.
    pub(super) fn wake_after(&self) -> Option<Duration> {
        if self.time > MAX_INFERENCE || self.late > EARLY_WAKE_POLL_TIMEOUT {
            return None;
        }
        self.time.checked_sub(WAKE_TIME).filter(|after| !after.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: fn(u64) -> Duration = Duration::from_micros;

    fn wake_time(times: impl IntoIterator<Item = u64>) -> Option<Duration> {
        let mut prediction = EndPrediction::default();
        times.into_iter().for_each(|time| prediction.note(US(time)));
        prediction.wake_after()
    }

    #[test]
    fn client_is_woken_early_for_steady_inferences() {
        assert_eq!(wake_time([]), None);
        assert_eq!(wake_time([460; 50]), Some(US(400)));
        assert_eq!(wake_time([50; 50]), None, "it still polls");
        assert_eq!(wake_time([25_000; 50]), None);
    }

    #[test]
    fn prediction_follows_the_faster_inferences() {
        let mixed = wake_time((0..400).map(|n| 460 + n * 37 % 80)).unwrap();
        assert!((US(390)..US(440)).contains(&mixed), "{mixed:?}");
    }

    #[test]
    fn client_is_not_woken_early_for_varying_inferences() {
        assert_eq!(wake_time((0..400).map(|n| 460 + n % 2 * 3_000)), None);
        let again = wake_time((0..400).map(|n| 460 + n % 2 * 3_000).chain([460; 100]));
        assert_eq!(again, Some(US(400)), "the prediction recovers");
    }
}
