//! Clients with many addresses.

use super::from_address;
use crate::daemon::Daemon;
use std::io::{Read, Write};

const CLIENTS: u32 = 1200;

#[test]
fn metrics_do_not_grow_with_addresses() {
    let daemon = Daemon::start("addresses", &["rights.others={}"]);
    let request = b"POST /v2/repository/models/tiny/load HTTP/1.1\r\nhost: localhost\r\n\
        connection: close\r\ncontent-length: 0\r\n\r\n";
    for number in 1..=CLIENTS {
        let mut stream = from_address(number, &daemon.http);
        stream.write_all(request).unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        assert!(said.starts_with("HTTP/1.1 403"), "{said}");
    }
    let text = daemon.get("/metrics");
    assert!(text.contains("reef_client_unfit_total{client=\"other\"} 0\n"), "{text}");
    assert!(text.len() < 40 << 10, "{} bytes", text.len());
}
