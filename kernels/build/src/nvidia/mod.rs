//! Images for NVIDIA's GPUs, with NVIDIA's compilers of a fixed version.
//!
//! ```text
//! source ─NVRTC→ PTX ─ptxas→ CUBIN, resources ─zlib→ reef-cuda/images/NAME-BUILD-TARGET.z
//! ```

mod compile;
mod resources;
mod toolchain;

use crate::folder::Contents;
use crate::{Places, Result};
use toolchain::Toolchain;

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
    let images = compile::all(&places.sources(), &toolchain, &places.target.join("kernels"))?;
    let excesses: Vec<_> = resources::excesses(&images).collect();
    let table = resources::table(&images);
    let images = images.into_iter().map(|image| (image.file(), image.code)).collect();
    let (contents, folder) = (Contents { images, table }, places.root.join("reef-cuda/images"));
    if check {
        return contents.compare(&folder);
    }
    contents.write(&folder)?;
    excesses.iter().for_each(|excess| println!("note: {excess}"));
    Ok(())
}
