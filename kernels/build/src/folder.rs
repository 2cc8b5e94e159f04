//! A folder of images that ship with a backend, and their table.

use crate::error::Result;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The table next to the images: resources of the device that each kernel takes.
const TABLE: &str = "resources.txt";

/// Expected contents of a folder.
pub(crate) struct Contents {
    /// Names of files and what they hold, unpacked.
    pub(crate) images: Vec<(String, Vec<u8>)>,
    pub(crate) table: String,
}

impl Contents {
    /// Puts the images in place of those that are there.
    pub(crate) fn write(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder)?;
        for stale in names(folder)?.iter().filter(|name| !self.has(name)) {
            fs::remove_file(folder.join(stale))?;
        }
        let mut total = 0;
        for (name, code) in &self.images {
            let path = folder.join(name);
            // An image that holds the same stays, whatever this version of the packer would make of
            // it.
            if read(&path).as_ref() != Some(code) {
                fs::write(&path, miniz_oxide::deflate::compress_to_vec_zlib(code, 10))?;
            }
            total += fs::metadata(&path)?.len();
        }
        fs::write(folder.join(TABLE), &self.table)?;
        println!("{} images, {} KiB packed", self.images.len(), total.div_ceil(1024));
        Ok(())
    }

    /// An error if the images or the table in the folder are not these.
    pub(crate) fn compare(&self, folder: &Path) -> Result<()> {
        let same = |name: &str, code: &Vec<u8>| read(&folder.join(name)).as_ref() == Some(code);
        let stale = self.images.iter().filter(|(name, code)| !same(name, code));
        let mut wrong: Vec<_> = stale.map(|(name, _)| format!("stale: {name}")).collect();
        let have = names(folder)?;
        let unknown = have.iter().filter(|name| !self.has(name));
        wrong.extend(unknown.map(|name| format!("of no source: {name}")));
        let table = fs::read_to_string(folder.join(TABLE)).unwrap_or_default();
        wrong.extend(differences(&table, &self.table));
        if wrong.is_empty() {
            println!("{} images are those of the sources", self.images.len());
            return Ok(());
        }
        let wrong = wrong.join("\n");
        Err(format!(
            "{TABLE} or images are not of the present sources\n{wrong}\nrun `cargo xtask kernels`"
        )
        .into())
    }

    fn has(&self, file: &str) -> bool {
        self.images.iter().any(|(name, _)| name == file)
    }
}

/// The images in a folder, by file name.
fn names(folder: &Path) -> Result<Vec<String>> {
    let files = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    let names = files.iter().map(|file| file.file_name().to_string_lossy().into_owned());
    Ok(names.filter(|name| name.ends_with(".z")).collect())
}

/// An image unpacked, if it is there and whole.
pub(crate) fn read(path: &Path) -> Option<Vec<u8>> {
    miniz_oxide::inflate::decompress_to_vec_zlib(&fs::read(path).ok()?).ok()
}

/// The lines that only one of two tables has, old ones with a minus.
fn differences(old: &str, new: &str) -> Vec<String> {
    let [of_old, of_new] = [old, new].map(|table| table.lines().collect::<BTreeSet<_>>());
    let gone = of_old.difference(&of_new).map(|line| format!("- {line}"));
    let come = of_new.difference(&of_old).map(|line| format!("+ {line}"));
    gone.chain(come).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_lines_are_shown_from_both_sides() {
        assert_eq!(differences("a\nb 1\n", "a\nb 2\n"), ["- b 1", "+ b 2"]);
    }
}
