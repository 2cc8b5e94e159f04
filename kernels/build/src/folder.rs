//! A folder of images that ship with a backend, and their table.
//!
//! Images and rows of sources that were not chosen stay as they are.

use crate::error::Result;
use crate::sources::Selection;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The table next to the images: resources of the device that each kernel takes.
const TABLE: &str = "resources.txt";

/// Expected contents of a folder, of the chosen sources.
pub(crate) struct Contents<'a> {
    pub(crate) selection: &'a Selection,
    /// Paths of files and what they hold, unpacked.
    pub(crate) images: Vec<(String, Vec<u8>)>,
    pub(crate) table: String,
}

impl Contents<'_> {
    /// Puts the images in place of those that are there.
    pub(crate) fn write(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder)?;
        for stale in self.unknown(folder)? {
            fs::remove_file(folder.join(stale))?;
        }
        let mut total = 0;
        for (name, code) in &self.images {
            let path = folder.join(name);
            // An image that holds the same stays, whatever this version of the packer would make of
            // it.
            if read(&path).as_ref() != Some(code) {
                fs::create_dir_all(path.parent().unwrap_or(folder))?;
                fs::write(&path, miniz_oxide::deflate::compress_to_vec_zlib(code, 10))?;
            }
            total += fs::metadata(&path)?.len();
        }
        let table = fs::read_to_string(folder.join(TABLE)).unwrap_or_default();
        fs::write(folder.join(TABLE), self.table_in(&table))?;
        println!("{} images, {} KiB packed", self.images.len(), total.div_ceil(1024));
        Ok(())
    }

    /// An error if the images or the table in the folder are not these.
    pub(crate) fn compare(&self, folder: &Path) -> Result<()> {
        let same = |name: &str, code: &Vec<u8>| read(&folder.join(name)).as_ref() == Some(code);
        let stale = self.images.iter().filter(|(name, code)| !same(name, code));
        let mut wrong: Vec<_> = stale.map(|(name, _)| format!("stale: {name}")).collect();
        wrong.extend(self.unknown(folder)?.iter().map(|name| format!("of no source: {name}")));
        let table = fs::read_to_string(folder.join(TABLE)).unwrap_or_default();
        wrong.extend(differences(&table, &self.table_in(&table)));
        if wrong.is_empty() {
            println!("{} images are those of the sources", self.images.len());
            return Ok(());
        }
        let wrong = wrong.join("\n");
        Err(format!(
            "{TABLE} or images are not of the present sources\n{wrong}\nrun `tools/images_check.sh --make`"
        )
        .into())
    }

    /// Paths of images in a folder that are not among these and of no source that stays.
    fn unknown(&self, folder: &Path) -> Result<Vec<String>> {
        let mut names = names(folder)?;
        names.retain(|name| {
            let is_known = self.images.iter().any(|(known, _)| known == name);
            !is_known && self.selection.has(source_of_image(name))
        });
        Ok(names)
    }

    /// The table, with the rows of other sources that an old one has.
    fn table_in(&self, old: &str) -> String {
        let of_others = rows(old).filter(|row| !self.selection.has(source_of_row(row)));
        let mut all: Vec<&str> = rows(&self.table).chain(of_others).collect();
        all.sort_by_key(|&row| source_of_row(row)); // in a source's rows the order stays
        let head = self.table.lines().count() - rows(&self.table).count();
        let lines = self.table.lines().take(head).chain(all);
        lines.map(|line| format!("{line}\n")).collect()
    }
}

/// Paths of the images below a folder, from there.
fn names(folder: &Path) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_dir() {
            let below = names(&entry.path())?;
            all.extend(below.iter().map(|inner| format!("{name}/{inner}")));
        } else if name.ends_with(".z") {
            all.push(name);
        }
    }
    Ok(all)
}

/// The source of an image: `network` of `…/network-plain-sm_70.z`.
fn source_of_image(path: &str) -> &str {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split('-').next().unwrap_or(file)
}

/// The source of a kernel's row: `network` of `network.relu …`.
fn source_of_row(row: &str) -> &str {
    row.split('.').next().unwrap_or(row)
}

/// Rows of a table, below its text, an empty line and the heads of its columns.
fn rows(table: &str) -> impl Iterator<Item = &str> {
    table.lines().skip_while(|line| !line.is_empty()).skip(2)
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
    use crate::places::Places;

    fn selection(names: &[&str]) -> Selection {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Selection::of(names, &Places::find().sources()).unwrap()
    }

    #[test]
    fn rows_of_sources_that_were_not_chosen_stay() {
        let old = "old\n\nkernel\nbuiltin.add 1\nnetwork.relu 1\nnetwork.gone 1\ntensor.map 1\n";
        let table = "new\n\nkernel\nnetwork.relu 2\n".to_owned();
        let selection = selection(&["network"]);
        let contents = Contents { selection: &selection, images: Vec::new(), table };
        let rows = "builtin.add 1\nnetwork.relu 2\ntensor.map 1\n";
        assert_eq!(contents.table_in(old), format!("new\n\nkernel\n{rows}"));
        assert_eq!(contents.table_in(""), contents.table);
    }

    #[test]
    fn only_images_of_chosen_sources_are_unknown() {
        let folder = Places::find().root.join("crates/images");
        let unknown = |names: &[&str]| {
            let selection = selection(names);
            let contents =
                Contents { selection: &selection, images: Vec::new(), table: String::new() };
            contents.unknown(&folder).unwrap()
        };
        let all = unknown(&[]);
        let of_hopper = unknown(&["hopper"]);
        assert!(all.len() > of_hopper.len() && !of_hopper.is_empty(), "{all:?}");
        assert!(of_hopper.iter().all(|name| all.contains(name) && name.contains("/hopper-")));
    }

    #[test]
    fn source_that_is_not_there_is_refused_with_its_name() {
        let refused = Selection::of(vec!["nothing".to_owned()], &Places::find().sources());
        let error = refused.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.ends_with("tensor, got nothing"), "{error}");
    }

    #[test]
    fn changed_lines_are_shown_from_both_sides() {
        assert_eq!(differences("a\nb 1\n", "a\nb 2\n"), ["- b 1", "+ b 2"]);
    }
}
