//! The file: a line for each kernel, whose fields have tabs between them.

use super::findings::{Entry, Found, findings};
use crate::settings::settings;
use std::io::Write;
use std::sync::Once;

/// Has the file written at the process's end.
pub(super) fn begin() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: a function that calls no driver.
        unsafe { libc::atexit(end) };
    });
}

extern "C" fn end() {
    let Some(path) = &settings().reruns else { return };
    let lines: String = findings().0.iter().map(|(name, entry)| line(name, entry)).collect();
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    let _ = file.and_then(|mut file| file.write_all(lines.as_bytes())); // the program has ended
}

/// Name, launches, checked ones, those by parts, what the text says, what was found, parameter,
/// byte, parts that ran, all parts, reasons.
fn line(name: &str, entry: &Entry) -> String {
    let (found, at, parts) = match entry.found {
        None => ("none", None, None),
        Some(Found::Twice(at)) => ("twice", Some(at), None),
        Some(Found::AfterPart(at, some, all)) => ("part", Some(at), Some((some, all))),
        Some(Found::Noise(at)) => ("noise", Some(at), None),
    };
    let (parameter, byte) = at.map_or((0, 0), |at| (at.parameter, at.byte));
    let (some, all) = parts.unwrap_or((0, 0));
    let plain = |text: &str| text.replace(['\t', '\n'], " ");
    let reason = |why: &Option<String>| why.as_deref().map(plain).unwrap_or_default();
    let Entry { launches, checked, by_parts, verdict, .. } = entry;
    let (left_out, no_parts) = (reason(&entry.left_out), reason(&entry.no_parts));
    format!(
        "{}\t{launches}\t{checked}\t{by_parts}\t{verdict}\t{found}\t{parameter}\t{byte}\t{some}\t{all}\t{left_out}\t\
         {no_parts}\n",
        plain(name)
    )
}
