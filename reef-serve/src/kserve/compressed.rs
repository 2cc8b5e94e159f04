//! Bodies by gzip and deflate.

use crate::error::{Error, Result};
use crate::net::quota::charge::Charge;
use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::http::header::AsHeaderName;
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use std::io::Read;

/// Bytes that are charged for at a time.
const STEP: usize = 64 << 10;

/// Ways in which a body, or a message of gRPC, is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Gzip,
    Deflate,
}

impl Encoding {
    /// What `header` says; `None` if nothing is compressed.
    ///
    /// # Errors
    ///
    /// `Unimplemented` for another way.
    pub(super) fn of(headers: &HeaderMap, header: impl AsHeaderName) -> Result<Option<Self>> {
        let Some(given) = headers.get(header) else { return Ok(None) };
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

/// The body as it was, of `max` bytes at most, which are charged for before they are there.
///
/// # Errors
///
/// `TooLarge`, `Exhausted`; `Invalid` if it is broken.
pub(super) fn inflate(
    body: &[u8],
    encoding: Encoding,
    max: usize,
    charge: &Charge,
) -> Result<Bytes> {
    match encoding {
        Encoding::Gzip => read(MultiGzDecoder::new(body), max, |bytes| charge.add(bytes)),
        Encoding::Deflate => read(ZlibDecoder::new(body), max, |bytes| charge.add(bytes)),
    }
}

fn read(mut from: impl Read, max: usize, charge: impl Fn(u64) -> Result<()>) -> Result<Bytes> {
    let mut all = Vec::new();
    let mut part = vec![0; STEP];
    loop {
        let wrong = |e| Error::Invalid(format!("compressed body: {e}"));
        let bytes = from.read(&mut part).map_err(wrong)?;
        if bytes == 0 {
            return Ok(all.into());
        }
        if all.len() + bytes > max {
            let text = format!("body of at most {max} bytes, unpacked (limits.message_mib)");
            return Err(Error::TooLarge(text));
        }
        grow(&mut all, bytes, max, &charge)?;
        all.extend_from_slice(&part[..bytes]);
    }
}

/// Makes room for `more` bytes, twice as much as there was, which is charged for before it is
/// there.
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
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut to = GzEncoder::new(Vec::new(), Compression::default());
        to.write_all(bytes).unwrap();
        to.finish().unwrap()
    }

    fn unpacked(body: &[u8], max: usize) -> Result<Bytes> {
        read(MultiGzDecoder::new(body), max, |_| Ok(()))
    }

    #[test]
    fn what_unpacks_to_too_much_is_refused_before_it_is_there() {
        let body = packed(&vec![0; 10 << 20]);
        assert!(body.len() < 20 << 10);
        assert_eq!(unpacked(&body, 10 << 20).unwrap().len(), 10 << 20);
        assert!(matches!(unpacked(&body, 1 << 20), Err(Error::TooLarge(_))));
        let poor = |_| Err(Error::Exhausted("no more".into()));
        assert!(matches!(
            read(MultiGzDecoder::new(&*body), 10 << 20, poor),
            Err(Error::Exhausted(_))
        ));
        let broken = unpacked(&body[..body.len() / 2], 10 << 20).unwrap_err().to_string();
        assert!(broken.starts_with("compressed body: "), "{broken}");
    }

    #[test]
    fn all_parts_of_a_body_count_and_what_is_held_is_charged() {
        let two = [packed(b"one, "), packed(b"two")].concat();
        assert_eq!(unpacked(&two, 100).unwrap(), "one, two");
        assert!(unpacked(&[packed(b"one"), b"more".into()].concat(), 100).is_err());
        let charged = std::cell::Cell::new(0);
        let pay = |bytes| {
            charged.set(charged.get() + bytes);
            Ok(())
        };
        let body = packed(&vec![0; 3 * STEP + 1]);
        let all = read(MultiGzDecoder::new(&*body), 10 * STEP, pay).unwrap();
        let all = Vec::from(all);
        assert!(all.capacity() as u64 <= charged.get(), "{} of {}", charged.get(), all.capacity());
    }
}
