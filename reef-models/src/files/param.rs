//! Parameter files: `MODEL.param`.
//!
//! Little-endian and packed:
//!
//! ```text
//! "TVM_MODEL_PARAMS\0"    17 bytes
//! entries                 u64, not 0
//! entries times:
//!     name                at most 255 bytes, then a 0
//!     floats              u64, not 0
//!     values              f32 each
//! ```
//!
//! REEF trusts the file; here a file is read whole or refused with the place where it goes wrong.

use crate::errors::error::{Error, Result};
pub use crate::errors::param_problem::Problem;
use crate::files::whole;
use crate::graph::schedule::{ElementType, ScheduleGraph};
use crate::memory::budget::Budget;
use crate::memory::ledger::Ledger;
use crate::memory::list::List;
pub use crate::model::params::Params;
use std::path::Path;

/// The first bytes of every file.
const MAGIC: &[u8; 17] = b"TVM_MODEL_PARAMS\0";

/// Longest name in bytes, so that REEF's own reader has room for it and its 0.
const MAX_NAME_LEN: usize = 255;

/// Bytes that a tensor takes besides its values: its name, its place in a map, its vector.
const TENSOR: u64 = 512;

impl Params {
    /// Reads a parameter file with memory of `budget`.
    ///
    /// # Errors
    ///
    /// `Io` if the file can't be read, `Param` if it is broken, `Memory`.
    pub fn load(path: impl AsRef<Path>, budget: &Budget) -> Result<Self> {
        let bytes = whole::read(path.as_ref(), &Ledger::new(budget))?;
        let file = path.as_ref().display().to_string();
        Self::from_bytes(&bytes, budget).map_err(|problem| match problem {
            Problem::Memory(why) => Error::Memory { file, at: "its tensors".into(), why },
            problem => Error::Param { file, problem },
        })
    }

    /// Writes a parameter file.
    ///
    /// # Errors
    ///
    /// `Param` if the format can't hold it, `Io`.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let bytes = self.bytes_of(path.as_ref())?;
        let file = path.as_ref().display().to_string();
        reef_files::write(path, bytes).map_err(|error| Error::Io { file, why: error.to_string() })
    }

    /// The bytes of a parameter file, which errors name.
    pub(crate) fn bytes_of(&self, path: &Path) -> Result<Vec<u8>> {
        let file = || path.display().to_string();
        self.to_bytes().map_err(|problem| Error::Param { file: file(), problem })
    }

    /// Parses the bytes of a parameter file with memory of `budget`.
    ///
    /// # Errors
    ///
    /// The first fault of the bytes.
    pub fn from_bytes(bytes: &[u8], budget: &Budget) -> Result<Self, Problem> {
        let ledger = Ledger::new(budget);
        let mut reader = Reader { bytes, at: 0 };
        reader.magic()?;
        let entries = reader.number("the number of entries")?;
        if entries == 0 {
            return Err(Problem::NoEntries);
        }
        let mut params = Self::default();
        for _ in 0..entries {
            ledger.keep(TENSOR)?;
            let (name, values) = reader.entry(&ledger)?;
            if params.tensors.insert(name.clone(), values).is_some() {
                return Err(Problem::Twice(name));
            }
        }
        match bytes.len() - reader.at {
            0 => Ok(params),
            more => Err(Problem::Trailing(more)),
        }
    }

    /// The bytes that [`from_bytes`](Self::from_bytes) parses.
    ///
    /// # Errors
    ///
    /// If there are no tensors, one is empty, or a name doesn't fit the format.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Problem> {
        if self.tensors.is_empty() {
            return Err(Problem::NoEntries);
        }
        let mut bytes = MAGIC.to_vec();
        bytes.extend((self.tensors.len() as u64).to_le_bytes());
        for (name, values) in &self.tensors {
            check_name(name, 0)?;
            if values.is_empty() {
                return Err(Problem::NoValues(name.clone()));
            }
            bytes.extend(name.bytes().chain([0]));
            bytes.extend((values.len() as u64).to_le_bytes());
            bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
        Ok(bytes)
    }

    /// Checks that every tensor is a parameter of `graph` and as large as its storage.
    ///
    /// Storages without a tensor are fine: inputs are among them.
    ///
    /// # Errors
    ///
    /// The first tensor that doesn't fit.
    pub fn check(&self, graph: &ScheduleGraph) -> Result<(), Problem> {
        for (name, values) in &self.tensors {
            let storage = graph
                .storage(name)
                .filter(|index| graph.given.contains(index))
                .map(|index| &graph.storages[index])
                .ok_or_else(|| Problem::Unknown(name.clone()))?;
            let (name, given, want) = (name.clone(), values.len(), storage.elements);
            if storage.element != ElementType::Float32 {
                return Err(Problem::Type { name, want: storage.element });
            }
            if given != want {
                return Err(Problem::Size { name, given, want });
            }
        }
        Ok(())
    }
}

fn check_name(name: &str, at: usize) -> Result<(), Problem> {
    if name.len() > MAX_NAME_LEN {
        return Err(Problem::NameTooLong { at, length: name.len() });
    }
    if name.is_empty() || name.contains('\0') {
        return Err(Problem::Name(name.into()));
    }
    Ok(())
}

/// A cursor over the file.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn magic(&mut self) -> Result<(), Problem> {
        let begin = &self.bytes[..self.bytes.len().min(MAGIC.len())];
        if begin != MAGIC {
            return Err(Problem::Magic(String::from_utf8_lossy(begin).into_owned()));
        }
        self.at = MAGIC.len();
        Ok(())
    }

    fn take(&mut self, need: u64, inside: &str) -> Result<&'a [u8], Problem> {
        let rest = &self.bytes[self.at..];
        let taken = usize::try_from(need).ok().and_then(|need| rest.get(..need));
        let taken = taken.ok_or_else(|| Problem::Truncated {
            inside: inside.into(),
            at: self.at,
            need,
            have: rest.len(),
        })?;
        self.at += taken.len();
        Ok(taken)
    }

    fn number(&mut self, inside: &str) -> Result<u64, Problem> {
        let bytes = self.take(8, inside)?;
        Ok(bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    fn entry(&mut self, ledger: &Ledger) -> Result<(String, Vec<f32>), Problem> {
        let name = self.name()?;
        let floats = self.number(&format!("the length of \"{name}\""))?;
        if floats == 0 {
            return Err(Problem::NoValues(name));
        }
        let bytes = self.take(floats.saturating_mul(4), &format!("the values of \"{name}\""))?;
        let (words, _) = bytes.as_chunks::<4>();
        let values = words.iter().map(|&word| f32::from_le_bytes(word));
        Ok((name, List::of(words.len(), values, ledger)?.into_vec()))
    }

    fn name(&mut self) -> Result<String, Problem> {
        let (at, rest) = (self.at, &self.bytes[self.at..]);
        let window = &rest[..rest.len().min(MAX_NAME_LEN + 1)];
        let Some(length) = window.iter().position(|&byte| byte == 0) else {
            return Err(if rest.len() > MAX_NAME_LEN {
                Problem::NameTooLong { at, length: window.len() }
            } else {
                Problem::Truncated {
                    inside: "a name".into(),
                    at,
                    need: rest.len() as u64 + 1,
                    have: rest.len(),
                }
            });
        };
        let bytes = self.take(length as u64 + 1, "a name")?;
        let name = String::from_utf8_lossy(&bytes[..length]).into_owned();
        match std::str::from_utf8(&bytes[..length]) {
            Ok(text) if !text.is_empty() => Ok(name),
            _ => Err(Problem::Name(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params() -> Params {
        let tensors = [("p0".to_owned(), vec![1.0, -2.5]), ("p1".to_owned(), vec![0.0])];
        Params { tensors: tensors.into() }
    }

    /// The bytes of [`params`] with `change` applied, and what reading them says.
    fn broken(change: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut bytes = params().to_bytes().unwrap();
        change(&mut bytes);
        Params::from_bytes(&bytes, &Budget::default()).unwrap_err().to_string()
    }

    #[test]
    fn written_params_read_back_equal() {
        let bytes = params().to_bytes().unwrap();
        assert_eq!(bytes.len(), 17 + 8 + (3 + 8 + 8) + (3 + 8 + 4));
        assert_eq!(Params::from_bytes(&bytes, &Budget::default()).unwrap(), params());
    }

    #[test]
    fn every_cut_is_noticed() {
        let bytes = params().to_bytes().unwrap();
        for length in 0..bytes.len() {
            assert!(
                Params::from_bytes(&bytes[..length], &Budget::default()).is_err(),
                "cut to {length} bytes"
            );
        }
    }

    #[test]
    fn every_defect_has_its_words() {
        assert_eq!(
            broken(|b| b[0] = b'X'),
            r#"no parameter file: begins with "XVM_MODEL_PARAMS\0""#
        );
        assert_eq!(broken(|b| b[17] = 0), "0 entries");
        assert_eq!(broken(|b| b[28] = 0), "\"p0\" has 0 values");
        assert_eq!(broken(|b| b[45] = b'0'), "two entries \"p0\"");
        assert_eq!(broken(|b| b[25] = 0xff), "unusable name \"\u{fffd}0\"");
        assert_eq!(broken(|b| b.push(7)), "1 bytes after the last entry");
        let cut = "ends inside the values of \"p1\": 4 bytes needed at byte 55, 3 there";
        assert_eq!(broken(|b| b.truncate(58)), cut);
        let long = broken(|b| b.splice(25..27, [b'x'; 256]).for_each(drop));
        assert_eq!(long, "name of 256 bytes at byte 25, most is 255");
        assert!(
            broken(|b| b[35] = 0x80).contains("ends inside the values of \"p0\""),
            "huge count"
        );
    }

    #[test]
    fn the_writer_refuses_what_the_reader_would() {
        let with =
            |name: &str, values| Params { tensors: [(name.into(), values)].into() }.to_bytes();
        assert_eq!(Params::default().to_bytes(), Err(Problem::NoEntries));
        assert_eq!(with("p", vec![]), Err(Problem::NoValues("p".into())));
        assert_eq!(with("a\0b", vec![1.0]), Err(Problem::Name("a\0b".into())));
        let length = 256;
        let long = "x".repeat(length);
        assert_eq!(with(&long, vec![1.0]), Err(Problem::NameTooLong { at: 0, length }));
    }
}
