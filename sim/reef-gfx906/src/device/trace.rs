//! Trace of workgroups: unit and time of each.

use crate::settings::{Outcome, Record};
use std::collections::VecDeque;

/// The last workgroups that were placed, in that order.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    records: VecDeque<Record>,
    /// Number of the oldest record.
    first: u64,
    room: usize,
}

impl Trace {
    pub(crate) fn new(room: u32) -> Self {
        Self { room: room as usize, ..Self::default() }
    }

    /// Notes a workgroup and says what its record's number is.
    pub(crate) fn begin(&mut self, record: Record) -> u64 {
        if self.records.len() >= self.room {
            self.first += u64::from(self.records.pop_front().is_some());
        }
        let number = self.first + self.records.len() as u64;
        if self.room > 0 {
            self.records.push_back(record);
        }
        number
    }

    /// A workgroup has run `steps` more instructions.
    pub(crate) fn ran(&mut self, number: u64, steps: u64) {
        if let Some(record) = self.record(number) {
            record.steps += steps;
        }
    }

    /// A workgroup is gone.
    pub(crate) fn end(&mut self, number: u64, now: u64, outcome: Outcome) {
        if let Some(record) = self.record(number) {
            record.end = now;
            record.outcome = outcome;
        }
    }

    fn record(&mut self, number: u64) -> Option<&mut Record> {
        let index = number.checked_sub(self.first)?;
        self.records.get_mut(index as usize)
    }

    pub(crate) fn records(&self) -> Vec<Record> {
        self.records.iter().copied().collect()
    }

    /// Drops all records; workgroups that still run leave none.
    pub(crate) fn forget(&mut self) {
        self.first += self.records.len() as u64;
        self.records.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(launch: u64) -> Record {
        Record {
            launch,
            kernel: 0,
            start: 0,
            end: 0,
            steps: 0,
            queue: 0,
            priority: 0,
            unit: 0,
            group: [0; 3],
            groups: [1; 3],
            outcome: Outcome::Running,
        }
    }

    #[test]
    fn oldest_records_go_first_and_late_ends_of_them_are_dropped() {
        let mut trace = Trace::new(2);
        let numbers = [1, 2, 3].map(|launch| trace.begin(record(launch)));
        trace.end(numbers[0], 10, Outcome::Ended);
        trace.ran(numbers[2], 5);
        trace.end(numbers[2], 20, Outcome::Ended);
        let kept: Vec<_> = trace.records().iter().map(|r| (r.launch, r.steps, r.end)).collect();
        assert_eq!(kept, [(2, 0, 0), (3, 5, 20)]);
        trace.forget();
        trace.end(numbers[1], 30, Outcome::Killed);
        let next = trace.begin(record(4));
        trace.end(next, 40, Outcome::Ended);
        assert_eq!(trace.records().iter().map(|r| r.end).collect::<Vec<_>>(), [40]);
    }
}
