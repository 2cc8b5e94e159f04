//! Code: what ships, what is compiled, what users bring.

#![expect(
    clippy::undocumented_unsafe_blocks,
    reason = "all calls alike: handles are open, and what was taken is given back once, after its last use"
)]

use crate::bench::Bench;
use reef_core::{Error, Priority};
use reef_gpu::{Build, LaunchConfig, Memory, Modules, Streams};
use std::ffi::c_void;

#[test]
fn all_that_ships_is_loaded() {
    let Some(bench) = Bench::open() else { return };
    for (name, kernel) in [("builtin", "append"), ("network", "linear_f32")] {
        for build in [Build::Plain, Build::Guarded] {
            let image = bench.context.shipped(name, build).unwrap();
            let code = unsafe { bench.context.load_code(&image) }.unwrap();
            let function = unsafe { bench.context.function(code, kernel) }.unwrap();
            let function = function.unwrap_or_else(|| panic!("{kernel} in {name}"));
            let facts = unsafe { bench.context.function_facts(function) }.unwrap();
            let guard = facts.parameters.expect("the code says so")[0];
            assert_eq!(guard, 72, "{name} {build:?}");
            unsafe { bench.context.unload_code(code) };
        }
    }
}

#[test]
fn a_function_is_known_by_what_its_code_says() {
    let Some(bench) = Bench::open() else { return };
    let facts = |name| unsafe { bench.context.function_facts(bench.function(name)) }.unwrap();
    let found = facts("parameters");
    assert_eq!(found.parameters, Some(vec![64, 8, 1]));
    assert_eq!(found.shared, 400);
    assert!((1..=256).contains(&found.registers), "{found:?}");
    assert_eq!(facts("empty").parameters, Some(vec![]));
    assert!(unsafe { bench.context.function(bench.code, "nobody") }.unwrap().is_none());
    assert!(unsafe { bench.context.function(bench.code, "nul\0nul") }.unwrap().is_none());
}

#[test]
fn parameters_of_all_sizes_arrive() {
    let Some(bench) = Bench::open() else { return };
    let stream = bench.stream(Priority::RealTime);
    let to = bench.context.alloc(4).unwrap();
    let (mut large, mut small, mut address) =
        (std::array::from_fn::<u32, 16, _>(|i| 1000 * i as u32), 7u8, to);
    let mut params: [*mut c_void; 3] =
        [(&raw mut large).cast(), (&raw mut address).cast(), (&raw mut small).cast()];
    let function = bench.function("parameters");
    // SAFETY: these are its parameters, and the end is waited for.
    unsafe { bench.context.launch(stream, function, &LaunchConfig::one_block(100), &mut params) }
        .unwrap();
    unsafe { bench.context.wait(stream) }.unwrap();
    let seen = bench.read(to);
    let fault = bench.software.last_fault();
    assert!(seen % 1000 == 7 && seen / 1000 < 16, "{seen} is not the sum of a thread {fault}");
    bench.launch(stream, "empty", vec![]);
    unsafe { bench.context.wait(stream) }.unwrap();
}

#[test]
fn shared_memory_has_a_most() {
    let Some(bench) = Bench::open() else { return };
    let function = bench.function("parameters");
    unsafe { bench.context.reserve_shared(function, 65536 - 400) }.unwrap();
    let error = unsafe { bench.context.reserve_shared(function, 65536 - 399) }.unwrap_err();
    let why = "must be at most 65536 bytes, got 400 + 65137";
    assert_eq!(error, Error::invalid("shared memory", why));
}

#[test]
fn users_code_is_checked_before_the_runtime_sees_it() {
    let Some(bench) = Bench::open() else { return };
    let context = &bench.context;
    assert_eq!(context.check_image(&bench.image).unwrap(), bench.image);
    let mut bundle = b"__CLANG_OFFLOAD_BUNDLE__".to_vec();
    let name = b"hipv4-amdgcn-amd-amdhsa--gfx906";
    for number in [1, 32 + 24 + name.len(), bench.image.len(), name.len()] {
        bundle.extend((number as u64).to_le_bytes());
    }
    bundle.extend(name);
    bundle.extend(&bench.image);
    assert_eq!(context.check_image(&bundle).unwrap(), bench.image, "of a bundle, the code for us");

    let mut other = bench.image.clone();
    other[48] = 0x2c; // of the flags, the processor: gfx900
    let half = &bench.image[..bench.image.len() / 2];
    for (image, why) in [
        (&b"GIF89a"[..], "neither a code object nor a bundle"),
        (half, "cut off"),
        (&other, "is for gfx900"),
    ] {
        match context.check_image(image) {
            Err(Error::Invalid(image)) => assert!(image.reason.contains(why), "{image}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_wrong_source_is_answered_with_the_compilers_words() {
    let Some(bench) = Bench::open() else { return };
    let error = bench.context.compile("\nnonsense", Build::Plain).unwrap_err();
    assert!(
        matches!(&error, Error::Invalid(source) if source.argument.contains("kernel.hip")),
        "{error}"
    );
}

#[test]
fn a_launch_that_no_device_can_do_is_refused() {
    let Some(bench) = Bench::open() else { return };
    let stream = bench.stream(Priority::RealTime);
    let function = bench.function("empty");
    // SAFETY: it has no parameters.
    let launched =
        unsafe { bench.context.launch(stream, function, &LaunchConfig::one_block(2048), &mut []) };
    assert!(matches!(launched, Err(Error::Driver { call: "hipModuleLaunchKernel", .. })));
    bench.launch(stream, "empty", vec![]);
    unsafe { bench.context.wait(stream) }.unwrap();
}
