//! Digests: BLAKE3, as text in hexadecimal.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::io;

/// A BLAKE3 digest.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// The digest as it stands in a file.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    fn from_hex(text: &str) -> Option<Self> {
        // Digits of one case, so that each digest has one text.
        let is_plain = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != 64 || !text.as_bytes().iter().all(is_plain) {
            return None;
        }
        let byte = |k: usize| u8::from_str_radix(&text[2 * k..2 * k + 2], 16).ok();
        let bytes: Option<Vec<u8>> = (0..32).map(byte).collect();
        bytes?.try_into().ok().map(Self)
    }
}

/// The first digits, for people.
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..6].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{self:?}"))
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::from_hex(&text)
            .ok_or_else(|| D::Error::custom("a digest must be 64 digits of 0-9a-f"))
    }
}

/// Digests what is written to it.
#[derive(Default)]
pub(crate) struct DigestWriter(blake3::Hasher);

impl DigestWriter {
    pub(crate) fn digest(&self) -> Digest {
        Digest(*self.0.finalize().as_bytes())
    }
}

impl fmt::Write for DigestWriter {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}

impl io::Write for DigestWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The digest of nothing, of BLAKE3's test vectors.
    const EMPTY: &str = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";

    #[test]
    fn digests_are_those_of_blake3() {
        assert_eq!(format!("{:?}", Digest::of(b"")), EMPTY);
        assert_eq!(Digest::of(b"").to_string(), EMPTY[..12]);
        assert_eq!(DigestWriter::default().digest(), Digest::of(b""));
    }

    #[test]
    fn each_digest_has_one_text() {
        assert_eq!(Digest::from_hex(EMPTY), Some(Digest::of(b"")));
        let upper = EMPTY.to_uppercase();
        for wrong in [&EMPTY[1..], &upper, &format!("{EMPTY}0"), &format!("+{}", &EMPTY[1..])] {
            assert_eq!(Digest::from_hex(wrong), None, "{wrong}");
        }
    }
}
