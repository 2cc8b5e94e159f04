//! Windows: the times at which a held guest passes, by its part of the time.

use crate::limit::quantity::WHOLE;

/// Time that a device needs to change from one program to another without MPS, in nanoseconds. A
/// window costs two of them, at least 0.3 ms (H200, 2026-11-27: docs/lab/nvidia.md). It is taken
/// for all devices: no other one was measured.
pub(crate) const CHANGE: u64 = 150_000;
/// Shortest window without MPS next to a program with a target, in nanoseconds: its two changes are
/// at most a fifth of it.
const MIN_LONG_WINDOW: i64 = 10 * CHANGE as i64;
/// Most that is earned and not spent there, in nanoseconds: one iteration may last for minutes.
const MAX_LONG_CREDIT: i64 = 10_000_000_000;
/// Shortest window, in nanoseconds: about the length of a few kernels, and more than a thread's
/// wake-up from polling. Smaller parts of the time have fewer windows.
const MIN_WINDOW: i64 = 50_000;

/// State of a guest's gate until the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// True if the guest passes.
    pub is_open: bool,
    /// Time of the next step, in nanoseconds, if nothing else happens before.
    pub until: u64,
}

/// Times at which windows may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// At multiples of the period.
    Grid,
    /// When an iteration of the holder ends: the programs take turns, and a window costs two
    /// changes. A window is what was earned in the iteration, or else as short as may be, so that
    /// iterations become longer by the same time.
    AfterIterations {
        /// One has ended since the last step of a busy holder.
        has_ended: bool,
    },
}

/// Windows of one guest next to one holder.
///
/// The guest earns its part of the time, and spends the time for which its gate is open, whatever
/// the reason. While the holder is busy, a window begins at a multiple of the period, and the
/// credit decides its length. So a late step is made up by the next windows, a holder
/// that is idle for a moment takes no more than that from the guest, and the windows of several
/// holders begin at the same times.
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    /// Length of a period, in nanoseconds.
    period: u64,
    /// Earned and not spent, in nanoseconds: at most a period, at least minus a period. After
    /// iterations at most [`MAX_LONG_CREDIT`].
    credit: i64,
    /// Earned since an iteration ended.
    earned: i64,
    /// Time of the last step.
    at: u64,
    /// True if the gate has been open since the last step.
    is_open: bool,
    /// True if that is because of a window.
    is_window: bool,
    /// Period in which the last window began.
    last: u64,
    /// Its end.
    end: u64,
}

impl Windows {
    /// Creates windows with a period in nanoseconds, at least 100 µs, from this time on.
    pub fn new(period: u64, now: u64) -> Self {
        let period = period.max(2 * MIN_WINDOW as u64);
        Self {
            period,
            credit: 0,
            earned: 0,
            at: now,
            is_open: true,
            is_window: false,
            last: now / period,
            end: 0,
        }
    }

    /// Returns whether the guest passes since the last step.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Makes a step at this time: the holder is busy or not, and the guest has `duty` parts per
    /// million of the time.
    pub fn step(&mut self, now: u64, duty: u32, is_busy: bool) -> Step {
        self.step_placed(now, duty, is_busy, Placement::Grid)
    }

    /// Makes a step, with windows at such times.
    pub(crate) fn step_placed(
        &mut self,
        now: u64,
        duty: u32,
        is_busy: bool,
        placement: Placement,
    ) -> Step {
        let now = now.max(self.at);
        self.earn(now, duty, placement);
        let (is_window, until) = match duty.min(WHOLE) {
            _ if !is_busy => (false, u64::MAX),
            0 => (false, u64::MAX),
            WHOLE => (true, u64::MAX),
            duty => match placement {
                Placement::Grid => self.window(now, duty),
                Placement::AfterIterations { has_ended } => self.long_window(now, has_ended),
            },
        };
        self.is_window = is_window;
        self.is_open = is_window || !is_busy;
        Step { is_open: self.is_open, until }
    }

    /// Adds what was earned since the last step and takes what was spent. Idle time of the holder
    /// costs one window at most.
    fn earn(&mut self, now: u64, duty: u32, placement: Placement) {
        let passed = i64::try_from(now - self.at).unwrap_or(i64::MAX).min(1 << 40);
        let earned = passed * i64::from(duty.min(WHOLE)) / i64::from(WHOLE);
        let spent = if self.is_open { passed } else { 0 };
        let period = self.period as i64;
        let most = if placement == Placement::Grid { period } else { MAX_LONG_CREDIT };
        let usual = period * i64::from(duty.min(WHOLE)) / i64::from(WHOLE);
        let spare = usual * i64::from(duty.min(WHOLE)) / i64::from(WHOLE);
        let is_idle = self.is_open && !self.is_window;
        let least = if is_idle { self.credit.min(-spare) } else { -most };
        self.credit = (self.credit + earned - spent).clamp(least, most);
        self.earned = (self.earned + earned).min(MAX_LONG_CREDIT);
        self.at = now;
    }

    /// Returns whether a window is open, and until when nothing changes.
    fn window(&mut self, now: u64, duty: u32) -> (bool, u64) {
        let (begin, every) = (now / self.period, self.every(duty));
        if now < self.end {
            return (true, self.end);
        }
        let length = self.length(duty, every);
        if begin.is_multiple_of(every) && begin != self.last && length >= MIN_WINDOW / 2 {
            self.last = begin;
            self.end = now.saturating_add(length.unsigned_abs());
            return (true, self.end);
        }
        (false, (begin / every + 1).saturating_mul(every).saturating_mul(self.period))
    }

    /// Returns the same for windows after iterations.
    fn long_window(&mut self, now: u64, has_ended: bool) -> (bool, u64) {
        let usual = if has_ended { std::mem::take(&mut self.earned) } else { 0 };
        if now < self.end {
            return (true, self.end);
        }
        if !has_ended || self.credit < MIN_LONG_WINDOW {
            return (false, u64::MAX);
        }
        let length = self.credit.min(usual.max(MIN_LONG_WINDOW));
        self.end = now.saturating_add(length.unsigned_abs());
        (true, self.end)
    }

    /// Returns the length of a window that begins now: the usual one, plus what the credit is more
    /// than it usually is then. So what one window was too long or too short, the next one makes
    /// up.
    fn length(&self, duty: u32, every: u64) -> i64 {
        let time = i128::from(self.period) * i128::from(every);
        let (whole, duty) = (i128::from(WHOLE), i128::from(duty));
        let usual = time * duty / whole;
        let usual_credit = usual * (whole - duty) / whole;
        let length = usual + i128::from(self.credit) - usual_credit.min(self.period.into());
        i64::try_from(length.clamp(0, time)).unwrap_or(i64::MAX)
    }

    /// Returns the number of periods from one window to the next: a power of two, so that windows
    /// of different parts begin together.
    fn every(&self, duty: u32) -> u64 {
        let length = (self.period * u64::from(duty) / u64::from(WHOLE)).max(1);
        (MIN_WINDOW as u64).div_ceil(length).next_power_of_two()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PERIOD: u64 = 1_000_000;

    /// Steps for `time`, each late by a pseudo-random time of up to `late`, and returns the open
    /// time and the longest window. `busy` says whether the holder is busy.
    fn run(duty: u32, time: u64, late: u64, mut busy: impl FnMut(u64) -> bool) -> (u64, u64) {
        let most = if late == 0 { PERIOD / 500 } else { PERIOD };
        let (mut windows, mut now, mut seed) = (Windows::new(PERIOD, 0), 0, 7_u64);
        let (mut open, mut longest, mut this) = (0, 0, 0);
        while now < time {
            let is_busy = busy(now);
            let step = windows.step(now, duty, is_busy);
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
            let until = step.until.min(now + most);
            let next = until + if late > 0 { (seed >> 33) % late } else { 0 };
            let passed = next.max(now + 1) - now;
            if step.is_open {
                open += passed;
                this += passed;
                longest = longest.max(this);
            } else {
                this = 0;
            }
            now += passed;
        }
        (open, longest)
    }

    /// Begins and ends of windows next to iterations of this length, with a step in each quarter of
    /// a millisecond and whenever one is due.
    fn long_windows(duty: u32, iteration: u64, time: u64) -> Vec<(u64, u64)> {
        let (mut windows, mut now, mut all) = (Windows::new(PERIOD, 0), 0, Vec::new());
        let (mut next, mut was_open) = (iteration, false);
        while now < time {
            let has_ended = now >= next;
            next += if has_ended { iteration } else { 0 };
            let step =
                windows.step_placed(now, duty, true, Placement::AfterIterations { has_ended });
            match all.last_mut() {
                Some((_, end)) if was_open => *end = now,
                _ if step.is_open => all.push((now, now)),
                _ => {}
            }
            was_open = step.is_open;
            now = step.until.min(next).min(now + PERIOD / 4);
        }
        all
    }

    #[test]
    fn nothing_passes_without_a_part_and_all_with_the_whole() {
        let mut none = Windows::new(PERIOD, 5);
        for now in [5, 1_000_000, 1_000_001, 90_000_000] {
            assert_eq!(none.step(now, 0, true), Step { is_open: false, until: u64::MAX });
        }
        assert!(none.step(90_000_001, 0, false).is_open);
        assert!(Windows::new(PERIOD, 5).step(7, WHOLE, true).is_open);
    }

    #[test]
    fn first_poll_of_a_busy_holder_closes_the_gate() {
        let mut windows = Windows::new(PERIOD, 0);
        windows.step(0, 300_000, false);
        let step = windows.step(7_300_000, 300_000, true);
        assert!(!step.is_open, "a request has just begun");
        assert_eq!(step.until, 8_000_000);
    }

    proptest! {
        /// It fails if a late step isn't charged.
        #[test]
        fn open_time_is_the_part_however_late_steps_are(
            duty in 10_000..950_000_u32, late in 1..400_000_u64
        ) {
            let time = 400 * PERIOD;
            let (open, longest) = run(duty, time, late, |_| true);
            let part = open as f64 / time as f64;
            let wanted = f64::from(duty) / 1e6;
            prop_assert!((part - wanted).abs() < 0.01, "{part} instead of {wanted}");
            if duty < 500_000 {
                prop_assert!(longest <= 2 * PERIOD + late, "a window of {longest}");
            }
        }

        /// A holder that is idle for an instant at the time of each window takes nothing.
        #[test]
        fn floor_holds_next_to_a_holder_that_dodges_windows(
            duty in 50_000..500_000_u32, idle in 1..6_000_u64, phase in 0..PERIOD
        ) {
            let time = 100 * PERIOD;
            let (open, _) = run(duty, time, 0, |now| (now + phase) % PERIOD >= idle);
            let part = open as f64 / time as f64;
            prop_assert!(part >= f64::from(duty) / 1e6 - 0.02, "{part} of {duty}");
        }

        /// However small the part is, and whatever iterations last.
        #[test]
        fn long_windows_begin_as_iterations_end_and_have_their_part(
            duty in 5_000..300_000_u32, iteration in 2_000_000..300_000_000_u64
        ) {
            let time = 400 * iteration;
            let all = long_windows(duty, iteration, time);
            let usual = iteration * u64::from(duty) / 1_000_000;
            for (begin, end) in all.iter().take(all.len().saturating_sub(1)) {
                prop_assert!(begin % iteration == 0, "at {begin}");
                let length = end - begin;
                prop_assert!(length >= MIN_LONG_WINDOW as u64, "{length}");
                prop_assert!(length <= 1_501_000.max(usual + usual / 4), "{length}, not {usual}");
            }
            let open: u64 = all.iter().map(|(begin, end)| end - begin).sum();
            let (part, wanted) = (open as f64 / time as f64, f64::from(duty) / 1e6);
            prop_assert!((part - wanted).abs() < 0.02 * wanted + 2e6 / time as f64,
                         "{part} instead of {wanted}");
        }

        /// Two holders with windows of different parts are open together for the smaller one.
        #[test]
        fn windows_of_two_holders_coincide(one in 50_000..900_000_u32, two in 50_000..900_000_u32) {
            let mut both = [Windows::new(PERIOD, 0), Windows::new(PERIOD, 0)];
            let (mut open, mut now, time) = (0, 0, 300 * PERIOD);
            while now < time {
                let steps = [both[0].step(now, one, true), both[1].step(now, two, true)];
                let next = steps[0].until.min(steps[1].until).max(now + 1);
                if steps.iter().all(|step| step.is_open) { open += next - now; }
                now = next;
            }
            let part = open as f64 / time as f64;
            let wanted = f64::from(one.min(two)) / 1e6;
            prop_assert!((part - wanted).abs() < 0.02, "{part} instead of {wanted}");
        }

        #[test]
        fn any_steps_end_and_move_on(
            steps in proptest::collection::vec((0..u64::MAX / 4, any::<u32>(), any::<bool>()), 1..60)
        ) {
            let mut windows = Windows::new(1, 0);
            let mut now = 0;
            for (at, duty, is_busy) in steps {
                now = at.max(now);
                let step = windows.step(at, duty, is_busy);
                prop_assert!(step.until > now, "{step:?} at {now}");
                prop_assert!(step.is_open || is_busy);
            }
        }
    }
}
