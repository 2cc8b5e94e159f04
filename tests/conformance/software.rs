//! The software gfx906, on which AMD's runtime runs where there is no AMD device.

use reef_gfx906::{Settings, Software};
use std::path::Path;
use std::sync::Once;

/// Takes the place of the library that talks to the kernel driver. Must come before AMD's runtime.
pub(crate) fn load() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if Path::new("/dev/kfd").exists() {
            return println!("on this machine's AMD device");
        }
        let software = Software::load().expect("cargo builds the library before its tests");
        assert!(software.configure(&Settings::default()));
        println!("on a software gfx906");
    });
}
