//! Several devices by one string: `cuda:*`, `cpu,cpu`.

use crate::backends::{BuiltIn, Visit, with_device_of};
use crate::name::DeviceName;
use reef_core::{Error, Result};
use reef_op::Operators;

/// Name that stands for a GPU if there is one, else for the CPU: in commands and configurations.
pub const AUTO: &str = "auto";
/// Backend that is always there.
pub(crate) const CPU: &str = "cpu";

/// Returns a device and the reason for it, given backends and the devices that each found.
pub(crate) fn choose(
    backends: Vec<(&'static str, Result<Vec<String>>)>,
) -> (String, Option<String>) {
    let mut missing = Vec::new();
    for (backend, found) in backends.into_iter().filter(|(backend, _)| *backend != CPU) {
        match found.as_deref() {
            Ok([first, ..]) => {
                return (format!("{backend}:0"), Some(format!("on {backend}:0 ({first})")));
            }
            Ok([]) => missing.push(format!("{backend}: no device")),
            Err(error) => missing.push(error.to_string()),
        }
    }
    let why = missing.join("; ");
    (CPU.into(), (!missing.is_empty()).then(|| format!("on the CPU, as there is no GPU ({why})")))
}

/// Code that runs on several devices of the backend that was named; compiled once for each backend.
///
/// ```
/// struct Units;
///
/// impl reef::VisitAll for Units {
///     type Output = u32;
///
///     fn visit_all<D: reef::op::Operators>(self, devices: Vec<D>) -> u32 {
///         devices.iter().map(|device| device.info().units).sum()
///     }
/// }
///
/// assert_eq!(reef::with_devices("cpu:0?units=1,cpu:1?units=2", Units)?, 3);
/// # Ok::<(), reef::Error>(())
/// ```
pub trait VisitAll {
    /// Type of the result.
    type Output;

    /// Runs on `devices`, of which there is at least one.
    fn visit_all<D: Operators>(self, devices: Vec<D>) -> Self::Output;
}

/// Opens the devices of these names, which are of one backend, and hands them to `visit`.
pub(crate) fn visit_all<V: VisitAll>(names: &str, visit: V) -> Result<V::Output> {
    let asked: Vec<Request<'_>> = names.split(',').map(Request::parse).collect::<Result<_>>()?;
    let first = asked[0]; // there is one, if empty
    if let Some(other) = asked.iter().find(|other| other.name.backend != first.name.backend) {
        let (one, two) = (first.name.backend, other.name.backend);
        return Err(Error::invalid(
            format!("devices {names:?}"),
            format!("must be of one backend, got {one:?} and {two:?}"),
        ));
    }
    with_device_of::<BuiltIn, _>(&first.name.text(), OpenRest { asked, visit })?
}

/// One of the names.
#[derive(Debug, Clone, Copy)]
struct Request<'a> {
    /// With ordinal 0 if all are asked for.
    name: DeviceName<'a>,
    all: bool,
}

impl<'a> Request<'a> {
    fn parse(text: &'a str) -> Result<Self> {
        let (device, options) = text.split_once('?').unwrap_or((text, ""));
        match device.strip_suffix(":*") {
            Some(backend) if !backend.contains(':') => {
                Ok(Self { name: DeviceName { backend, ordinal: 0, options }, all: true })
            }
            _ => Ok(Self { name: DeviceName::parse(text)?, all: false }),
        }
    }

    fn ordinals<D: Operators>(self) -> Result<Vec<usize>> {
        Ok(if self.all { (0..D::count()?).collect() } else { vec![self.name.ordinal] })
    }
}

/// Opens what is left when the backend is known and the first device is open.
struct OpenRest<'a, V> {
    asked: Vec<Request<'a>>,
    visit: V,
}

impl<V: VisitAll> Visit for OpenRest<'_, V> {
    type Output = Result<V::Output>;

    fn visit<D: Operators>(self, first: D) -> Self::Output {
        let mut devices = vec![first];
        for (at, asked) in self.asked.into_iter().enumerate() {
            for ordinal in asked.ordinals::<D>()?.into_iter().skip(usize::from(at == 0)) {
                devices.push(D::open(ordinal, asked.name.options)?);
            }
        }
        Ok(self.visit.visit_all(devices))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Units of the devices that were opened.
    struct Units;

    impl VisitAll for Units {
        type Output = Vec<u32>;

        fn visit_all<D: Operators>(self, devices: Vec<D>) -> Vec<u32> {
            devices.iter().map(|device| device.info().units).collect()
        }
    }

    fn chosen(gpu: Result<Vec<String>>) -> (String, Option<String>) {
        choose(vec![(CPU, Ok(vec!["8 units".into()])), ("cuda", gpu)])
    }

    #[test]
    fn auto_takes_a_gpu_if_there_is_one_and_says_so() {
        let (device, said) = chosen(Ok(vec!["H200".into(), "H100".into()]));
        assert_eq!((&*device, &*said.unwrap()), ("cuda:0", "on cuda:0 (H200)"));
    }

    #[test]
    fn auto_takes_the_cpu_and_says_why() {
        for (gpu, why) in [
            (Err(Error::NotFound("libcuda.so.1 not found".into())), "libcuda.so.1 not found"),
            (Ok(Vec::new()), "cuda: no device"),
        ] {
            let (device, said) = chosen(gpu);
            assert_eq!(device, CPU);
            assert!(said.unwrap().contains(why));
        }
        let alone = choose(vec![(CPU, Ok(Vec::new()))]);
        assert_eq!(alone, (CPU.into(), None), "nothing to choose from");
    }

    #[cfg(feature = "cpu")]
    #[test]
    fn names_are_opened_in_order_with_their_options() {
        assert_eq!(visit_all("cpu?units=1,cpu:1?units=3,cpu?units=2", Units), Ok(vec![1, 3, 2]));
        assert_eq!(visit_all("cpu:*?units=2", Units), Ok(vec![2]), "made as they are opened: one");
        assert_eq!(visit_all("cpu:*?units=2,cpu:3?units=1", Units), Ok(vec![2, 1]));
    }

    #[test]
    fn unopened_device_error_names_it() {
        let error = |names| visit_all(names, Units).unwrap_err().to_string();
        assert!(
            error("cpu,cuda:*").ends_with("got \"cpu\" and \"cuda\""),
            "{}",
            error("cpu,cuda:*")
        );
        assert!(error("cpu,").ends_with("got \"cpu\" and \"\""), "{}", error("cpu,"));
        assert!(error("").starts_with("no backend \"\""), "{}", error(""));
        #[cfg(feature = "cpu")]
        for names in ["cpu?units=1,cpu:99", "cpu?units=1,cpu:18446744073709551615"] {
            let (said, (_, device)) = (error(names), names.split_once(',').expect("two"));
            assert!(said.contains(&format!("no device {device} ")), "{said}");
        }
    }
}
