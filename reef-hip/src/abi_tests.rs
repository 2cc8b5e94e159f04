//! Tests of our view of the runtime's binary interface, against the library of this machine, and,
//! with the feature `hip-sys-types`, against the headers of HIP 5.4 as the crate hip-sys has them.
//! The headers of HIP 5.2.3, 5.7.1, 6.4.3 and 7.1.0 have the same numbers.

use crate::driver::{self, Driver, NAMES, Version};
use crate::module;
use libloading::Library;
use reef_core::Error;
use std::ffi::c_void;

/// The library, or `None`, said aloud.
fn library() -> Option<Library> {
    match driver::library() {
        Ok(library) => Some(library),
        Err(error) => {
            reef_conformance::skip(&error.to_string());
            None
        }
    }
}

fn table(library: &Library) -> Driver {
    // SAFETY: the functions are those of the library, which outlives the table.
    let driver = unsafe {
        Driver::resolve(|name| {
            library.get::<*mut c_void>(name).map_or(std::ptr::null_mut(), |symbol| *symbol)
        })
    };
    driver.unwrap()
}

fn exports(library: &Library, name: &str) -> bool {
    // SAFETY: only the address is taken.
    unsafe { library.get::<*mut c_void>(name) }.is_ok()
}

#[test]
fn the_library_has_every_function_that_we_need() {
    let Some(library) = library() else { return };
    let missing: Vec<_> =
        NAMES.iter().filter(|(name, needed)| *needed && !exports(&library, name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn optional_functions_are_missing_in_old_versions_only() {
    let Some(library) = library() else { return };
    let version = table(&library).version().expect("this one works without a device");
    assert!(version.major >= 5, "{version}");
    for (name, needed) in NAMES {
        let since = if name.ends_with("R0600") { Version::from(60_000_000) } else { version };
        let due = *needed || version >= since;
        assert_eq!(exports(&library, name), due, "{name} in {version}");
    }
}

#[test]
fn library_without_a_device_is_reported_as_found() {
    let Some(_library) = library() else { return };
    match Driver::get() {
        Ok(_) => reef_conformance::skip("this machine has a device"),
        Err(Error::NotFound(text)) => {
            let codes = ["hipErrorNoDevice (code 100)", "hipErrorInvalidDevice (code 101)"];
            assert!(text.starts_with("a HIP runtime, but no device: hipInit: "), "{text}");
            assert!(codes.iter().any(|code| text.ends_with(code)), "{text}");
        }
        Err(other) => panic!("{other}"),
    }
}

/// Codes and their names, of which the library has a list of its own.
#[test]
fn codes_have_the_names_that_we_take_them_for() {
    let Some(library) = library() else { return };
    let driver = table(&library);
    let rows = [
        (2, "hipErrorOutOfMemory"),
        (driver::NO_DEVICE, "hipErrorNoDevice"),
        (driver::INVALID_DEVICE, "hipErrorInvalidDevice"),
        (module::NO_SUCH_NAME, "hipErrorNotFound"),
        (driver::NOT_READY, "hipErrorNotReady"),
    ];
    for (code, name) in rows {
        assert_eq!(driver.name(code), name, "code {code}");
    }
    let lost = driver::LOST.map(|code| driver.name(code));
    let names = [
        "ECCNotCorrectable",
        "IllegalAddress",
        "LaunchTimeOut",
        "ContextIsDestroyed",
        "Assert",
        "LaunchFailure",
    ];
    assert_eq!(lost, names.map(|name| format!("hipError{name}")));
}

/// Numbers of the headers, as others have read them.
#[cfg(feature = "hip-sys-types")]
#[test]
fn constants_and_layouts_are_those_of_hip_sys() {
    use crate::facts::{self, attribute};
    use crate::{graph, order, pools, stream};
    use hip_sys::hiprt::*;
    use hipDeviceAttribute_t as Attribute;
    let attributes = [
        (attribute::MAX_BLOCKS_PER_UNIT, Attribute::hipDeviceAttributeMaxBlocksPerMultiProcessor),
        (attribute::MAX_THREADS_PER_UNIT, Attribute::hipDeviceAttributeMaxThreadsPerMultiProcessor),
        (attribute::UNITS, Attribute::hipDeviceAttributeMultiprocessorCount),
        (attribute::MAX_REGISTERS_PER_BLOCK, Attribute::hipDeviceAttributeMaxRegistersPerBlock),
        (
            attribute::MAX_REGISTERS_PER_UNIT,
            Attribute::hipDeviceAttributeMaxRegistersPerMultiprocessor,
        ),
        (attribute::MAX_SHARED_PER_BLOCK, Attribute::hipDeviceAttributeMaxSharedMemoryPerBlock),
        (
            attribute::MAX_SHARED_PER_UNIT,
            Attribute::hipDeviceAttributeMaxSharedMemoryPerMultiprocessor,
        ),
        (attribute::WALL_CLOCK_RATE, Attribute::hipDeviceAttributeWallClockRate),
    ];
    for (ours, theirs) in attributes {
        assert_eq!(ours, theirs as u32, "{theirs:?}");
    }
    let flags = hipHostMallocPortable | hipHostMallocMapped | hipHostMallocCoherent;
    assert_eq!(pools::PINNED, flags);
    assert_eq!(pools::SIGNALS, hipMallocSignalMemory);
    assert_eq!(stream::NON_BLOCKING, hipStreamNonBlocking);
    assert_eq!(stream::EQUAL, hipStreamWaitValueEq);
    assert_eq!(order::WITHOUT_TIME, hipEventDisableTiming);
    let relaxed = hipStreamCaptureMode::hipStreamCaptureModeRelaxed;
    assert_eq!(graph::RELAXED, relaxed as u32);
    use hipFunction_attribute::*;
    assert_eq!(module::REGISTERS, HIP_FUNC_ATTRIBUTE_NUM_REGS as u32);
    assert_eq!(module::STATIC_SHARED, HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES as u32);
    use hipError_t::*;
    let lost = [
        hipErrorECCNotCorrectable,
        hipErrorIllegalAddress,
        hipErrorLaunchTimeOut,
        hipErrorContextIsDestroyed,
        hipErrorAssert,
        hipErrorLaunchFailure,
    ];
    assert_eq!(driver::LOST, lost.map(|error| error as u32));
    assert_eq!(facts::NAME_R0000, std::mem::offset_of!(hipDeviceProp_t, gcnArchName));
    assert!(facts::PROPERTIES >= size_of::<hipDeviceProp_t>());
    let handles = [
        size_of::<hipStream_t>(),
        size_of::<hipModule_t>(),
        size_of::<hipFunction_t>(),
        size_of::<hipGraphExec_t>(),
    ];
    assert_eq!(handles, [size_of::<driver::Handle>(); 4]);
}
