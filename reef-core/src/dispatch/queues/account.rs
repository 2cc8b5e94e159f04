//! Accounts: device time that real-time clients have used, and their budgets.
//!
//! A period begins with the first task that is charged after the budget is whole again. What a task
//! takes beyond the budget is taken from the periods that follow: the average stays within the
//! [`Rate`].

use crate::limits::Rate;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The next account's name.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Account that real-time tasks are charged to: one for each tenant, for any number of clients and
/// threads.
///
/// Clones are the same account.
///
/// ```
/// use reef_core::scheduler::Reef;
/// use reef_core::{Account, Cells, Device, Dispatcher, Rate, Task};
/// use reef_cpu::Cpu;
/// use std::time::Duration;
///
/// let device = Cpu::open(0, "units=1")?;
/// let dispatcher = Dispatcher::start(&device, Reef::default())?;
/// let rate = Rate::new(Duration::from_millis(10), Duration::from_millis(2))?;
/// let (tenant, mut client) = (Account::new(Some(rate)), dispatcher.real_time()?);
/// client.charge(&tenant);
/// client.run(&Task::new([Cells::new(&device, 4)?.append(7, 0)])?)?;
/// assert_eq!(tenant.usage().tasks, 1);
/// # Ok::<(), reef_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Account(Arc<State>);

/// Times in nanoseconds on the device's clock. Written by passes, of which there is one at a time;
/// read at any time, when the numbers may be of two passes.
#[derive(Debug)]
struct State {
    id: u64,
    rate: Option<Rate>,
    served: AtomicU64,
    tasks: AtomicU64,
    late: AtomicU64,
    /// Beginning of the period in which `used` was used.
    began: AtomicU64,
    used: AtomicU64,
}

/// Use of a device by an [`Account`].
///
/// ```
/// use reef_core::{Account, Usage};
///
/// assert_eq!(Account::new(None).usage(), Usage::default());
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Time in which its tasks were on the device.
    pub served: Duration,
    /// Its tasks that have ended there.
    pub tasks: u64,
    /// Tasks among them that started when its budget was used up. 0 for an account without a
    /// [`Rate`].
    pub late: u64,
}

impl Account {
    /// Makes an account that has used nothing. It belongs to one device, whose clock its periods go
    /// by.
    pub fn new(rate: Option<Rate>) -> Self {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let number = || AtomicU64::new(0);
        Self(Arc::new(State {
            id,
            rate,
            served: number(),
            tasks: number(),
            late: number(),
            began: number(),
            used: number(),
        }))
    }

    /// Returns its name, which is never used again.
    pub(crate) fn id(&self) -> u64 {
        self.0.id
    }

    /// Returns the rate that was granted to it.
    pub fn rate(&self) -> Option<Rate> {
        self.0.rate
    }

    /// Returns its use so far.
    pub fn usage(&self) -> Usage {
        Usage {
            served: self.served(),
            tasks: self.0.tasks.load(Ordering::Relaxed),
            late: self.0.late.load(Ordering::Relaxed),
        }
    }

    /// Returns whether it has a budget and some of it is left at `now`, on the device's clock.
    pub fn is_in_budget(&self, now: Duration) -> bool {
        self.0.rate.is_some_and(|rate| self.used(rate, now) < nanos(rate.budget()))
    }

    pub(crate) fn served(&self) -> Duration {
        Duration::from_nanos(self.0.served.load(Ordering::Relaxed))
    }

    /// Records a task that was on the device from `start` to `end`.
    pub(crate) fn charge(&self, start: Duration, end: Duration) {
        let time = nanos(end.saturating_sub(start));
        self.0.served.fetch_add(time, Ordering::Relaxed);
        self.0.tasks.fetch_add(1, Ordering::Relaxed);
        let Some(rate) = self.0.rate else { return };
        let late = !self.is_in_budget(start);
        self.0.late.fetch_add(u64::from(late), Ordering::Relaxed);
        let used = self.used(rate, start);
        let began = if used == 0 { nanos(start) } else { self.begin(rate, start) };
        self.0.began.store(began, Ordering::Relaxed);
        self.0.used.store(used.saturating_add(time), Ordering::Relaxed);
    }

    /// Budget that is used up at `now`: that of the period, and what older ones lack.
    fn used(&self, rate: Rate, now: Duration) -> u64 {
        let back = self.periods(rate, now).saturating_mul(nanos(rate.budget()));
        self.0.used.load(Ordering::Relaxed).saturating_sub(back)
    }

    /// Returns the beginning of the period that `now` is in.
    fn begin(&self, rate: Rate, now: Duration) -> u64 {
        let past = self.periods(rate, now).saturating_mul(nanos(rate.period()));
        self.0.began.load(Ordering::Relaxed).saturating_add(past)
    }

    /// Whole periods since the one that is noted.
    fn periods(&self, rate: Rate, now: Duration) -> u64 {
        nanos(now).saturating_sub(self.0.began.load(Ordering::Relaxed)) / nanos(rate.period())
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn account(budget: u64, period: u64) -> Account {
        Account::new(Some(Rate::new(ms(period), ms(budget)).unwrap()))
    }

    #[test]
    fn budget_is_restored_in_each_period() {
        let account = account(2, 10);
        assert!(account.is_in_budget(ms(100)), "before anything ran");
        account.charge(ms(100), ms(101));
        assert!(account.is_in_budget(ms(101)));
        account.charge(ms(101), ms(102));
        for (now, has) in [(102, false), (109, false), (110, true)] {
            assert_eq!(account.is_in_budget(ms(now)), has, "at {now}");
        }
        account.charge(ms(115), ms(117));
        assert!(
            !account.is_in_budget(ms(124)) && account.is_in_budget(ms(125)),
            "from its first task on"
        );
        assert_eq!(account.usage(), Usage { served: ms(4), tasks: 3, late: 0 });
    }

    #[test]
    fn overrun_is_taken_from_later_periods() {
        let account = account(2, 10);
        account.charge(ms(0), ms(5)); // two and a half budgets
        for (now, has) in [(5, false), (10, false), (19, false), (20, true)] {
            assert_eq!(account.is_in_budget(ms(now)), has, "at {now}");
        }
        account.charge(ms(12), ms(13));
        assert_eq!(account.usage().late, 1);
        assert!(!account.is_in_budget(ms(20)) && account.is_in_budget(ms(30)));
    }

    #[test]
    fn account_without_a_rate_has_no_budget() {
        let account = Account::new(None);
        account.charge(ms(0), ms(5));
        assert!(!account.is_in_budget(ms(5)));
        assert_eq!(account.usage(), Usage { served: ms(5), tasks: 1, late: 0 });
    }
}
