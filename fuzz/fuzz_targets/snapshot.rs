//! Snapshots: any bytes are one or an error. So that digests don't keep the fuzzer out, the bytes
//! are also taken as a manifest, and as chunks with a manifest, under digests that are right.

#![no_main]

use libfuzzer_sys::fuzz_target;
use reef_snapshot::Digest;
use reef_snapshot::format::file::check_bytes;

/// A file with these chunks and this manifest.
fn sealed(chunks: &[u8], manifest: &[u8]) -> Vec<u8> {
    let length = (manifest.len() as u64).to_le_bytes();
    let digest = *Digest::of(manifest).as_bytes();
    [b"REEFSNAP\x01\0\0\0", chunks, manifest, &length, &digest, b"REEFDONE"].concat()
}

fuzz_target!(|bytes: &[u8]| {
    let _ = check_bytes(bytes);
    let _ = check_bytes(&sealed(&[], bytes));
    let at = bytes.iter().position(|&byte| byte == b'{').unwrap_or(bytes.len());
    if let Ok(manifest) = check_bytes(&sealed(&bytes[..at], &bytes[at..])) {
        let position = manifest.queue.position();
        assert!(position.at < position.commands);
        if let Some(partial) = &manifest.queue.partial {
            partial.blocks().expect("it was checked");
        }
    }
});
