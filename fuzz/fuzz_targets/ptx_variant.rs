//! Variants of kernels: each is PTX with one kernel, which may not have a variant again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reef_ptx::{Module, kernels};

fuzz_target!(|text: &str| {
    let Ok(module) = Module::read(text) else { return };
    for kernel in kernels(&module) {
        let points = kernel.with_preemption_points();
        assert_eq!(points.is_ok(), kernel.verdict().abandon.is_ok());
        for variant in [kernel.variant(), points].into_iter().flatten() {
            let again = Module::read(&variant.text).expect("a variant is PTX");
            let own = kernels(&again).find(|own| own.name() == kernel.name());
            assert!(own.expect("the variant's kernel").variant().is_err());
        }
    }
});
