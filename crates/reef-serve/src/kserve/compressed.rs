//! Decompression of bodies by gzip and deflate.

use crate::error::{Error, Result};
use crate::kserve::parameter::only_header;
use crate::net::quota::charge::Charge;
use axum::body::Bytes;
use axum::http::HeaderMap;
use flate2::bufread::{GzDecoder, ZlibDecoder};
use std::io::{self, Read};

/// Bytes that are charged at a time.
const STEP_BYTES: usize = 64 << 10;

/// Maximum number of members of a body by gzip: each takes some microseconds, also an empty one of
/// 20 bytes. Programs that write many of them write 64 KiB in each.
const MAX_MEMBERS: usize = 1 << 16;

/// Compression of a body, or of a gRPC message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Gzip,
    Deflate,
}

impl Encoding {
    /// Returns the encoding in `header`; `None` if there is none.
    ///
    /// # Errors
    ///
    /// `Unimplemented` for an unknown encoding; `Invalid` if the header is there twice.
    pub(super) fn of(headers: &HeaderMap, header: &str) -> Result<Option<Self>> {
        let Some(given) = only_header(headers, header)? else { return Ok(None) };
        match given.as_bytes() {
            b"identity" => Ok(None),
            b"gzip" | b"x-gzip" => Ok(Some(Self::Gzip)),
            b"deflate" => Ok(Some(Self::Deflate)),
            _ => {
                let text = format!("a body of encoding {given:?} (have: gzip, deflate)");
                Err(Error::Unimplemented(text))
            }
        }
    }
}

/// Decompresses a body to at most `max` bytes, which are charged before they are allocated.
///
/// # Errors
///
/// `TooLarge`, `Exhausted`; `Invalid` if it is corrupt.
pub(super) fn inflate(
    body: &[u8],
    encoding: Encoding,
    max: usize,
    charge: &Charge,
) -> Result<Bytes> {
    match encoding {
        Encoding::Gzip => read(Members::of(body), max, |bytes| charge.add(bytes)),
        Encoding::Deflate => deflated(body, max, |bytes| charge.add(bytes)),
    }
}

/// Content of a body by gzip, which may have several members.
struct Members<'a> {
    member: GzDecoder<&'a [u8]>,
    count: usize,
}

impl<'a> Members<'a> {
    fn of(body: &'a [u8]) -> Self {
        Self { member: GzDecoder::new(body), count: 1 }
    }
}

impl Read for Members<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            let bytes = self.member.read(to)?;
            let rest = *self.member.get_ref();
            if bytes > 0 || to.is_empty() || rest.is_empty() {
                return Ok(bytes);
            }
            if self.count == MAX_MEMBERS {
                let text = format!("members must be at most {MAX_MEMBERS}, got more");
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
            self.count += 1;
            self.member.reset(rest);
        }
    }
}

/// Decompresses deflate. Its reader ends before bytes that are not of it, which gzip's refuses.
fn deflated(body: &[u8], max: usize, charge: impl Fn(u64) -> Result<()>) -> Result<Bytes> {
    let mut decoder = ZlibDecoder::new(body);
    let all = read(&mut decoder, max, charge)?;
    let rest = decoder.get_ref().len();
    if rest == 0 {
        return Ok(all);
    }
    let text = format!("compressed body: must end with its data, got {rest} more bytes");
    Err(Error::Invalid(text))
}

fn read(mut from: impl Read, max: usize, charge: impl Fn(u64) -> Result<()>) -> Result<Bytes> {
    let mut all = Vec::new();
    let mut part = vec![0; STEP_BYTES];
    loop {
        let wrong = |e| Error::Invalid(format!("compressed body: {e}"));
        let bytes = from.read(&mut part).map_err(wrong)?;
        if bytes == 0 {
            return Ok(all.into());
        }
        if all.len() + bytes > max {
            let text =
                format!("body must have at most {max} bytes, decompressed (limits.message_mib)");
            return Err(Error::TooLarge(text));
        }
        grow(&mut all, bytes, max, &charge)?;
        all.extend_from_slice(&part[..bytes]);
    }
}

/// Reserves room for `more` bytes, at least doubling the capacity, which is charged before it is
/// allocated.
fn grow(
    all: &mut Vec<u8>,
    more: usize,
    max: usize,
    charge: &impl Fn(u64) -> Result<()>,
) -> Result<()> {
    let (has, want) = (all.capacity(), all.len() + more);
    if want > has {
        let room = want.max(has.saturating_mul(2)).min(max);
        charge((room - has) as u64)?;
        all.reserve_exact(room - all.len());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::{GzEncoder, ZlibEncoder};
    use std::io::Write;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut to = GzEncoder::new(Vec::new(), Compression::default());
        to.write_all(bytes).unwrap();
        to.finish().unwrap()
    }

    fn unpacked(body: &[u8], max: usize) -> Result<Bytes> {
        read(Members::of(body), max, |_| Ok(()))
    }

    #[test]
    fn oversized_body_is_refused_before_allocation() {
        let body = packed(&vec![0; 10 << 20]);
        assert!(body.len() < 20 << 10);
        assert_eq!(unpacked(&body, 10 << 20).unwrap().len(), 10 << 20);
        assert!(matches!(unpacked(&body, 1 << 20), Err(Error::TooLarge(_))));
        let poor = |_| Err(Error::Exhausted("no more".into()));
        assert!(matches!(read(Members::of(&body), 10 << 20, poor), Err(Error::Exhausted(_))));
        let broken = unpacked(&body[..body.len() / 2], 10 << 20).unwrap_err().to_string();
        assert!(broken.starts_with("compressed body: "), "{broken}");
    }

    #[test]
    fn empty_members_are_read_up_to_their_maximum() {
        let empty = packed(b"");
        let whole = [packed(b"one, "), empty.repeat(MAX_MEMBERS - 2), packed(b"two")].concat();
        assert_eq!(unpacked(&whole, 100).unwrap(), "one, two");
        let said = unpacked(&[whole, empty].concat(), 100).unwrap_err().to_string();
        assert_eq!(said, "compressed body: members must be at most 65536, got more");
        assert!(unpacked(b"", 100).is_err(), "not even one");
    }

    #[test]
    fn deflate_with_bytes_behind_it_is_refused() {
        let mut to = ZlibEncoder::new(Vec::new(), Compression::default());
        to.write_all(&[b'x'; 1000]).unwrap();
        let whole = to.finish().unwrap();
        let read = |body: &[u8]| deflated(body, 1000, |_| Ok(()));
        assert_eq!(read(&whole).unwrap(), [b'x'; 1000][..]);
        let said = read(&[&whole[..], b"more"].concat()).unwrap_err().to_string();
        assert!(said.ends_with("must end with its data, got 4 more bytes"), "{said}");
        assert!(read(&[&whole[..], &whole[..]].concat()).is_err());
        assert!(read(&whole[..whole.len() - 1]).is_err(), "cut off");
    }

    #[test]
    fn capacity_of_a_multipart_body_is_charged() {
        let two = [packed(b"one, "), packed(b"two")].concat();
        assert_eq!(unpacked(&two, 100).unwrap(), "one, two");
        assert!(unpacked(&[packed(b"one"), b"more".into()].concat(), 100).is_err());
        let charged = std::cell::Cell::new(0);
        let pay = |bytes| {
            charged.set(charged.get() + bytes);
            Ok(())
        };
        let body = packed(&vec![0; 3 * STEP_BYTES + 1]);
        let all = read(Members::of(&body), 10 * STEP_BYTES, pay).unwrap();
        let all = Vec::from(all);
        assert!(all.capacity() as u64 <= charged.get(), "{} of {}", charged.get(), all.capacity());
    }
}
