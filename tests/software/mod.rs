//! The software gfx906, on which AMD's runtime runs where there is no AMD device.

use reef_gfx906::{Settings, Software};
use std::path::Path;
use std::sync::OnceLock;

static SOFTWARE: OnceLock<Option<Software>> = OnceLock::new();

/// Takes the place of the library that talks to the kernel driver. Must come before AMD's runtime.
pub(crate) fn load() {
    SOFTWARE.get_or_init(|| {
        if Path::new("/dev/kfd").exists() {
            println!("on this machine's AMD device");
            return None;
        }
        let software = Software::load().expect("cargo builds the library before its tests");
        assert!(software.configure(&Settings::default()));
        println!("on a software gfx906");
        Some(software)
    });
}

/// No kernel so far has ended by a fault, which AMD's runtime reports nowhere.
#[allow(dead_code)] // not every test file looks
pub(crate) fn check() {
    if let Some(Some(software)) = SOFTWARE.get() {
        assert_eq!(software.last_fault(), "");
    }
}
