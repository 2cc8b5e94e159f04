//! All that an image holds.

use super::fatbin::{Entry, Kind, MAGIC as FATBIN};
use super::{cubin, program, ptx};
use crate::error::Error;
use std::borrow::Cow;

/// Upper bound of all PTX that one image holds.
const MAX_TEXT: usize = 1 << 30;

/// Device code of a file, or of what a program hands to the driver.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image {
    /// PTX texts, each once, in the order of the image.
    pub sources: Vec<Source>,
    /// Machine code, in the order of the image.
    pub machine: Vec<MachineCode>,
    /// Names of variables in global and constant memory, each once.
    pub variables: Vec<String>,
    /// Packed entries that this build cannot unpack.
    pub packed: usize,
}

/// PTX of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Place in which it was found.
    pub container: Container,
    /// The text, whose first directive is `.version`.
    pub text: String,
}

/// Place in which PTX was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Container {
    /// The image is PTX.
    Text,
    /// An entry of a fatbin.
    Fatbin,
    /// A section of a CUBIN, which `-lineinfo` adds. It has no `.loc`.
    Cubin,
}

impl Container {
    /// Name for reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "ptx",
            Self::Fatbin => "fatbin",
            Self::Cubin => "cubin",
        }
    }
}

/// Machine code of one CUBIN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineCode {
    /// Compute capability, as 90.
    pub capability: u32,
    /// Names of its kernels.
    pub kernels: Vec<String>,
    /// Its PTX is one of [`Image::sources`].
    pub has_ptx: bool,
}

impl Image {
    /// Reads a program, a shared library, a fatbin, a CUBIN or PTX.
    ///
    /// # Errors
    ///
    /// It is none of these, or is damaged.
    pub fn read(image: &[u8]) -> Result<Self, Error> {
        let mut read = Self::default();
        if image.starts_with(&cubin::MAGIC) {
            if cubin::is_cubin(image) {
                read.add_cubin(image)?;
            } else {
                program::read(image, |entry| read.add_entry(&entry))?;
                if read.is_empty() {
                    return Err(Error::Image("this program holds no device code"));
                }
            }
        } else if image.starts_with(&FATBIN) {
            program::fatbins(image, &mut |entry| read.add_entry(&entry))?;
        } else {
            read.add_text(Container::Text, ptx::check(image)?.to_owned())?;
        }
        Ok(read)
    }

    fn is_empty(&self) -> bool {
        self.sources.is_empty() && self.machine.is_empty() && self.packed == 0
    }

    fn add_entry(&mut self, entry: &Entry<'_>) -> Result<(), Error> {
        let Some(code) = code(entry)? else {
            self.packed += 1;
            return Ok(());
        };
        if entry.kind == Kind::Ptx {
            self.add_text(Container::Fatbin, ptx::check(&code)?.to_owned())
        } else if code.starts_with(&cubin::MAGIC) {
            self.add_cubin(&code)
        } else {
            let capability = entry.capability;
            self.machine.push(MachineCode { capability, kernels: Vec::new(), has_ptx: false });
            Ok(())
        }
    }

    fn add_cubin(&mut self, image: &[u8]) -> Result<(), Error> {
        let cubin::Cubin { capability, kernels, variables, ptx } = cubin::read(image)?;
        self.add_variables(variables);
        self.machine.push(MachineCode { capability, kernels, has_ptx: ptx.is_some() });
        ptx.map_or(Ok(()), |text| self.add_text(Container::Cubin, text))
    }

    fn add_text(&mut self, container: Container, text: String) -> Result<(), Error> {
        if self.sources.iter().any(|source| source.text == text) {
            return Ok(());
        }
        let held: usize = self.sources.iter().map(|source| source.text.len()).sum();
        if held + text.len() > MAX_TEXT {
            return Err(Error::Image("the PTX of this image has more than 1 GiB"));
        }
        self.add_variables(ptx::variables(&text));
        self.sources.push(Source { container, text });
        Ok(())
    }

    fn add_variables(&mut self, names: Vec<String>) {
        for name in names {
            if !self.variables.contains(&name) {
                self.variables.push(name);
            }
        }
    }
}

/// Code of an entry; `None` if it is packed and this build cannot unpack.
#[cfg(feature = "unpack")]
pub(super) fn code<'a>(entry: &Entry<'a>) -> Result<Option<Cow<'a, [u8]>>, Error> {
    super::unpack::unpack(entry).map(Some)
}

#[cfg(not(feature = "unpack"))]
pub(super) fn code<'a>(entry: &Entry<'a>) -> Result<Option<Cow<'a, [u8]>>, Error> {
    let is_plain = entry.packing == super::fatbin::Packing::Plain;
    Ok(is_plain.then_some(entry.payload.into()))
}

#[cfg(test)]
mod tests {
    use super::super::fatbin::tests::of;
    use super::*;

    const PTX: &[u8] = b".version 9.0\n.target sm_90\n";

    #[test]
    fn text_is_found_plain_and_packed() {
        let plain = Image::read(&of(1, PTX, 0, 0)).unwrap();
        assert_eq!(plain.sources[0].text.as_bytes(), PTX);
        // An LZ4 block of literals alone: 15 + 12 of them.
        let block = [b"\xf0\x0c", PTX].concat();
        let packed = Image::read(&of(1, &block, 0x2000, PTX.len() as u64)).unwrap();
        assert_eq!(packed, plain);
    }

    #[test]
    fn fatbins_behind_each_other_are_all_read() {
        let two = [of(1, PTX, 0, 0), vec![0; 24], of(1, b".version 8.0\n", 0, 0)].concat();
        assert_eq!(Image::read(&two).unwrap().sources.len(), 2);
        assert!(Image::read(&[of(1, PTX, 0, 0), b"x".to_vec()].concat()).is_err());
    }

    #[test]
    fn machine_code_of_nvidia_has_its_kernels() {
        let image = Image::read(include_bytes!("../../tests/bump.fatbin")).unwrap();
        assert!(!image.machine.is_empty() || !image.sources.is_empty());
    }
}
