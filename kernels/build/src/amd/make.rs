//! From sources to images in their folder.

use super::clang::{Clang, TARGET};
use super::code_object::kernels;
use super::image::Image;
use super::lint::faults;
use super::table::table;
use crate::error::Result;
use crate::folder::Contents;
use crate::places::Places;
use crate::sources::{BUILDS, Selection, TURNS, defines, of_all_gpus};
use std::fs;

/// Makes the images of the chosen sources, or with `check` says whether those that are there are
/// the same. Kernels must obey the rules of `lint` in any case.
pub(crate) fn run(places: &Places, selection: &Selection, check: bool) -> Result<()> {
    let clang = match Clang::find() {
        Ok(clang) => clang,
        Err(error) => {
            println!("skipped: images for AMD's GPUs are not made: {error}");
            return Ok(());
        }
    };
    let images = compile(places, selection, &clang)?;
    let wrong: Vec<_> = images.iter().flat_map(faults).collect();
    if !wrong.is_empty() {
        return Err(format!("kernels for {}\n{}", TARGET, wrong.join("\n")).into());
    }
    let table = table(&images);
    let images = images.into_iter().map(|image| (image.file(), image.code)).collect();
    let contents = Contents { selection, images, table };
    let folder = places.root.join("reef-hip/images");
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

fn compile(places: &Places, selection: &Selection, clang: &Clang) -> Result<Vec<Image>> {
    let scratch = places.target.join("kernels");
    fs::create_dir_all(&scratch)?;
    let mut images = Vec::new();
    let mut sources = of_all_gpus(&places.sources())?;
    sources.retain(|(source, _)| selection.has(source));
    for (source, _) in sources {
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
