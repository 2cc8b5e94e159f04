//! Resources of a compute unit that each kernel takes, as a table that is committed: a kernel that
//! grows shows as a changed line.

use super::clang::VERSION;
use super::image::Image;
use std::fmt::Write;

const HEADS: [&str; 7] = ["threads", "vgprs", "sgprs", "spills", "private", "shared", "parameters"];

/// One line for each kernel and build.
pub(crate) fn table(images: &[Image]) -> String {
    let mut table = format!(
        "Made by `cargo xtask kernels` with {VERSION}. Threads are the most of a\n\
         workgroup, vgprs per lane, sgprs per wave, private bytes per lane, shared bytes per workgroup\n\
         without what a launch adds, parameters in bytes.\n\n"
    );
    row(&mut table, ["kernel", "build"], HEADS.map(Into::into));
    let mut rows: Vec<_> = images
        .iter()
        .flat_map(|image| image.kernels.iter().map(move |kernel| (image, kernel)))
        .collect();
    rows.sort_by_key(|(image, kernel)| (&image.source, &kernel.name, image.build));
    for (image, kernel) in rows {
        let name = format!("{}.{}", image.source, kernel.name);
        let numbers = [
            kernel.threads,
            kernel.vgprs,
            kernel.sgprs,
            kernel.spills,
            kernel.private,
            kernel.shared,
            kernel.parameters,
        ];
        row(&mut table, [&name, image.build], numbers.map(|number| number.to_string()));
    }
    table
}

fn row(table: &mut String, [kernel, build]: [&str; 2], numbers: [String; HEADS.len()]) {
    write!(table, "{kernel:<28} {build:<8}").expect("a String takes everything");
    for (head, number) in HEADS.iter().zip(numbers) {
        write!(table, " {number:>0$}", head.len()).expect("a String takes everything");
    }
    table.push('\n');
}
