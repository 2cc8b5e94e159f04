//! Lists that another server sends: few bytes may be many elements, so the memory that these take
//! is counted before they are kept.

use reef_wire::codec;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error, SeqAccess, Visitor};
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

thread_local! {
    /// Bytes that lists of the value that is read may still take. `None`: they are exceeded, or
    /// nothing is read.
    static LEFT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Reads a value whose lists take at most `most` bytes of memory together. It has each of its lists
/// read by [`list`], but for lists of bytes.
///
/// # Errors
///
/// An error of the format; longer lists.
pub(crate) fn read<T: DeserializeOwned>(bytes: &[u8], most: usize) -> Result<T, String> {
    LEFT.set(Some(most));
    let value = codec::read(bytes);
    match (value, LEFT.replace(None)) {
        (Ok(value), _) => Ok(value),
        (Err(_), None) => Err(format!("lists: must take at most {most} bytes of memory")),
        (Err(error), Some(_)) => Err(error.to_string()),
    }
}

fn take(bytes: usize) -> Option<()> {
    let left = LEFT.get().and_then(|left| left.checked_sub(bytes));
    LEFT.set(left);
    left.map(drop)
}

/// Reads a list, for serde's `deserialize_with`.
///
/// # Errors
///
/// An error of the format; a list that takes more memory than is left.
pub(crate) fn list<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    from.deserialize_seq(List(PhantomData))
}

struct List<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Vec<T>, A::Error> {
        let mut all = Vec::new();
        while let Some(next) = elements.next_element()? {
            take(size_of::<T>()).ok_or_else(|| A::Error::custom("the list is too long"))?;
            all.push(next);
        }
        Ok(all)
    }
}
