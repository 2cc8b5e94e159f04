//! Memory that is given back, which changes not too often, and not for ever by an old answer.

use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// Bytes by the names of devices.
pub(in crate::dra) type SpareMemory = BTreeMap<String, u64>;

/// Memory that is given back, by the daemon's answers.
#[derive(Debug)]
pub(super) struct PacedMemory {
    /// Shortest time between two changes.
    interval: Duration,
    /// Longest time for which an answer holds.
    silence: Duration,
    /// The last answer, and its time.
    answer: Option<(SpareMemory, Instant)>,
    now: SpareMemory,
    changed: Option<Instant>,
}

impl PacedMemory {
    pub(super) fn new(interval: Duration, silence: Duration) -> Self {
        Self { interval, silence, answer: None, now: SpareMemory::new(), changed: None }
    }

    pub(super) fn now(&self) -> &SpareMemory {
        &self.now
    }

    /// Takes an answer, or notes that there was none. Returns whether there is a change.
    pub(super) fn update(&mut self, found: Option<SpareMemory>, at: Instant) -> bool {
        if let Some(found) = found {
            self.answer = Some((found, at));
        }
        self.answer.take_if(|(_, of)| at.duration_since(*of) >= self.silence);
        let is_early = self.changed.is_some_and(|of| at.duration_since(of) < self.interval);
        let wanted = self.answer.as_ref().map(|(bytes, _)| bytes.clone()).unwrap_or_default();
        if is_early || wanted == self.now {
            return false;
        }
        (self.now, self.changed) = (wanted, Some(at));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(of: u64) -> Option<SpareMemory> {
        Some(SpareMemory::from([("gpu".to_owned(), of)]))
    }

    #[test]
    fn storm_of_suspensions_is_one_change_in_an_interval() {
        let mut paced = PacedMemory::new(Duration::from_secs(10), Duration::from_secs(30));
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let changes: Vec<_> = (0..60).filter(|it| paced.update(bytes(100 - it), at(*it))).collect();
        assert_eq!(changes, [0, 10, 20, 30, 40, 50]);
        assert_eq!(paced.now()["gpu"], 50);
        assert!(paced.update(bytes(41), at(60)), "the last answer is not lost");
        assert!(!paced.update(bytes(41), at(80)), "it says the same again");
    }

    #[test]
    fn answer_of_a_silent_daemon_holds_for_a_time() {
        let mut paced = PacedMemory::new(Duration::from_secs(10), Duration::from_secs(30));
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        assert!(paced.update(bytes(7), start));
        assert!(!paced.update(None, at(29)));
        assert_eq!(paced.now()["gpu"], 7);
        assert!(paced.update(None, at(30)));
        assert!(paced.now().is_empty());
        assert!(!paced.update(bytes(7), at(35)), "too early");
        assert!(paced.update(None, at(40)), "an answer that is ten seconds old holds");
        assert_eq!(paced.now()["gpu"], 7);
    }
}
