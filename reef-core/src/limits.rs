//! Limits of clients: the words that clients, daemons, metrics and tools share.
//!
//! A client is real-time, perhaps with a [`Rate`], or best-effort, with a weight
//! ([`ClientConfig`]). The code that makes clients grants these; the dispatcher and its scheduler
//! apply them.

use crate::backend::error::{Error, Result};
use crate::vqueue::config::Config;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Class of scheduled work.
///
/// ```
/// use reef_core::Class;
///
/// assert_eq!("rt".parse(), Ok(Class::RealTime));
/// assert_eq!(Class::BestEffort.to_string(), "be");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Starts at once, before any best-effort work.
    RealTime,
    /// Takes what real-time work leaves.
    BestEffort,
}

impl Class {
    /// Both, in the order in which they are served.
    pub const ALL: [Self; 2] = [Self::RealTime, Self::BestEffort];

    /// As typed and as metrics say: `rt` or `be`.
    pub fn name(self) -> &'static str {
        match self {
            Self::RealTime => "rt",
            Self::BestEffort => "be",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Class {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let class = Self::ALL.into_iter().find(|class| class.name() == text);
        class.ok_or_else(|| Error::invalid("class", format!("must be rt or be, got {text:?}")))
    }
}

/// Share of the device that is a real-time client's own: a budget of device time in each period.
///
/// ```
/// use reef_core::Rate;
/// use std::time::Duration;
///
/// let rate = Rate::new(Duration::from_millis(10), Duration::from_millis(2))?;
/// assert_eq!((rate.share(), rate.to_string().as_str()), (0.2, "2ms in 10ms"));
/// # Ok::<(), reef_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    period: Duration,
    budget: Duration,
}

impl Rate {
    /// `budget` of device time in each `period`.
    ///
    /// # Errors
    ///
    /// `Invalid` if one of them is nothing, the budget is longer than the period, or the period
    /// than an hour.
    pub fn new(period: Duration, budget: Duration) -> Result<Self> {
        const MAX_PERIOD: Duration = Duration::from_secs(3600);
        if budget.is_zero() || budget > period || period > MAX_PERIOD {
            return Err(Error::invalid(
                "rate",
                format!(
                    "must have a budget above 0 and at most the period, and that at most \
                     {MAX_PERIOD:?}, got {budget:?} in {period:?}"
                ),
            ));
        }
        Ok(Self { period, budget })
    }

    /// Returns the time after which the budget is restored.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Returns the device time in each period.
    pub fn budget(&self) -> Duration {
        self.budget
    }

    /// Returns the share of the device, more than 0 and at most 1.
    pub fn share(&self) -> f64 {
        self.budget.as_secs_f64() / self.period.as_secs_f64()
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} in {:?}", self.budget, self.period)
    }
}

/// Configuration that a client wants, or is granted.
///
/// [`Dispatcher::best_effort`](crate::Dispatcher::best_effort) takes one, and ignores its rate. A
/// client of [`Dispatcher::real_time`](crate::Dispatcher::real_time) gets its priority by
/// [`RtClient::priority`](crate::RtClient::priority), and its rate by an account that it
/// [charges](crate::RtClient::charge).
///
/// ```
/// use reef_core::{ClientConfig, Config};
///
/// let config = ClientConfig::default().weight(3).queue(Config::default().window(2));
/// assert_eq!((config.weight, config.queue.window), (3, 2));
/// ```
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ClientConfig {
    /// Sizes of a best-effort client's queue. Its level is ignored: the scheduler sets it.
    pub queue: Config,
    /// A best-effort client's share of device time under
    /// [`FairShare`](crate::scheduler::FairShare), at least 1. Other schedulers ignore it.
    pub weight: u32,
    /// Larger takes precedence under [`FixedPriority`](crate::scheduler::FixedPriority). Other
    /// schedulers ignore it.
    pub priority: i32,
    /// Share of the device that is a real-time client's own; `None`: nothing, it shares what is
    /// left. Used by [`RtShare`](crate::scheduler::RtShare).
    pub rate: Option<Rate>,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self { queue: Config::default(), weight: 1, priority: 0, rate: None }
    }
}

impl ClientConfig {
    /// With these sizes of its queue.
    #[must_use]
    pub fn queue(self, queue: Config) -> Self {
        Self { queue, ..self }
    }

    /// With this share of device time.
    #[must_use]
    pub fn weight(self, weight: u32) -> Self {
        Self { weight, ..self }
    }

    /// With this priority.
    #[must_use]
    pub fn priority(self, priority: i32) -> Self {
        Self { priority, ..self }
    }

    /// With this budget of device time.
    #[must_use]
    pub fn rate(self, rate: impl Into<Option<Rate>>) -> Self {
        Self { rate: rate.into(), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_read_as_they_are_written() {
        for class in Class::ALL {
            assert_eq!(class.to_string().parse(), Ok(class));
        }
        assert_eq!(
            "RT".parse::<Class>(),
            Err(Error::invalid("class", "must be rt or be, got \"RT\""))
        );
    }

    #[test]
    fn budget_must_fit_its_period() {
        let ms = Duration::from_millis;
        let rate = Rate::new(ms(10), ms(2)).unwrap();
        assert_eq!((rate.share(), rate.to_string()), (0.2, "2ms in 10ms".into()));
        for (period, budget) in [(0, 0), (10, 0), (10, 11), (3_600_001, 1)] {
            assert!(Rate::new(ms(period), ms(budget)).is_err(), "{budget} in {period}");
        }
    }
}
