//! Names of devices: `backend[:ordinal][?options]`, or `remote:ADDRESS/DEVICE[?options]`.

use reef_core::{Error, Result, did_you_mean};

/// Backend of devices of other machines, whose names have an address in place of an ordinal.
const REMOTE: &str = "remote";
/// Backends that a build may have, each by the feature of its name.
const FEATURES: [&str; 4] = ["cpu", "cuda", "hip", REMOTE];
/// Other names of backends.
const ALIASES: [(&str, &str); 5] =
    [("gpu", "cuda"), ("nvidia", "cuda"), ("rocm", "hip"), ("amd", "hip"), ("host", "cpu")];

/// The parts of a device's name.
///
/// ```
/// use reef::DeviceName;
///
/// let name = DeviceName::parse("cuda:1?gates=4")?;
/// assert_eq!((name.backend, name.ordinal, name.options), ("cuda", 1, "gates=4"));
/// # Ok::<(), reef::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceName<'a> {
    /// `cpu`, `cuda`, `hip`, `remote`.
    pub backend: &'a str,
    /// Number of the device in the backend; 0 if not given.
    pub ordinal: usize,
    /// Options after `?`, for the backend to read. Of a remote device, all after `remote:`.
    pub options: &'a str,
}

impl<'a> DeviceName<'a> {
    /// Splits `name`.
    ///
    /// # Errors
    ///
    /// `Invalid` if the ordinal is not a number.
    pub fn parse(name: &'a str) -> Result<Self> {
        if let Some(options) = name.strip_prefix("remote:") {
            return Ok(Self { backend: REMOTE, ordinal: 0, options });
        }
        let (device, options) = name.split_once('?').unwrap_or((name, ""));
        let (backend, ordinal) = device.split_once(':').unwrap_or((device, "0"));
        let ordinal = ordinal.parse().map_err(|_| {
            Error::invalid(
                format!("device {name:?}"),
                format!("the ordinal must be a number, got {ordinal:?}"),
            )
        })?;
        Ok(Self { backend, ordinal, options })
    }

    /// Returns the name as text.
    pub(crate) fn text(&self) -> String {
        let Self { backend, ordinal, options } = self;
        if *backend == REMOTE {
            format!("{backend}:{options}")
        } else {
            format!("{backend}:{ordinal}?{options}")
        }
    }

    /// The error for a backend that is none of `have`, with a remedy.
    pub(crate) fn unknown(&self, have: &[&str]) -> Error {
        let (asked, list) = (self.backend, have.join(", "));
        if FEATURES.contains(&asked) {
            return Error::NotFound(format!(
                "no backend {asked:?} in this build (have: {list}): rebuild with --features {asked}"
            ));
        }
        let alias = ALIASES.into_iter().find(|(alias, _)| asked.eq_ignore_ascii_case(alias));
        let known = || FEATURES.into_iter().chain(have.iter().copied());
        let meant = match alias {
            Some((_, name)) => format!(": did you mean {name}?"),
            None => did_you_mean(asked, known()),
        };
        Error::NotFound(format!("no backend {asked:?} (have: {list}){meant}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_has_three_parts_of_which_two_are_optional() {
        let parse = |name| DeviceName::parse(name).map(|n| (n.backend, n.ordinal, n.options));
        assert_eq!(parse("cpu"), Ok(("cpu", 0, "")));
        assert_eq!(parse("cuda:1"), Ok(("cuda", 1, "")));
        assert_eq!(parse("cpu:0?units=4&nice=0"), Ok(("cpu", 0, "units=4&nice=0")));
        assert_eq!(parse("cpu?units=4"), Ok(("cpu", 0, "units=4")));
        let remote = "remote:host:7733/cpu:0?remote.ca=a";
        assert_eq!(parse(remote), Ok(("remote", 0, "host:7733/cpu:0?remote.ca=a")));
        assert_eq!(DeviceName::parse(remote).unwrap().text(), remote);
        assert_eq!(DeviceName::parse("cpu:1?units=2").unwrap().text(), "cpu:1?units=2");
        assert!(parse("cpu:x").is_err() && parse("cpu:").is_err() && parse("cpu:-1").is_err());
    }

    #[test]
    fn unknown_backend_error_lists_the_present_ones() {
        let error = DeviceName::parse("rocm").unwrap().unknown(&["cpu", "cuda"]);
        let want = "no backend \"rocm\" (have: cpu, cuda): did you mean hip?";
        assert_eq!(error.to_string(), want);
        let error = DeviceName::parse("gpu").unwrap().unknown(&["cpu"]);
        assert_eq!(error.to_string(), "no backend \"gpu\" (have: cpu): did you mean cuda?");
        let error = DeviceName::parse("cdua:1").unwrap().unknown(&["cpu"]);
        assert_eq!(error.to_string(), "no backend \"cdua\" (have: cpu): did you mean cuda?");
        let error = DeviceName::parse("tpu2").unwrap().unknown(&["tpu1", "cpu"]);
        assert!(error.to_string().ends_with(": did you mean tpu1?"), "{error}");
    }

    #[test]
    fn backend_that_a_build_lacks_has_a_remedy() {
        let error = DeviceName::parse("cuda:0").unwrap().unknown(&["cpu"]);
        let want = "no backend \"cuda\" in this build (have: cpu): rebuild with --features cuda";
        assert_eq!(error.to_string(), want);
    }
}
