//! Devices that are there, and one of them by its name.

use crate::backends::{BACKENDS, BuiltIn, Visit, with_device_of};
use crate::devices::{AUTO, CPU, VisitAll, choose, visit_all};
#[cfg(any(feature = "cpu", feature = "cuda", feature = "hip"))]
use reef_core::Backend;
#[cfg(feature = "cpu")]
use reef_core::Device;
use reef_core::Result;
use std::borrow::Cow;

/// Every device of this machine: pairs of a backend that is compiled in and its devices, a line for
/// each, or why it has none. Devices of other machines (`remote`) are not looked for.
pub fn devices() -> Vec<(&'static str, Result<Vec<String>>)> {
    vec![
        #[cfg(feature = "cpu")]
        (reef_cpu::Cpu::NAME, reef_cpu::Cpu::open(0, "").map(|device| vec![device.info().name])),
        #[cfg(feature = "cuda")]
        (reef_cuda::Cuda::NAME, reef_cuda::devices()),
        #[cfg(feature = "hip")]
        (reef_hip::Hip::NAME, reef_hip::devices()),
    ]
}

/// Returns the device that [`AUTO`] stands for, and the reason in words. Without a backend for GPUs
/// there is nothing to choose from, and no reason.
pub fn auto_device() -> (String, Option<String>) {
    if BACKENDS == [CPU] {
        return (CPU.into(), None);
    }
    choose(devices())
}

/// Opens a device by its name, such as `cpu`, `cuda:1`, `cpu:0?units=4`,
/// `remote:host:7733/cuda:0` or [`AUTO`], and hands it to `visit`.
///
/// # Errors
///
/// `Invalid` if the name or an option is malformed; `NotFound` if no such backend is compiled in,
/// its library is not installed, or it has no such device.
pub fn with_device<V: Visit>(name: &str, visit: V) -> Result<V::Output> {
    with_device_of::<BuiltIn, V>(&resolved(name), visit)
}

/// Opens several devices of one backend and hands them to `visit`: names joined by commas, `*`
/// in the place of an ordinal for all that there are, as in `cuda:*?gates=4`, or [`AUTO`]. The same
/// software device may come several times.
///
/// # Errors
///
/// Returns the errors of [`with_device`], for each; `Invalid` if the backends differ.
pub fn with_devices<V: VisitAll>(names: &str, visit: V) -> Result<V::Output> {
    visit_all(&resolved(names), visit)
}

/// The name that [`AUTO`] stands for, and any other name itself.
fn resolved(name: &str) -> Cow<'_, str> {
    if name == AUTO { auto_device().0.into() } else { name.into() }
}

#[cfg(all(test, feature = "cpu", not(any(feature = "cuda", feature = "hip"))))]
mod tests {
    use super::*;
    use reef_op::Operators;

    struct Name;

    impl Visit for Name {
        type Output = &'static str;

        fn visit<D: Operators>(self, _: D) -> &'static str {
            D::NAME
        }
    }

    #[test]
    fn auto_without_backends_for_gpus_is_the_cpu() {
        assert_eq!(with_device(AUTO, Name), Ok("cpu"));
    }
}
