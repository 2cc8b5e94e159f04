//! The conformance suite over a UNIX socket.

mod support;

use reef_conformance::suite;
use reef_remote::Remote;
use std::sync::OnceLock;
use support::Served;

fn served() -> &'static str {
    static SERVED: OnceLock<(Served, String)> = OnceLock::new();
    &SERVED
        .get_or_init(|| {
            let served = support::each();
            let device = served.device();
            (served, device)
        })
        .1
}

suite!(remote_cpu, Remote, served());
