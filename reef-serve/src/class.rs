//! Real-time or best-effort, and how the standard protocol's `priority` says which.

use crate::error::Result;
pub use reef::{Class, Rate};
use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

/// A class as it is typed.
///
/// # Errors
///
/// `Invalid`.
pub(crate) fn parse(text: &str) -> Result<Class> {
    Ok(text.parse::<Class>()?)
}

/// The same in a configuration.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Class, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse(&text).map_err(D::Error::custom)
}

/// As it is typed.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
pub(crate) fn serialize<S: Serializer>(class: &Class, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(class.name())
}

/// A request's place among others: the smaller goes first, 1 is real-time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Priority(u64);

impl Priority {
    /// Of best-effort requests that say nothing else.
    pub(crate) const BEST_EFFORT: Self = Self(2);

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
}
