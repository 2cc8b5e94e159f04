//! From sources to images in their folder.

use super::compile::all;
use super::table::{excesses, table};
use super::toolchain::Toolchain;
use crate::error::Result;
use crate::folder::Contents;
use crate::places::Places;

/// Makes the images, or with `check` says whether those that are there are the same.
pub(crate) fn run(places: &Places, check: bool) -> Result<()> {
    let toolchain = match Toolchain::get(&places.target.join("toolchain")) {
        Ok(toolchain) => toolchain,
        Err(error) if check => {
            println!("skipped: images for NVIDIA's GPUs are not compared: {error}");
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let images = all(&places.sources(), &toolchain, &places.target.join("kernels"))?;
    let notes: Vec<_> = excesses(&images).collect();
    let table = table(&images);
    let images = images.into_iter().map(|image| (image.file(), image.code)).collect();
    let (contents, folder) = (Contents { images, table }, places.root.join("reef-cuda/images"));
    if check {
        return contents.compare(&folder);
    }
    contents.write(&folder)?;
    notes.iter().for_each(|excess| println!("note: {excess}"));
    Ok(())
}
