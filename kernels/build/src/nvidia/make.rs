//! From sources to images in their folder.

use super::compile::all;
use super::table::{excesses, table};
use super::toolchain::Toolchain;
use crate::error::Result;
use crate::folder::Contents;
use crate::places::Places;
use crate::sources::Selection;

/// Makes the images of the chosen sources, or with `check` says whether those that are there are
/// the same.
pub(crate) fn run(places: &Places, selection: &Selection, check: bool) -> Result<()> {
    let toolchain = match Toolchain::get(&places.target.join("toolchain")) {
        Ok(toolchain) => toolchain,
        Err(error) if check => {
            println!("skipped: images for NVIDIA's GPUs are not compared: {error}");
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let scratch = places.target.join("kernels");
    let images = all(&places.sources(), selection, &toolchain, &scratch)?;
    let notes: Vec<_> = excesses(&images).collect();
    let table = table(&images);
    let images = images.into_iter().map(|image| (image.file(), image.code)).collect();
    let contents = Contents { selection, images, table };
    let folder = places.root.join("crates/images");
    if check {
        return contents.compare(&folder);
    }
    contents.write(&folder)?;
    notes.iter().for_each(|excess| println!("note: {excess}"));
    Ok(())
}
