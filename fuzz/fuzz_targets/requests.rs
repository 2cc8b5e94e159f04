//! Messages of a program that uses the CUDA driver, as a server's worker handles them.
//!
//! The driver is the one for tests, which checks what it is given. `REEF_CUDA` names it, and
//! `tools/fuzz.sh` builds it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::path::PathBuf;
use std::sync::LazyLock;

static DRIVER: LazyLock<PathBuf> = LazyLock::new(|| {
    // SAFETY: nothing reads the environment yet.
    unsafe {
        std::env::set_var("REEF_FAKE_CHECK", "1");
        std::env::set_var("REEF_FAKE_INSTANT", "1");
    }
    std::env::var_os("REEF_CUDA").expect("REEF_CUDA names the driver for tests").into()
});

fuzz_target!(|bytes: &[u8]| reef_remote_worker::fuzzing::session(&DRIVER, bytes));
