//! Panics at the boundary, and what C's bad arguments lead to.

use crate::entry::client::*;
use crate::entry::device::*;
use crate::entry::dispatcher::*;
use crate::entry::library::*;
use crate::entry::network::*;
use crate::entry::request::*;
use crate::entry::tensor::*;
use crate::entry::types::*;
use crate::guard::injected::panic_next;
use crate::status::*;
use std::ffi::CStr;
use std::ptr::{null, null_mut};

#[path = "../../../../reef-models/tests/handmade/mod.rs"]
mod handmade;

/// A function's name, and a call of it.
type Call = (&'static str, Box<dyn Fn() -> reef_status>);

/// Every function that can fail, with nothing to work on.
#[rustfmt::skip]
fn calls() -> Vec<Call> {
    macro_rules! calls {
        ($($name:ident($($arg:expr),*)),* $(,)?) => {
            // SAFETY: null is allowed everywhere.
            vec![$((stringify!($name), Box::new(#[allow(unused_unsafe)] || unsafe { $name($($arg),*) }))),*]
        };
    }
    calls!(
        reef_device_open(null(), null_mut()),
        reef_device_free(null_mut()),
        reef_device_get_info(null(), null_mut()),
        reef_device_get_name(null(), null_mut(), 0, null_mut()),
        reef_network_load(null(), null(), null(), null_mut()),
        reef_network_new_instance(null(), null_mut()),
        reef_network_free(null_mut()),
        reef_network_get_info(null(), null_mut()),
        reef_network_write_input(null(), null(), 0),
        reef_network_read_output(null(), null_mut(), 0),
        reef_network_count_tensors(null(), 0, null_mut()),
        reef_network_get_tensor(null(), 0, 0, null_mut()),
        reef_network_get_tensor_name(null(), 0, 0, null_mut(), 0, null_mut()),
        reef_network_get_tensor_shape(null(), 0, 0, null_mut(), 0),
        reef_network_write_tensor(null(), 0, null(), 0),
        reef_network_read_tensor(null(), 0, null_mut(), 0),
        reef_network_read_size(null(), 0, null_mut()),
        reef_dispatcher_start(null(), null(), null_mut()),
        reef_dispatcher_free(null_mut()),
        reef_dispatcher_get_stats(null(), null_mut()),
        reef_client_open(null(), 0, null(), null_mut()),
        reef_client_free(null_mut()),
        reef_client_submit(null(), null(), 0, null_mut()),
        reef_client_run(null(), null(), null(), 0, null_mut(), 0, 0),
        reef_request_wait(null(), 0),
        reef_request_cancel(null(), null_mut()),
        reef_request_get_timing(null(), null_mut()),
        reef_request_free(null_mut()),
    )
}

fn message() -> &'static str {
    // SAFETY: a string of the library's, which this thread looks at before it calls anything else.
    unsafe { CStr::from_ptr(reef_error_message()) }.to_str().unwrap()
}

#[test]
fn a_panic_becomes_an_error() {
    for (name, call) in calls() {
        panic_next();
        assert_eq!(call(), REEF_INTERNAL, "{name}");
        assert_eq!(message(), "a fault of the library: injected", "{name}");
        assert_ne!(call(), REEF_INTERNAL, "{name}: the next call");
    }
}

#[test]
fn every_function_of_the_header_is_tested_for_panics() {
    let header = include_str!("../../include/reef.h");
    let words = header.split(|c: char| !c.is_alphanumeric() && c != '_');
    let declared = header.match_indices("\nreef_status reef_").count();
    let tested = calls().iter().filter(|(name, _)| words.clone().any(|w| w == *name)).count();
    assert_eq!((tested, calls().len()), (declared, declared));
}

#[test]
fn nothing_is_refused_and_freed_without_harm() {
    for (name, call) in calls() {
        let status = call();
        let want: &[_] =
            if name.ends_with("_free") { &[REEF_OK] } else { &[REEF_INVALID, REEF_HANDLE] };
        assert!(want.contains(&status), "{name}: {status}");
    }
}

/// Names in quotes in the comments of the header, and on the page of C.
fn named() -> Vec<&'static str> {
    let header = include_str!("../../include/reef.h");
    let comments = header.lines().filter_map(|line| line.trim_start().strip_prefix("//"));
    let page = include_str!("../../../../docs/capi.md").lines();
    let quoted = |line: &'static str| line.split('"').skip(1).step_by(2);
    let named = comments.chain(page).flat_map(quoted);
    // Not those of statuses, and of files of programs.
    let is_other = |name: &str| name.is_empty() || name.starts_with("REEF_") || name.contains('.');
    named.filter(|name| !is_other(name)).collect()
}

/// Returns why a name in quotes is neither a device, of this build or another, nor a scheduler.
fn unknown(name: &CStr, device: *const reef_device) -> Option<String> {
    let mut opened = null_mut();
    // SAFETY: strings that end with a zero byte, and places for handles.
    let status = unsafe { reef_device_open(name.as_ptr(), &mut opened) };
    let why = message().to_owned();
    let is_left_out = status == REEF_NOT_FOUND
        && (why.contains("rebuild with --features")
            || why.contains(" driver")
            || why.contains("runtime"));
    if status == REEF_OK || is_left_out {
        reef_device_free(opened);
        return None;
    }
    let mut dispatcher = null_mut();
    // SAFETY: a string that ends with a zero byte, an open device, and a place for a handle.
    let status = unsafe { reef_dispatcher_start(device, name.as_ptr(), &mut dispatcher) };
    reef_dispatcher_free(dispatcher);
    (status != REEF_OK).then(|| format!("{name:?}: {why}; {}", message()))
}

fn cpu() -> *mut reef_device {
    let mut device = null_mut();
    // SAFETY: a string that ends with a zero byte, and a place for a handle.
    assert_eq!(unsafe { reef_device_open(c"cpu:0?units=1".as_ptr(), &mut device) }, REEF_OK);
    device
}

#[test]
fn every_name_that_the_header_quotes_is_known() {
    let (device, named) = (cpu(), named());
    for wanted in ["auto", "reef", "cpu:0?units=4"] {
        assert!(named.contains(&wanted), "{named:?}");
    }
    let text = |name: &str| std::ffi::CString::new(name).unwrap();
    let faults: Vec<_> = named.iter().filter_map(|name| unknown(&text(name), device)).collect();
    assert_eq!(faults, [""; 0]);
    assert!(unknown(c"tpu:0", device).is_some());
    reef_device_free(device);
}

/// NULL options, and 0 and NULL in each of them.
#[test]
fn defaults_of_the_header_work() {
    let (device, name) = (cpu(), c"resnet18".as_ptr());
    let (mut dispatcher, mut network) = (null_mut(), null_mut());
    // SAFETY: strings that end with a zero byte, open handles, places for handles, and structures
    // whose members may all be 0.
    unsafe {
        assert_eq!(reef_dispatcher_start(device, c"reef".as_ptr(), &mut dispatcher), REEF_OK);
        let mut zero: reef_client_options = std::mem::zeroed();
        zero.struct_size = size_of_val(&zero) as u32;
        for class in [REEF_REAL_TIME, REEF_BEST_EFFORT] {
            for options in [null(), &raw const zero] {
                let mut client = null_mut();
                let status = reef_client_open(dispatcher, class, options, &mut client);
                assert_eq!(status, REEF_OK, "{}", message());
                reef_client_free(client);
            }
        }
        let mut zero: reef_network_options = std::mem::zeroed();
        zero.struct_size = size_of_val(&zero) as u32;
        for options in [null(), &raw const zero] {
            let status = reef_network_load(device, name, options, &mut network);
            assert_eq!(status, REEF_OK, "{}", message());
            reef_network_free(network);
        }
        reef_dispatcher_free(dispatcher);
        reef_device_free(device);
    }
}

#[test]
fn header_and_python_name_the_numbers_of_a_usual_client() {
    let usual = reef::ClientConfig::default();
    let (queue, most) = (usual.queue, reef::queue::Config::MAX_CAPACITY);
    let header = include_str!("../../include/reef.h");
    let python = include_str!("../../../../docs/reference/python.md");
    for (page, text) in [
        (header, format!("others; 0: {}.", usual.weight)),
        (header, format!("a power of two up to {most}; 0: {}.", queue.capacity)),
        (header, format!("commands with the device at once; 0: {}.", queue.window)),
        (python, format!("a power of two up to {most} ({})", queue.capacity)),
        (python, format!("commands with the device at once ({})", queue.window)),
    ] {
        assert!(page.contains(&text), "{text}");
    }
}

#[test]
fn options_of_best_effort_are_refused_for_real_time() {
    let (device, mut dispatcher) = (cpu(), null_mut());
    // SAFETY: a string that ends with a zero byte, open handles, places for handles, and structures
    // whose members may all be 0.
    unsafe {
        assert_eq!(reef_dispatcher_start(device, c"reef".as_ptr(), &mut dispatcher), REEF_OK);
        let mut zero: reef_client_options = std::mem::zeroed();
        zero.struct_size = size_of_val(&zero) as u32;
        for (name, options) in [
            ("weight", reef_client_options { weight: 2, ..zero }),
            ("capacity", reef_client_options { capacity: 64, ..zero }),
            ("window", reef_client_options { window: 2, ..zero }),
        ] {
            let (options, mut client) = (&raw const options, null_mut());
            let status = reef_client_open(dispatcher, REEF_REAL_TIME, options, &mut client);
            assert_eq!(status, REEF_INVALID, "{name}");
            assert!(message().starts_with(name), "{}", message());
            let status = reef_client_open(dispatcher, REEF_BEST_EFFORT, options, &mut client);
            assert_eq!(status, REEF_OK, "{}", message());
            reef_client_free(client);
        }
        reef_dispatcher_free(dispatcher);
        reef_device_free(device);
    }
}

/// C programs would take places of texts for numbers.
#[test]
fn network_of_texts_is_refused() {
    use handmade::{file, node_in, open, texts};
    let (device, mut network) = (cpu(), null_mut());
    let table = [texts("keys_strings", &["a"]), texts("values_strings", &["b"])];
    let parts = [
        node_in("ai.onnx.ml", "LabelEncoder", &["x"], &["y"], &table),
        open(11, "x", 8, &["1"]),
        open(12, "y", 8, &["1"]),
    ];
    let path = std::env::temp_dir().join(format!("reef-capi-texts-{}.onnx", std::process::id()));
    std::fs::write(&path, file(17, &parts)).unwrap();
    let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: a string that ends with a zero byte, an open device, and a place for a handle.
    let status = unsafe { reef_network_load(device, name.as_ptr(), null(), &mut network) };
    std::fs::remove_file(&path).unwrap();
    assert_eq!(status, REEF_UNSUPPORTED, "{}", message());
    assert!(message().ends_with("x is of texts: C has numbers alone"), "{}", message());
    reef_device_free(device);
}
