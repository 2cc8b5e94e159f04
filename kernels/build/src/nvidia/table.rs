//! A line for each kernel, build and target: the table that is committed.

use super::compile::Image;
use super::resources::Resources;
use super::toolchain::{OWN_VERSION, VERSION};
use std::fmt::Write;

/// One line for each kernel, build and target.
pub(crate) fn table(images: &[Image]) -> String {
    let mut table = format!(
        "Made by `cargo xtask kernels` with CUDA {VERSION}, sm_90a with {OWN_VERSION}. Registers are per thread, threads the\n\
         most of a block, bytes of stack and spills per thread and of shared memory per block.\n\n"
    );
    let heads = ["threads", "registers", "stack", "stores", "loads", "shared"];
    row(&mut table, ["kernel", "build", "target"], heads.map(Into::into));
    let mut rows: Vec<_> = rows(images).collect();
    rows.sort_by_key(|(image, kernel)| {
        (&image.source, &kernel.kernel, image.build, image.target.arch())
    });
    for (image, kernel) in rows {
        let name = format!("{}.{}", image.source, kernel.kernel);
        let numbers = [
            kernel.threads.map_or("–".into(), |threads| threads.to_string()),
            kernel.registers.to_string(),
            kernel.stack.to_string(),
            kernel.spill_stores.to_string(),
            kernel.spill_loads.to_string(),
            kernel.shared.to_string(),
        ];
        row(&mut table, [&name, image.build, &image.target.to_string()], numbers);
    }
    table
}

fn row(table: &mut String, [kernel, build, target]: [&str; 3], numbers: [String; 6]) {
    let [threads, registers, stack, stores, loads, shared] = numbers;
    writeln!(
        table,
        "{kernel:<40} {build:<8} {target:<10} {threads:>7} {registers:>9} {stack:>6} {stores:>6} {loads:>6} {shared:>6}"
    )
    .expect("a String takes everything");
}

/// Kernels that take more than is good.
pub(crate) fn excesses(images: &[Image]) -> impl Iterator<Item = String> {
    rows(images).filter_map(|(image, kernel)| {
        let why = kernel.excess()?;
        Some(format!("{}, {}, {}: {why}", kernel.kernel, image.build, image.target))
    })
}

fn rows(images: &[Image]) -> impl Iterator<Item = (&Image, &Resources)> {
    images.iter().flat_map(|image| image.kernels.iter().map(move |kernel| (image, kernel)))
}
