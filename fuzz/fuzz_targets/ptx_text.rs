//! PTX and the verdicts on its kernels.
#![no_main]

use libfuzzer_sys::fuzz_target;
use reef_ptx::{Module, kernels};

fuzz_target!(|text: &str| {
    let Ok(module) = Module::read(text) else { return };
    for kernel in kernels(&module) {
        let verdict = kernel.verdict();
        // Slices and preemption points need all that the entry guard needs.
        assert!(verdict.stop.is_ok() || verdict.slice.is_err() && verdict.abandon.is_err());
        let _ = verdict.rerun.to_string();
    }
});
