//! Templates and records of replayed calls, as a server reads them.
//!
//! An input is pieces: a byte, a length of two bytes, and bytes of that number. An even byte
//! defines template `byte / 2` by them, an odd one takes them for a record.

#![no_main]

use libfuzzer_sys::fuzz_target;
use reef_replay::{MAX_LEN, Malformed, Templates};

fuzz_target!(|bytes: &[u8]| {
    let (mut templates, mut rest) = (Templates::default(), bytes);
    while let [what, low, high, more @ ..] = rest {
        let len = usize::from(u16::from_le_bytes([*low, *high])).min(more.len());
        let (piece, next) = more.split_at(len);
        rest = next;
        if what % 2 == 0 {
            // Or an error, as below.
            let _ = templates.define(u16::from(what / 2), piece, |kind| kind < 4);
            continue;
        }
        let mut payloads = 0;
        let _ = templates.expand(piece, |kind, body, payload| {
            assert!(kind < 4, "an operation that no template may have");
            assert!(body.len() <= MAX_LEN, "longer than a template");
            payloads += payload.len();
            Ok::<(), Malformed>(())
        });
        assert!(payloads <= piece.len(), "payloads are parts of the record");
    }
});
