//! The header of a `.safetensors` file: which tensors there are, and where.

use super::part::{Part, Storage};
use crate::memory::ledger::Ledger;
use crate::memory::list::List;
use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;

/// Longest header: that of a network with ten thousand tensors takes a megabyte.
const MAX_HEADER_LEN: u64 = 100 << 20;
/// Longest name of a tensor: errors quote it.
const MAX_NAME_LEN: usize = 4096;
/// Bytes that an entry takes in memory for each of its bytes in the file, at most: `1,` in a list
/// becomes a number of 8 bytes in a vector that doubles.
const PARSED: u64 = 16;
/// Bytes that a tensor takes besides its name and its values.
const TENSOR: u64 = 256;

/// Tensors by name.
pub(super) struct Header {
    pub(super) entries: BTreeMap<String, Entry>,
}

/// One entry of the header.
#[derive(Deserialize)]
pub(super) struct Entry {
    pub(super) dtype: String,
    pub(super) shape: Vec<u64>,
    pub(super) data_offsets: [u64; 2],
}

impl Header {
    /// The header of a file, and the part that has its values. What it takes stays charged.
    pub(super) fn read<'a>(
        place: Storage<'a>,
        ledger: &Ledger,
    ) -> Result<(Self, Part<'a>), String> {
        let whole = Part::whole(place);
        let mut length = [0; 8];
        if whole.len < 8 {
            return Err("ends inside the header's length".into());
        }
        whole.copy(0, &mut length)?;
        let (length, there) = (u64::from_le_bytes(length), whole.len - 8);
        if length > MAX_HEADER_LEN || length > there {
            return Err(format!("header of {length} bytes, {there} there"));
        }
        ledger.keep(length * PARSED)?;
        let mut text = List::filled(0, length as usize, ledger)?;
        whole.copy(8, &mut text)?;
        let header: Self =
            serde_json::from_slice(&text).map_err(|error| format!("header: {error}"))?;
        ledger.keep(TENSOR * header.entries.len() as u64)?;
        let data = whole.range(8 + length, whole.len).ok_or("no values")?;
        Ok((header, data))
    }
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Entries)
    }
}

struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
        let mut entries = BTreeMap::new();
        while let Some(name) = map.next_key::<String>()? {
            if name == "__metadata__" {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            if name.len() > MAX_NAME_LEN {
                let len = name.len();
                let text = format!("name of {len} bytes, most is {MAX_NAME_LEN}");
                return Err(de::Error::custom(text));
            }
            if entries.contains_key(&name) {
                return Err(de::Error::custom(format!("{name:?} must be there once")));
            }
            let entry = map.next_value();
            let entry = entry.map_err(|error| de::Error::custom(format!("{name:?}: {error}")))?;
            entries.insert(name, entry);
        }
        Ok(Header { entries })
    }
}
