//! Backends as a list of types: those that are compiled in, and others.

use crate::name::DeviceName;
use reef_core::Result;
use reef_op::Operators;

/// Code that runs on the device that was named; compiled once for each backend.
///
/// ```
/// struct Name;
///
/// impl reef::Visit for Name {
///     type Output = &'static str;
///
///     fn visit<D: reef::op::Operators>(self, _device: D) -> &'static str {
///         D::NAME
///     }
/// }
///
/// assert_eq!(reef::with_device("cpu:0?units=1", Name)?, "cpu");
/// # Ok::<(), reef::Error>(())
/// ```
pub trait Visit {
    /// Type of the result.
    type Output;

    /// Runs on `device`.
    fn visit<D: Operators>(self, device: D) -> Self::Output;
}

/// Backends that a device's name can mean.
///
/// A list is a tuple of a device's type and the rest, which ends with [`BuiltIn`] or `()`:
/// `(MyDevice, BuiltIn)`.
///
/// ```
/// use reef::{Backends, cpu::Cpu};
///
/// /// One backend, and no other that is compiled in.
/// type Mine = (Cpu, ());
///
/// assert_eq!(<Mine as Backends>::names(), ["cpu"]);
/// ```
pub trait Backends {
    /// Their names, the first ones first.
    fn names() -> Vec<&'static str>;

    /// Opens the device and hands it to `visit`, or returns `visit` if none of these has the name.
    ///
    /// # Errors
    ///
    /// Returns an error of the device.
    fn visit<V: Visit>(name: &DeviceName<'_>, visit: V) -> Result<Visited<V>>;
}

/// Result of a [`Visit`].
///
/// ```
/// use reef::{Backends, BuiltIn, DeviceName, Visited};
///
/// struct Name;
///
/// impl reef::Visit for Name {
///     type Output = &'static str;
///
///     fn visit<D: reef::op::Operators>(self, _device: D) -> &'static str {
///         D::NAME
///     }
/// }
///
/// let visited = BuiltIn::visit(&DeviceName::parse("dsp:0")?, Name)?;
/// assert!(matches!(visited, Visited::Unknown(Name)));
/// # Ok::<(), reef::Error>(())
/// ```
#[derive(Debug)]
pub enum Visited<V: Visit> {
    /// It ran.
    Done(V::Output),
    /// No backend has the name.
    Unknown(V),
}

impl Backends for () {
    fn names() -> Vec<&'static str> {
        Vec::new()
    }

    fn visit<V: Visit>(_: &DeviceName<'_>, visit: V) -> Result<Visited<V>> {
        Ok(Visited::Unknown(visit))
    }
}

impl<D: Operators, Rest: Backends> Backends for (D, Rest) {
    fn names() -> Vec<&'static str> {
        [D::NAME].into_iter().chain(Rest::names()).collect()
    }

    fn visit<V: Visit>(name: &DeviceName<'_>, visit: V) -> Result<Visited<V>> {
        if name.backend != D::NAME {
            return Rest::visit(name, visit);
        }
        Ok(Visited::Done(visit.visit(D::open(name.ordinal, name.options)?)))
    }
}

macro_rules! built_in {
    ($($(#[$on:meta])* $device:ty),+ $(,)?) => {
        /// Names of the backends compiled in.
        pub const BACKENDS: &[&str] = &[$($(#[$on])* <$device as reef_core::Backend>::NAME),+];

        /// The backends compiled in.
        ///
        /// ```
        /// use reef::{Backends, BuiltIn};
        ///
        /// assert_eq!(BuiltIn::names(), reef::BACKENDS);
        /// ```
        #[derive(Debug)]
        pub enum BuiltIn {}

        impl Backends for BuiltIn {
            fn names() -> Vec<&'static str> {
                BACKENDS.to_vec()
            }

            fn visit<V: Visit>(name: &DeviceName<'_>, visit: V) -> Result<Visited<V>> {
                $(
                    $(#[$on])*
                    if name.backend == <$device as reef_core::Backend>::NAME {
                        return <($device, ())>::visit(name, visit);
                    }
                )+
                <()>::visit(name, visit)
            }
        }
    };
}

built_in! {
    #[cfg(feature = "cpu")]
    reef_cpu::Cpu,
    #[cfg(feature = "cuda")]
    reef_cuda::Cuda,
    #[cfg(feature = "hip")]
    reef_hip::Hip,
    #[cfg(feature = "remote")]
    reef_remote::Remote,
}

/// As [`with_device`](crate::with_device), of other backends:
/// `with_device_of::<(MyDevice, BuiltIn), _>(name, visit)`.
///
/// # Errors
///
/// Returns the errors of [`with_device`](crate::with_device).
pub fn with_device_of<B: Backends, V: Visit>(name: &str, visit: V) -> Result<V::Output> {
    let name = DeviceName::parse(name)?;
    match B::visit(&name, visit)? {
        Visited::Done(output) => Ok(output),
        Visited::Unknown(_) => Err(name.unknown(&B::names())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::with_device;
    use reef_conformance::Null;
    use reef_core::{Backend, Error};

    struct Name;

    impl Visit for Name {
        type Output = &'static str;

        fn visit<D: Operators>(self, _: D) -> &'static str {
            D::NAME
        }
    }

    #[test]
    fn foreign_backend_is_found_next_to_built_in_ones() {
        type All = (Null, BuiltIn);
        assert_eq!(with_device_of::<All, _>(Null::NAME, Name), Ok(Null::NAME));
        #[cfg(feature = "cpu")]
        assert_eq!(with_device_of::<All, _>("cpu?units=1", Name), Ok("cpu"));
        assert!(matches!(with_device(Null::NAME, Name), Err(Error::NotFound(_))));
    }

    #[test]
    fn unknown_backend_error_lists_all_backends() {
        let error = with_device_of::<(Null, BuiltIn), _>("dsp", Name).unwrap_err();
        let have = [&[Null::NAME], BACKENDS].concat().join(", ");
        assert_eq!(error.to_string(), format!("no backend \"dsp\" (have: {have})"));
    }
}
