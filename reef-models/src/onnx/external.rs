//! Data that another file keeps.
//!
//! Both the place and the size are what an untrusted file says. So the other file has to be a real
//! one in the model's folder or below, links resolved. Nothing is allocated before all requested
//! bytes are known to be there.

use super::fault::Result;
use super::file::TensorFile;
use crate::memory::ledger::Ledger;
use crate::memory::list::List;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};

/// Place of a tensor's data in another file.
pub(super) struct External<'a> {
    location: &'a str,
    offset: u64,
    length: Option<u64>,
}

impl<'a> External<'a> {
    pub(super) fn of(tensor: &TensorFile<'a>) -> Result<Self> {
        let mut external = Self { location: "", offset: 0, length: None };
        for &(key, value) in &tensor.external {
            let number = || value.parse().map_err(|_| format!("external data: {key} {value:?}"));
            match key {
                "location" => external.location = value,
                "offset" | "length" if value.is_empty() => {} // left out, as in ONNX Runtime
                "offset" => external.offset = number()?,
                "length" => external.length = Some(number()?),
                _ => {}
            }
        }
        Ok(external)
    }

    /// The file as it is named, and where it really is.
    pub(super) fn place(&self, folder: &Path) -> Result<(PathBuf, PathBuf)> {
        let parts = Path::new(self.location).components();
        let place = parts.filter(|part| !matches!(part, Component::CurDir)).collect();
        Ok((place, self.inside(folder)?))
    }

    /// Reads the `want` bytes that the tensor takes from a file in `folder` or below.
    pub(super) fn read(
        &self,
        folder: Option<&Path>,
        want: u64,
        ledger: &Ledger,
    ) -> Result<List<u8>> {
        let folder = folder.ok_or("its data is in another file")?;
        let place = self.location;
        if let Some(length) = self.length.filter(|&length| length != want) {
            return Err(format!("{place}: {length} bytes for a tensor that takes {want}"));
        }
        let system = |error: io::Error| format!("{place}: {error}");
        let path = self.inside(folder)?;
        let about = path.metadata().map_err(system)?;
        if !about.is_file() {
            return Err(format!("{place}: no file")); // opening a pipe would wait for ever
        }
        let (offset, there) = (self.offset, about.len());
        if offset.checked_add(want).is_none_or(|end| end > there) {
            return Err(format!("{place} has {there} bytes, {want} at {offset} are not inside"));
        }
        let want = usize::try_from(want).unwrap_or(usize::MAX);
        let mut bytes = List::filled(0, want, ledger)?;
        read(&path, offset, &mut bytes).map_err(system)?;
        Ok(bytes)
    }

    /// The file with links resolved, which has to lie in `folder` or below.
    fn inside(&self, folder: &Path) -> Result<PathBuf> {
        let outside = || format!("external data outside of the folder: {:?}", self.location);
        let location = Path::new(self.location);
        let plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
        if self.location.is_empty() || !location.components().all(plain) {
            return Err(outside());
        }
        let resolved = |path: &Path| {
            path.canonicalize().map_err(|error| format!("{}: {error}", self.location))
        };
        // A bare file name has an empty folder, which is the current one.
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let (path, folder) = (resolved(&folder.join(location))?, resolved(folder)?);
        if path.starts_with(folder) { Ok(path) } else { Err(outside()) }
    }
}

fn read(path: &Path, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
    let mut file = reef_files::regular(path)?;
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(bytes)
}
