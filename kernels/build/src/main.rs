//! Makes `reef-cuda/images` from `kernels/*.cu`, with NVIDIA's compilers of a fixed version; with
//! `--check` says whether what is there is what would be made.
//!
//! ```text
//! source ─NVRTC→ PTX ─ptxas→ CUBIN, resources ─zlib→ images/NAME-BUILD-TARGET.z
//! ```
//!
//! `cargo xtask kernels` runs it. It is a crate of its own so that xtask needs no dependencies and
//! reef-cuda can be built from images that are not there yet.

mod compile;
#[path = "../../../reef-cuda/src/nvrtc.rs"]
#[allow(dead_code)] // reef-cuda searches for the library; here its path is known
mod nvrtc;
mod resources;
mod toolchain;

use compile::Image;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};
use toolchain::Toolchain;

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

/// The table that stands beside the images.
const TABLE: &str = "resources.txt";

fn main() -> ExitCode {
    let check = env::args().any(|argument| argument == "--check");
    match run(check) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kernels: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(check: bool) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let toolchain = match Toolchain::get(&target.join("toolchain")) {
        Ok(toolchain) => toolchain,
        Err(error) if check => {
            println!("skipped: images of device code are not compared: {error}");
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let images = compile::all(&root.join("kernels"), &toolchain, &target.join("kernels"))?;
    let folder = root.join("reef-cuda/images");
    if check { compare(&images, &folder) } else { write(&images, &folder) }
}

/// Puts the images in place of those that are there.
fn write(images: &[Image], folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    for stale in names(folder)?.iter().filter(|name| images.iter().all(|i| i.file() != **name)) {
        fs::remove_file(folder.join(stale))?;
    }
    let mut total = 0;
    for image in images {
        // An image that holds the same stays, whatever this version of the packer would make of it.
        if read(folder, image).as_ref() != Some(&image.code) {
            fs::write(folder.join(image.file()), pack(&image.code))?;
        }
        total += fs::metadata(folder.join(image.file()))?.len();
    }
    fs::write(folder.join(TABLE), resources::table(images))?;
    println!("{} images, {} KiB packed", images.len(), total.div_ceil(1024));
    resources::excesses(images).for_each(|excess| println!("note: {excess}"));
    Ok(())
}

/// An error if the images or the table in the folder are not these.
fn compare(images: &[Image], folder: &Path) -> Result<()> {
    let have = names(folder)?;
    let stale = images.iter().filter(|image| read(folder, image).as_ref() != Some(&image.code));
    let mut wrong: Vec<_> = stale.map(|image| format!("stale: {}", image.file())).collect();
    let unknown = have.iter().filter(|name| images.iter().all(|image| image.file() != **name));
    wrong.extend(unknown.map(|name| format!("of no source: {name}")));
    let table = fs::read_to_string(folder.join(TABLE)).unwrap_or_default();
    wrong.extend(resources::differences(&table, &resources::table(images)));
    if wrong.is_empty() {
        println!("{} images are those of the sources", images.len());
        return Ok(());
    }
    let wrong = wrong.join("\n");
    Err(format!(
        "{TABLE} or images are not of the present sources\n{wrong}\nrun `cargo xtask kernels`"
    )
    .into())
}

/// The images in a folder, by file name.
fn names(folder: &Path) -> Result<Vec<String>> {
    let files = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    let names = files.iter().map(|file| file.file_name().to_string_lossy().into_owned());
    Ok(names.filter(|name| name.ends_with(".z")).collect())
}

fn pack(code: &[u8]) -> Vec<u8> {
    miniz_oxide::deflate::compress_to_vec_zlib(code, 10)
}

fn read(folder: &Path, image: &Image) -> Option<Vec<u8>> {
    let packed = fs::read(folder.join(image.file())).ok()?;
    miniz_oxide::inflate::decompress_to_vec_zlib(&packed).ok()
}
