//! Target of code: a processor and the settings of its memory, `gfx906:sramecc+:xnack-`.

use std::fmt;

/// A device's target, or a code object's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// `gfx906`.
    pub(crate) processor: String,
    /// `None`: this device has no such setting, or the code runs with either.
    pub(crate) sramecc: Option<bool>,
    /// As above.
    pub(crate) xnack: Option<bool>,
}

impl Target {
    /// Reads a target ID; `None` if it isn't one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let processor = parts.next().filter(|name| name.starts_with("gfx"))?.to_string();
        let mut target = Self { processor, sramecc: None, xnack: None };
        for part in parts {
            match part {
                "sramecc+" => target.sramecc = Some(true),
                "sramecc-" => target.sramecc = Some(false),
                "xnack+" => target.xnack = Some(true),
                "xnack-" => target.xnack = Some(false),
                _ => return None,
            }
        }
        Some(target)
    }

    /// Returns whether code for this target runs on `device`.
    pub(crate) fn runs_on(&self, device: &Self) -> bool {
        let fits = |code: Option<bool>, device| code.is_none() || code == device;
        self.processor == device.processor
            && fits(self.sramecc, device.sramecc)
            && fits(self.xnack, device.xnack)
    }

    /// Number of settings that it insists on.
    pub(crate) fn strictness(&self) -> usize {
        [self.sramecc, self.xnack].iter().flatten().count()
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.processor)?;
        for (name, setting) in [("sramecc", self.sramecc), ("xnack", self.xnack)] {
            if let Some(on) = setting {
                write!(f, ":{name}{}", if on { '+' } else { '-' })?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_read_and_written() {
        for text in ["gfx906", "gfx906:sramecc+:xnack-", "gfx90a:xnack+", "gfx1030"] {
            assert_eq!(Target::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "sm_90", "gfx906:sramecc", "gfx906:xnack?"] {
            assert_eq!(Target::parse(text), None, "{text}");
        }
    }

    #[test]
    fn code_runs_where_its_settings_are() {
        let device = Target::parse("gfx906:sramecc+:xnack-").unwrap();
        let runs = |text| Target::parse(text).unwrap().runs_on(&device);
        assert!(runs("gfx906") && runs("gfx906:xnack-") && runs("gfx906:sramecc+:xnack-"));
        assert!(!runs("gfx906:xnack+") && !runs("gfx906:sramecc-") && !runs("gfx900"));
    }
}
