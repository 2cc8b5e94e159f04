//! Weighted fair share of device time.

use crate::scheduler::policy::{Plan, QueueView, Scheduler, View};
use std::collections::BTreeMap;
use std::time::Duration;

/// Shortest quantum: with less, a thread of the dispatcher would make passes all the time.
const MIN_QUANTUM: Duration = Duration::from_micros(100);

/// The ready best-effort queue that has had the least device time for its weight runs, for a
/// quantum.
///
/// Each queue has a virtual time that grows by device time / weight. One that comes, or comes back
/// from being idle, starts at the least virtual time of the ready ones. It neither makes up for
/// time in which it wanted nothing nor waits for the others to catch up. Real-time work preempts
/// all.
///
/// ```
/// use reef_core::{ClientConfig, Device, Dispatcher, scheduler::FairShare};
/// use reef_cpu::Cpu;
///
/// let dispatcher = Dispatcher::start(&Cpu::open(0, "units=1")?, FairShare::default())?;
/// let large = dispatcher.best_effort(ClientConfig::default().weight(3))?; // three quarters
/// let small = dispatcher.best_effort(ClientConfig::default().weight(1))?;
/// # Ok::<(), reef_core::Error>(())
/// ```
#[derive(Debug)]
pub struct FairShare {
    quantum: Duration,
    accounts: BTreeMap<u64, Account>,
    /// The queue that runs and when its quantum ends.
    running: Option<(u64, Duration)>,
}

#[derive(Debug, Clone, Copy)]
struct Account {
    virtual_time: Duration,
    /// [`QueueView::served`] up to which `virtual_time` counts.
    served: Duration,
    ready: bool,
}

impl Default for FairShare {
    fn default() -> Self {
        Self::quantum(Duration::from_millis(5))
    }
}

impl FairShare {
    /// Lets a queue run for `quantum`, but 100 µs at least, before another gets its turn.
    pub fn quantum(quantum: Duration) -> Self {
        let quantum = quantum.max(MIN_QUANTUM);
        Self { quantum, accounts: BTreeMap::new(), running: None }
    }

    /// Records the device time that queues have had, and forgets those that left.
    fn book(&mut self, view: &View<'_>) {
        self.accounts.retain(|id, _| view.queues.iter().any(|q| q.id == *id));
        for q in view.queues {
            if let Some(account) = self.accounts.get_mut(&q.id) {
                let weight = q.weight.max(1);
                let passed = q.served.saturating_sub(account.served) / weight;
                account.virtual_time += passed;
                account.served += passed * weight; // less than a nanosecond counts the next time
            }
        }
        let least = self.accounts.values().filter(|a| a.ready).map(|a| a.virtual_time).min();
        let least = least.unwrap_or_else(|| self.max_virtual_time());
        for q in view.queues {
            let fresh = Account { virtual_time: least, served: q.served, ready: false };
            let account = self.accounts.entry(q.id).or_insert(fresh);
            if q.is_ready() && !account.ready {
                account.virtual_time = account.virtual_time.max(least);
            }
            account.ready = q.is_ready();
        }
    }

    /// When no queue is ready, newcomers start level with the one that has had most.
    fn max_virtual_time(&self) -> Duration {
        self.accounts.values().map(|a| a.virtual_time).max().unwrap_or_default()
    }

    fn next(&self, queues: &[QueueView]) -> Option<usize> {
        let ready = queues.iter().enumerate().filter(|(_, q)| q.is_ready());
        ready.min_by_key(|(_, q)| (self.accounts[&q.id].virtual_time, q.id)).map(|(index, _)| index)
    }
}

impl Scheduler for FairShare {
    fn name(&self) -> &'static str {
        "fair-share"
    }

    fn decide(&mut self, now: Duration, view: &View<'_>, plan: &mut Plan) {
        plan.preempt = view.rt() > 0;
        self.book(view);
        let current = self
            .running
            .filter(|&(_, until)| now < until)
            .and_then(|(id, _)| view.queues.iter().position(|q| q.id == id && q.is_ready()));
        let Some(index) = current.or_else(|| self.next(view.queues)) else {
            self.running = None;
            return;
        };
        if current.is_none() {
            self.running = Some((view.queues[index].id, now.saturating_add(self.quantum)));
        }
        plan.only(index);
        plan.wake = self.running.map(|(_, until)| until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::policy::LaunchLimit;
    use crate::scheduler::policy::tests::{decide, ms, queue, view};
    use proptest::prelude::*;

    /// Runs queues that always want more, one quantum of 1 ms after the other; `arrivals[i]` is
    /// when queue `i` comes. Returns for each the quanta in which it ran.
    fn simulate(weights: &[u32], arrivals: &[u64], quanta: u64) -> Vec<Vec<u64>> {
        let mut fair = FairShare::quantum(ms(1));
        let mut ran = vec![Vec::new(); weights.len()];
        for now in 0..quanta {
            let here: Vec<usize> = (0..weights.len()).filter(|&i| arrivals[i] <= now).collect();
            let queues: Vec<QueueView> = here
                .iter()
                .map(|&i| QueueView {
                    weight: weights[i],
                    served: ms(ran[i].len() as u64),
                    ..queue(i as u64, 0, 1)
                })
                .collect();
            let plan = decide(&mut fair, ms(now), &view(0, 0, &queues));
            if let Some(open) = plan.limits.iter().position(|&limit| limit == LaunchLimit::Open)
                && !queues.is_empty()
            {
                ran[here[open]].push(now);
            }
        }
        ran
    }

    #[test]
    fn time_is_shared_by_weight() {
        let ran = simulate(&[1, 3], &[0, 0], 400);
        assert_eq!([ran[0].len(), ran[1].len()], [100, 300]);
    }

    /// A pass every 20 µs, in which a queue of a large weight has no whole nanosecond.
    #[test]
    fn time_is_shared_by_large_weights_between_short_passes() {
        const PASS: Duration = Duration::from_micros(20);
        let (mut fair, mut served) = (FairShare::quantum(ms(1)), [Duration::ZERO; 2]);
        for pass in 0..30_000 {
            let queues = [(0, 100_000), (1, 50_000)].map(|(id, weight)| QueueView {
                weight,
                served: served[id as usize],
                ..queue(id, 0, 1)
            });
            let plan = decide(&mut fair, PASS * pass, &view(0, 0, &queues));
            let open = plan.limits.iter().position(|&limit| limit == LaunchLimit::Open);
            served[open.expect("one of two is ready")] += PASS;
        }
        let [first, second] = served.map(|time| time.as_millis());
        assert!((398..=402).contains(&first), "{first} and {second} of 600 ms");
    }

    #[test]
    fn quantum_of_zero_leaves_time_between_two_turns() {
        let mut fair = FairShare::quantum(Duration::ZERO);
        let plan = decide(&mut fair, ms(5), &view(0, 0, &[queue(0, 0, 1), queue(1, 0, 1)]));
        assert_eq!(plan.wake, Some(ms(5) + MIN_QUANTUM));
    }

    #[test]
    fn newcomer_shares_equally_with_an_old_queue() {
        let ran = simulate(&[1, 1], &[0, 1000], 1200);
        let late = |i: usize| ran[i].iter().filter(|&&at| at >= 1000).count();
        assert!((99..=101).contains(&late(0)) && (99..=101).contains(&late(1)), "{}", late(0));
    }

    proptest! {
        /// No ready queue waits longer than all others need for one more unit of virtual time.
        #[test]
        fn no_queue_starves(
            weights in prop::collection::vec(1u32..8, 1..9),
            seed in prop::collection::vec(0u64..300, 9),
        ) {
            let ran = simulate(&weights, &seed[..weights.len()], 1500);
            let sum: u64 = weights.iter().map(|&w| u64::from(w)).sum();
            for (i, at) in ran.iter().enumerate() {
                let bound = 2 * sum.div_ceil(u64::from(weights[i])) + 2 * weights.len() as u64;
                let first = at.first().copied().unwrap_or(u64::MAX);
                prop_assert!(first <= seed[i] + bound, "queue {i} first ran at {first}");
                let gap = at.windows(2).map(|w| w[1] - w[0]).max().unwrap_or(0);
                prop_assert!(gap <= bound, "queue {i} waited {gap}, bound {bound}");
            }
        }
    }
}
