//! Real-time or best-effort, and how the standard protocol's `priority` says which.

use crate::error::{Error, Result};
use serde::Deserialize;
use std::fmt;
use std::str::FromStr;

/// How a request is scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
pub enum Class {
    /// Starts within microseconds, before any best-effort work.
    #[serde(rename = "rt")]
    RealTime,
    /// Takes what real-time work leaves.
    #[serde(rename = "be")]
    BestEffort,
}

impl Class {
    /// Both, in the order in which they are served.
    pub const EACH: [Self; 2] = [Self::RealTime, Self::BestEffort];

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
        let class = Self::EACH.into_iter().find(|class| class.name() == text);
        class.ok_or_else(|| Error::Invalid(format!("class {text:?} (have: rt, be)")))
    }
}

/// A request's place among others: the smaller goes first, 1 is real-time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Priority(u64);

impl Priority {
    /// From the request's parameter; 0 is what the connection or the configuration says.
    pub(crate) fn new(parameter: u64, default: Class) -> Self {
        match (parameter, default) {
            (0, Class::RealTime) => Self(1),
            (0, Class::BestEffort) => Self(2),
            (n, _) => Self(n),
        }
    }

    /// 1 is real-time, all others are best-effort.
    pub(crate) fn class(self) -> Class {
        if self.0 == 1 { Class::RealTime } else { Class::BestEffort }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priority_1_is_real_time_and_0_is_the_default() {
        let class = |n, default| Priority::new(n, default).class();
        for default in Class::EACH {
            assert_eq!(class(0, default), default);
            assert_eq!(class(1, default), Class::RealTime);
            assert_eq!(class(2, default), Class::BestEffort);
            assert_eq!(class(u64::MAX, default), Class::BestEffort);
        }
        assert!(Priority::new(2, Class::RealTime) < Priority::new(3, Class::RealTime));
    }

    #[test]
    fn classes_are_read_as_they_are_written() {
        for class in Class::EACH {
            assert_eq!(class.to_string().parse(), Ok(class));
        }
        assert_eq!("RT".parse::<Class>().unwrap_err().to_string(), "class \"RT\" (have: rt, be)");
    }
}
