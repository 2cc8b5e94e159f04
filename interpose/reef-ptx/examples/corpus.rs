//! Table of a corpus: `corpus [--variants FOLDER] FILE...` prints a line for each kernel, and
//! writes the variants that there are: `.alone` is the kernel itself, `.ptx` its variant, `.points`
//! its variant with preemption points.
//!
//! Columns: file, kernel, instructions, stop, slice, abandon, run again, reason, line of the PTX,
//! number of preemption points, variant.

use reef_ptx::verdict::Reason;
use reef_ptx::{Image, Module, kernels};
use std::path::Path;
use std::{env, fs};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments: Vec<String> = env::args().skip(1).collect();
    let mut folder = None;
    if arguments.first().is_some_and(|first| first == "--variants") && arguments.len() > 1 {
        folder = arguments.drain(..2).nth(1);
    }
    for file in &arguments {
        if let Err(error) = read(file, folder.as_deref()) {
            println!("{file}\t!\t{error}");
        }
    }
    Ok(())
}

fn read(file: &str, folder: Option<&str>) -> Result<(), Box<dyn std::error::Error>> {
    let image = Image::read(&fs::read(file)?)?;
    for (number, source) in image.sources.iter().enumerate() {
        let module = Module::read(&source.text)?;
        for (at, kernel) in kernels(&module).enumerate() {
            let verdict = kernel.verdict();
            let (stop, slice) = (answer(&verdict.stop), answer(&verdict.slice));
            let (abandon, rerun) = (answer(&verdict.abandon), verdict.rerun.name());
            let reason = verdict.rerun.reason();
            let (cause, line) = reason
                .map_or((String::new(), None), |reason| (reason.cause.to_string(), reason.line));
            let (mut variant_file, points) = (String::new(), kernel.with_preemption_points());
            if let (Some(folder), Ok(variant)) = (folder, kernel.variant()) {
                let stem = Path::new(file).file_stem().unwrap_or_default().to_string_lossy();
                let path = Path::new(folder).join(format!("{stem}.{number}.{at}.ptx"));
                fs::write(path.with_extension("alone"), kernel.source())?;
                fs::write(&path, variant.text)?;
                if let Ok(points) = &points {
                    fs::write(path.with_extension("points"), &points.text)?;
                }
                variant_file = path.display().to_string();
            }
            let (name, count) = (kernel.name(), kernel.instructions());
            let points = points.map_or(0, |variant| variant.points);
            let line = line.map_or_else(String::new, |line| line.to_string());
            println!(
                "{file}\t{name}\t{count}\t{stop}\t{slice}\t{abandon}\t{rerun}\t{cause}\t{line}\t{points}\t{variant_file}"
            );
        }
    }
    Ok(())
}

fn answer(answer: &Result<(), Reason>) -> &'static str {
    answer.as_ref().map_or_else(|reason| reason.cause.name(), |()| "yes")
}
