//! Packed payloads of fatbins.

use super::fatbin::{Entry, Packing};
use crate::error::Error;
use std::borrow::Cow;
use std::io::Read;

/// Upper bound of a code's bytes before it was packed. The largest known is 60 MB.
const MAX_RAW: usize = 256 << 20;

/// The code of an entry, as it was before it was packed.
///
/// # Errors
///
/// It is larger than the bound, or damaged.
pub(super) fn unpack<'a>(entry: &Entry<'a>) -> Result<Cow<'a, [u8]>, Error> {
    if entry.raw_size > MAX_RAW {
        return Err(Error::Image("a packed entry of this fatbin has more than 256 MiB"));
    }
    match entry.packing {
        Packing::Plain => Ok(entry.payload.into()),
        // No byte of an LZ4 block makes more than 255, so a header's claim costs what was sent.
        Packing::Lz4 if entry.raw_size / 256 > entry.payload.len() => Err(damaged()),
        Packing::Lz4 => lz4_flex::block::decompress(entry.payload, entry.raw_size)
            .map(Cow::from)
            .map_err(|_| damaged()),
        Packing::Zstd => zstd(entry).map(Cow::from).ok_or_else(damaged),
    }
}

fn zstd(entry: &Entry<'_>) -> Option<Vec<u8>> {
    let decoder = ruzstd::decoding::StreamingDecoder::new(entry.payload).ok()?;
    let mut raw = Vec::new();
    decoder.take(entry.raw_size as u64 + 1).read_to_end(&mut raw).ok()?;
    (raw.len() == entry.raw_size).then_some(raw)
}

fn damaged() -> Error {
    Error::Image("a packed entry of this fatbin is damaged")
}

#[cfg(test)]
mod tests {
    use super::super::fatbin::Kind;
    use super::*;

    fn entry(packing: Packing, payload: &[u8], raw_size: usize) -> Entry<'_> {
        Entry { kind: Kind::Ptx, capability: 90, packing, payload, raw_size }
    }

    /// A block of 14 literals.
    const LZ4: &[u8] = b"\xe0.version 9.0\n\n";

    #[test]
    fn literal_block_of_lz4_is_unpacked() {
        let raw = unpack(&entry(Packing::Lz4, LZ4, 14)).unwrap();
        assert_eq!(raw.as_ref(), b".version 9.0\n\n");
    }

    #[test]
    fn claim_of_a_header_is_bounded() {
        assert!(unpack(&entry(Packing::Lz4, LZ4, 4096 << 20)).is_err());
        assert_eq!(unpack(&entry(Packing::Lz4, LZ4, 200 << 20)), Err(damaged()));
        assert_eq!(unpack(&entry(Packing::Lz4, LZ4, 13)), Err(damaged()));
        assert_eq!(unpack(&entry(Packing::Zstd, b"\x28\xb5\x2f\xfd", 100)), Err(damaged()));
    }
}
