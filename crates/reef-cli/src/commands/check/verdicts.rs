//! Verdicts on all kernels of an image.

use reef_ptx::verdict::Verdict;
use reef_ptx::{Error, Image, Module, kernels};
use std::collections::BTreeMap;

/// All that a file holds.
pub(super) struct Found {
    pub(super) kernels: Vec<Row>,
    /// Kernels whose machine code has no PTX next to it, by compute capability. A kernel that
    /// another entry has PTX for is not among them.
    pub(super) without_ptx: BTreeMap<u32, usize>,
    /// Texts that are not read, by container.
    pub(super) unread: Vec<(&'static str, Error)>,
}

/// Kernel with PTX.
pub(super) struct Row {
    pub(super) name: String,
    pub(super) container: &'static str,
    /// As the text has it: `sm_90a`.
    pub(super) target: String,
    pub(super) instructions: usize,
    pub(super) verdict: Verdict,
}

/// Reads an image.
///
/// # Errors
///
/// It is not device code, or no text of it can be read.
pub(super) fn read(bytes: &[u8]) -> Result<Found, Error> {
    let image = Image::read(bytes)?;
    let mut found = Found { kernels: Vec::new(), without_ptx: BTreeMap::new(), unread: Vec::new() };
    for source in &image.sources {
        let container = source.container.name();
        match Module::read(&source.text) {
            Ok(module) => add(&mut found.kernels, container, &module),
            Err(error) => found.unread.push((container, error)),
        }
    }
    if let ([(_, error)], [], []) = (&found.unread[..], &found.kernels[..], &image.machine[..]) {
        return Err(error.clone());
    }
    for code in image.machine.iter().filter(|code| !code.has_ptx) {
        let has_ptx = |name: &String| found.kernels.iter().any(|row| row.name == *name);
        let alone = code.kernels.iter().filter(|name| !has_ptx(name)).count();
        if alone > 0 {
            *found.without_ptx.entry(code.capability).or_default() += alone;
        }
    }
    Ok(found)
}

fn add(rows: &mut Vec<Row>, container: &'static str, module: &Module<'_>) {
    for kernel in kernels(module) {
        rows.push(Row {
            name: kernel.name().to_owned(),
            container,
            target: module.target().to_owned(),
            instructions: kernel.instructions(),
            verdict: kernel.verdict(),
        });
    }
}
