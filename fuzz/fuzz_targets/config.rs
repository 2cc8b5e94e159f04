//! The daemon's configuration: any text is one or an error.

#![no_main]

use libfuzzer_sys::fuzz_target;
use reef_serve::Config;
use reef_serve::config::from_sources;

fuzz_target!(|text: &str| {
    if let Ok(config) = toml::from_str::<Config>(text) {
        let _ = config.check();
    }
    if let Some((key, value)) = text.split_once('=') {
        let _ = from_sources(None, [], &[(key.trim().into(), value.trim().into())]);
    }
});
