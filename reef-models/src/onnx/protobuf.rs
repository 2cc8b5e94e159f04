//! The wire format of protocol buffers, read in place.
//!
//! Nothing is allocated for what a file merely claims to hold, lists are charged to a budget, and
//! messages are opened one level at a time by the caller, so neither a wrong length nor deep
//! nesting does any harm. (The crates that read ONNX allocate what a length says and recurse into
//! subgraphs.)

use crate::memory::budget::Exhausted;
use crate::memory::ledger::Ledger;
use crate::memory::list::List;

/// Longest name or path: errors quote them.
const MAX_TEXT_LEN: usize = 4096;

/// Maximum number of a field, which begins at 1.
const MAX_NUMBER: u64 = (1 << 29) - 1;

/// Reason for which bytes are not a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) String);

type Result<T> = std::result::Result<T, Malformed>;

impl From<Exhausted> for Malformed {
    fn from(why: Exhausted) -> Self {
        Self(why.to_string())
    }
}

/// A field of a message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value<'a> {
    /// An integer, an enum or a truth value.
    Varint(u64),
    /// Four bytes: a float.
    Fixed32(u32),
    /// Eight bytes: a double.
    Fixed64(u64),
    /// Text, bytes, a message, or numbers one after the other.
    Bytes(&'a [u8]),
}

/// The fields of one message, in the order in which they stand.
pub(super) struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The next field with its number; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u64, Value<'a>)>> {
        if self.at == self.bytes.len() {
            return Ok(None);
        }
        let key = self.varint()?;
        let number = key >> 3;
        if !(1..=MAX_NUMBER).contains(&number) {
            return Err(Malformed(format!("field of number {number}"))); // also a file of zeros
        }
        let value = match key & 7 {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(u64::from_le_bytes(*self.array()?)),
            2 => {
                let length = self.varint()?;
                Value::Bytes(self.take(length)?)
            }
            5 => Value::Fixed32(u32::from_le_bytes(*self.array()?)),
            kind => return Err(Malformed(format!("field of unknown kind {kind}"))),
        };
        Ok(Some((number, value)))
    }

    fn varint(&mut self) -> Result<u64> {
        let rest = &self.bytes[self.at..];
        let mut number = 0u64;
        for (i, &byte) in rest.iter().take(10).enumerate() {
            number |= u64::from(byte & 0x7f) << (7 * i);
            if byte < 0x80 {
                self.at += i + 1;
                return Ok(number);
            }
        }
        Err(Malformed(
            if rest.len() < 10 { "ends inside a number" } else { "endless number" }.into(),
        ))
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let taken = usize::try_from(length).ok().and_then(|length| rest.get(..length));
        let have = rest.len();
        let taken =
            taken.ok_or_else(|| Malformed(format!("must have {length} bytes, got {have}")))?;
        self.at += taken.len();
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<&'a [u8; N]> {
        let bytes = self.take(N as u64)?;
        Ok(bytes.try_into().expect("as long as was asked for"))
    }
}

impl<'a> Value<'a> {
    pub(super) fn bytes(self) -> Result<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            other => Err(Malformed(format!("must be bytes, got {other:?}"))),
        }
    }

    pub(super) fn text(self) -> Result<&'a str> {
        let bytes = self.bytes()?;
        if bytes.len() > MAX_TEXT_LEN {
            let len = bytes.len();
            return Err(Malformed(format!("text of {len} bytes, most is {MAX_TEXT_LEN}")));
        }
        std::str::from_utf8(bytes).map_err(|_| Malformed("text that isn't UTF-8".into()))
    }

    pub(super) fn int(self) -> Result<i64> {
        match self {
            Self::Varint(number) => Ok(number as i64),
            other => Err(Malformed(format!("must be an integer, got {other:?}"))),
        }
    }

    pub(super) fn float(self) -> Result<f32> {
        match self {
            Self::Fixed32(bits) => Ok(f32::from_bits(bits)),
            other => Err(Malformed(format!("must be a float, got {other:?}"))),
        }
    }

    /// Appends one integer, or all of those packed into bytes.
    pub(super) fn append_ints(self, to: &mut List<i64>, ledger: &Ledger) -> Result<()> {
        let Self::Bytes(bytes) = self else {
            return Ok(to.push(self.int()?, ledger)?);
        };
        let last_bytes = bytes.iter().filter(|&&byte| byte < 0x80);
        to.reserve(last_bytes.count(), ledger)?;
        let mut packed = Fields::of(bytes);
        while packed.at < bytes.len() {
            to.push(packed.varint()? as i64, ledger)?;
        }
        Ok(())
    }

    /// Appends one float, or all of those packed into bytes.
    pub(super) fn append_floats(self, to: &mut List<f32>, ledger: &Ledger) -> Result<()> {
        let Self::Bytes(bytes) = self else {
            return Ok(to.push(self.float()?, ledger)?);
        };
        let (words, []) = bytes.as_chunks::<4>() else {
            return Err(Malformed(format!("{} bytes of floats", bytes.len())));
        };
        let floats = words.iter().map(|&word| f32::from_le_bytes(word));
        Ok(to.append(words.len(), floats, ledger)?)
    }
}

impl Value<'_> {
    /// As [`append_floats`](Self::append_floats), of doubles.
    pub(super) fn append_doubles(self, to: &mut List<f64>, ledger: &Ledger) -> Result<()> {
        if let Self::Fixed64(bits) = self {
            return Ok(to.push(f64::from_bits(bits), ledger)?);
        }
        let (words, []) = self.bytes()?.as_chunks::<8>() else {
            return Err(Malformed("doubles that end inside a number".into()));
        };
        let doubles = words.iter().map(|&word| f64::from_le_bytes(word));
        Ok(to.append(words.len(), doubles, ledger)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::budget::Budget;

    fn fields(bytes: &[u8]) -> Result<Vec<(u64, Value<'_>)>> {
        let mut fields = Fields::of(bytes);
        let mut all = Vec::new();
        while let Some(field) = fields.next()? {
            all.push(field);
        }
        Ok(all)
    }

    #[test]
    fn each_kind_of_field_is_read() {
        let bytes = [0x08, 0x96, 0x01, 0x12, 2, b'h', b'i', 0x1d, 0, 0, 0x80, 0x3f];
        let all = fields(&bytes).unwrap();
        assert_eq!(all[0], (1, Value::Varint(150)));
        assert_eq!((all[1].0, all[1].1.text().unwrap()), (2, "hi"));
        assert_eq!((all[2].0, all[2].1.float().unwrap()), (3, 1.0));
        let negative = [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(fields(&negative).unwrap()[0].1.int().unwrap(), -1);
    }

    #[test]
    fn numbers_are_read_packed_and_one_by_one() {
        let ledger = Ledger::new(&Budget::new(100));
        let mut ints = List::default();
        Value::Bytes(&[3, 0x96, 0x01]).append_ints(&mut ints, &ledger).unwrap();
        Value::Varint(7).append_ints(&mut ints, &ledger).unwrap();
        assert_eq!(*ints, [3, 150, 7]);
        assert!(Value::Bytes(&[0; 5]).append_floats(&mut List::default(), &ledger).is_err());
        let many = Value::Bytes(&[1; 50]).append_ints(&mut List::default(), &ledger).unwrap_err();
        assert_eq!(many.0, "400 bytes of memory wanted, 68 of 100 are left");
    }

    #[test]
    fn cut_or_oversized_fields_are_refused() {
        let say = |bytes: &[u8]| fields(bytes).unwrap_err().0;
        assert_eq!(say(&[0x08]), "ends inside a number");
        assert_eq!(say(&[0xff; 11]), "endless number");
        assert_eq!(say(&[0x12, 5, b'a']), "must have 5 bytes, got 1");
        let huge = [0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
        assert!(say(&huge).ends_with("bytes, got 0"));
        assert_eq!(say(&[0x0b]), "field of unknown kind 3");
        assert_eq!(say(&[0; 1000]), "field of number 0", "a file that was never written");
        assert_eq!(say(&[0x80, 0x80, 0x80, 0x80, 0x10, 0]), "field of number 536870912");
    }
}
