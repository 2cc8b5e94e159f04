//! Real-time and best-effort classes, and their encoding in the standard protocol's `priority`.

use crate::error::Result;
pub use reef::{Class, Rate};
use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

/// Parses a class from its name in text.
///
/// # Errors
///
/// `Invalid`.
pub(crate) fn parse(text: &str) -> Result<Class> {
    Ok(text.parse::<Class>()?)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Class, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse(&text).map_err(D::Error::custom)
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
pub(crate) fn serialize<S: Serializer>(class: &Class, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(class.name())
}

/// Precedence of a request: the smaller goes first, 1 is real-time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Priority(u64);

impl Priority {
    /// Default of best-effort requests.
    pub(crate) const BEST_EFFORT: Self = Self(2);

    /// Converts the request's parameter; 0 selects the default of the connection or configuration.
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
    fn priority_1_is_real_time_and_0_is_default() {
        let class = |n, default| Priority::new(n, default).class();
        for default in Class::ALL {
            assert_eq!(class(0, default), default);
            assert_eq!(class(1, default), Class::RealTime);
            assert_eq!(class(2, default), Class::BestEffort);
            assert_eq!(class(u64::MAX, default), Class::BestEffort);
        }
        assert!(Priority::new(2, Class::RealTime) < Priority::new(3, Class::RealTime));
    }
}
