//! Format of a record.
//!
//! ```text
//! template u16 │ position u16 │ tokens
//! 0                                    switch: template u16, position u16 follow
//! 1..=191                              number of operations that are as in the template
//! 192                                  operation with changes: count, changes, payload
//! change                               words that are passed over, difference of the word
//! ```
//!
//! Counts are varints of seven bits a byte. A difference is that of the word as the template has
//! it, modulo 2⁶⁴, with its sign in the lowest bit. The new word stays in the template, at both
//! ends. A payload has the length that the template says. `u16` is little-endian.

use crate::error::Malformed;

/// Token: another template follows.
pub(crate) const SWITCH: u8 = 0;
/// Largest token of operations without changes.
pub(crate) const MAX_RUN: u8 = 191;
/// Token: one operation with changes.
pub(crate) const CHANGED: u8 = 192;

/// Place in a template, as it lies in a record.
pub(crate) fn place(template: u16, at: usize) -> [u8; 4] {
    let ([a, b], [c, d]) = (template.to_le_bytes(), (at as u16).to_le_bytes());
    [a, b, c, d]
}

/// Appends a number.
pub(crate) fn put(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Appends the difference of a word.
pub(crate) fn put_difference(to: &mut Vec<u8>, was: u64, is: u64) {
    let difference = is.wrapping_sub(was) as i64;
    put(to, (difference << 1 ^ difference >> 63) as u64);
}

/// Rest of a record or a definition.
#[derive(Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let too_short = || Malformed::new(format!("record: must have {len} more bytes"));
        let (taken, rest) = self.0.split_at_checked(len).ok_or_else(too_short)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn short(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.take(2)?.try_into().expect("it has 2 bytes")))
    }

    pub(crate) fn long(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into().expect("it has 4 bytes")))
    }

    /// Takes a number that [`put`] has written.
    pub(crate) fn number(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Malformed::new("record: a number must have at most 10 bytes"))
    }

    /// Takes a difference, and returns the word.
    pub(crate) fn word(&mut self, was: u64) -> Result<u64, Malformed> {
        let coded = self.number()?;
        let difference = (coded >> 1) as i64 ^ -((coded & 1) as i64);
        Ok(was.wrapping_add(difference as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_words_round_trip() {
        let numbers = [0, 1, 0x7f, 0x80, 0x3fff, 0x4000, u64::MAX - 1, u64::MAX, 1 << 63];
        for is in numbers {
            let mut bytes = Vec::new();
            put(&mut bytes, is);
            assert_eq!(Reader(&bytes).number(), Ok(is));
            for was in numbers {
                let mut bytes = Vec::new();
                put_difference(&mut bytes, was, is);
                let mut reader = Reader(&bytes);
                assert_eq!((reader.word(was), reader.is_empty()), (Ok(is), true), "{was} {is}");
            }
        }
        let mut bytes = Vec::new();
        put_difference(&mut bytes, 1000, 999);
        assert_eq!(bytes, [1], "a counter costs one byte");
    }

    #[test]
    fn cut_and_endless_numbers_are_refused() {
        assert!(Reader(&[0x80]).number().is_err());
        assert!(Reader(&[0x80; 11]).number().is_err());
        assert!(Reader(&[1]).short().is_err());
    }
}
