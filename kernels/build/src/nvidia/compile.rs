//! Compilation of a source to its images.

use super::resources::{self, Resources};
use super::target::{Target, for_own, targets};
use super::toolchain::Toolchain;
use crate::error::Result;
use crate::nvrtc::{self, Nvrtc, Program, options};
use crate::sources::{BUILDS, QUANTIZED, Selection, TURNS, with_ending};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::thread;

/// Words of `ptxas` when products of warpgroups wait for each other: correct, and slow.
const SERIALIZED: &str = "wgmma.mma_async instructions are serialized";

/// One file to be.
pub(crate) struct Image {
    /// The source's, without its ending.
    pub(crate) source: String,
    pub(crate) build: &'static str,
    pub(crate) target: Target,
    pub(crate) code: Vec<u8>,
    /// Resources of each kernel. For PTX, as `ptxas` would compile it for the least GPU that it is
    /// for.
    pub(crate) kernels: Vec<Resources>,
}

impl Image {
    fn stem(&self) -> String {
        format!("{}-{}-{}", self.source, self.build, self.target)
    }

    /// Path below the folder of all packages of images.
    pub(crate) fn file(&self) -> String {
        format!("{}/{}/{}.z", self.target.package(), self.target, self.stem())
    }
}

/// The images of the chosen sources in a folder, in the order of their files. `scratch` takes what
/// the compilers pass on.
pub(crate) fn all(
    sources: &Path,
    selection: &Selection,
    toolchain: &Toolchain,
    scratch: &Path,
) -> Result<Vec<Image>> {
    fs::create_dir_all(scratch)?;
    let compiler = Compiler {
        nvrtc: Nvrtc::open(&toolchain.nvrtc)?,
        toolchain,
        scratch,
        headers: headers(sources)?,
    };
    let waiting = Mutex::new(planned_images(sources, selection)?.into_iter());
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let one_after_another = || -> Result<Vec<Image>> {
        let next = || waiting.lock().expect("no thread panics with it").next();
        std::iter::from_fn(next).map(|(text, image)| compiler.finish(&text, image)).collect()
    };
    let done: Result<Vec<_>> = thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(one_after_another)).collect();
        all.into_iter().map(|thread| thread.join().expect("compiling doesn't panic")).collect()
    });
    let mut images: Vec<_> = done?.into_iter().flatten().collect();
    images.sort_by_key(Image::file);
    Ok(images)
}

/// Each image that is to be, still empty, with its source.
fn planned_images(sources: &Path, selection: &Selection) -> Result<Vec<(String, Image)>> {
    let mut wanted = Vec::new();
    let all = with_ending(sources, ".cu")?;
    for (source, text) in all.into_iter().filter(|(source, _)| selection.has(source)) {
        let builds = builds(&source);
        let pairs = targets(&source)
            .iter()
            .flat_map(|target| builds.iter().map(move |build| (*target, *build)));
        wanted.extend(pairs.map(|(target, build)| {
            let source = source.clone();
            (text.clone(), Image { source, build, target, code: Vec::new(), kernels: Vec::new() })
        }));
    }
    Ok(wanted)
}

/// Kernels of tensors, and those of numbers of 8 bits, are not worth a third build: narrow launches
/// of them come one behind the other.
fn builds(source: &str) -> Vec<&'static str> {
    let turns = (!["tensor", QUANTIZED].contains(&source)).then_some(TURNS);
    BUILDS.map(|(build, _)| build).into_iter().chain(turns).collect()
}

/// Headers that sources include, from the same folder.
fn headers(sources: &Path) -> Result<Vec<(String, String)>> {
    let headers = with_ending(sources, ".h")?;
    Ok(headers.into_iter().map(|(name, text)| (name + ".h", text)).collect())
}

struct Compiler<'a> {
    nvrtc: Nvrtc,
    toolchain: &'a Toolchain,
    scratch: &'a Path,
    /// Names and texts of what sources include.
    headers: Vec<(String, String)>,
}

impl Compiler<'_> {
    fn finish(&self, text: &str, mut image: Image) -> Result<Image> {
        let ptx = self.ptx(text, &image)?;
        let (cubin, messages) = self.cubin(&ptx, &image)?;
        image.kernels = resources::parse(&messages, &String::from_utf8_lossy(&ptx))?;
        image.code = match image.target {
            Target::Cubin(_) | Target::Own(_) => cubin,
            Target::Ptx(_) => ptx,
        };
        Ok(image)
    }

    fn ptx(&self, text: &str, image: &Image) -> Result<Vec<u8>> {
        let turns = image.build == TURNS;
        let mut options = options(turns || BUILDS.contains(&(image.build, true))).to_vec();
        options.extend(turns.then_some("-DREEF_TURNS=1"));
        let headers: Vec<(&str, &str)> =
            self.headers.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let ptx = self.nvrtc.compile(&Program {
            name: &format!("{}.cu", image.source),
            source: text,
            headers: &headers,
            options: &options,
            target: nvrtc::Target::Ptx(image.target.arch()),
        })?;
        match image.target {
            Target::Own(_) => Ok(for_own(&String::from_utf8(ptx)?)?.into()),
            _ => Ok(ptx),
        }
    }

    /// Machine code, and what `ptxas` says about it. PTX is compiled too: NVRTC doesn't look into
    /// `asm`.
    fn cubin(&self, ptx: &[u8], image: &Image) -> Result<(Vec<u8>, String)> {
        let (input, output) = (image.stem() + ".ptx", image.stem() + ".cubin");
        fs::write(self.scratch.join(&input), ptx.strip_suffix(b"\0").unwrap_or(ptx))?;
        // Names without a folder, so that no path of this machine can get into the image.
        let ptxas = match image.target {
            Target::Own(_) => &self.toolchain.own_ptxas,
            _ => &self.toolchain.ptxas,
        };
        let said = Command::new(ptxas)
            .current_dir(self.scratch)
            .args(["-v", "-O3", &format!("-arch={}", image.target.gpu()), &input, "-o", &output])
            .output()?;
        let messages = String::from_utf8_lossy(&said.stderr).into_owned();
        if !said.status.success() {
            return Err(format!("ptxas: {}\n{messages}", image.stem()).into());
        }
        if messages.contains(SERIALIZED) {
            return Err(format!("ptxas: {}: {SERIALIZED}\n{messages}", image.stem()).into());
        }
        Ok((fs::read(self.scratch.join(&output))?, messages))
    }
}
