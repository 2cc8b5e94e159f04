//! From sources to images in their folder.

use super::clang::{Clang, TARGET};
use super::code_object::kernels;
use super::image::Image;
use super::lint::faults;
use super::table::table;
use crate::error::Result;
use crate::folder::Contents;
use crate::places::Places;
use crate::sources::{BUILDS, TURNS, defines, of_all_gpus};
use std::fs;

/// Makes the images, or with `check` says whether those that are there are the same. Kernels must
/// obey the rules of `lint` in any case.
pub(crate) fn run(places: &Places, check: bool) -> Result<()> {
    let clang = match Clang::find() {
        Ok(clang) => clang,
        Err(error) => {
            println!("skipped: images for AMD's GPUs are not made: {error}");
            return Ok(());
        }
    };
    let images = compile(places, &clang)?;
    let wrong: Vec<_> = images.iter().flat_map(faults).collect();
    if !wrong.is_empty() {
        return Err(format!("kernels for {}\n{}", TARGET, wrong.join("\n")).into());
    }
    let table = table(&images);
    let images = images.into_iter().map(|image| (image.file(), image.code)).collect();
    let (contents, folder) = (Contents { images, table }, places.root.join("reef-hip/images"));
    match clang.is_recorded() {
        Err(why) => println!(
            "skipped: images for AMD's GPUs are linted, but neither compared nor made: {why}"
        ),
        Ok(()) if check => contents.compare(&folder)?,
        Ok(()) => contents.write(&folder)?,
    }
    Ok(())
}

/// Kernels of networks spill scalar registers where blocks take turns, so there is no such build of
/// them.
fn builds(source: &str) -> Vec<&'static str> {
    let turns = (source == "builtin").then_some(TURNS);
    BUILDS.map(|(build, _)| build).into_iter().chain(turns).collect()
}

fn compile(places: &Places, clang: &Clang) -> Result<Vec<Image>> {
    let scratch = places.target.join("kernels");
    fs::create_dir_all(&scratch)?;
    let mut images = Vec::new();
    for (source, _) in of_all_gpus(&places.sources())? {
        for build in builds(&source) {
            let output = scratch.join(format!("{source}-{build}.hsaco"));
            clang.compile(&places.sources(), &source, &defines(build), &output)?;
            let code = fs::read(&output)?;
            let kernels = kernels(&code)?;
            let instructions = clang.disassemble(&output)?;
            images.push(Image { source: source.clone(), build, code, kernels, instructions });
        }
    }
    Ok(images)
}
