//! Traces for Perfetto (ui.perfetto.dev) and Chrome, in files.

use reef::{Span, perfetto};
use reef_files::NewFile;
use std::io::{BufWriter, IntoInnerError};
use std::path::Path;
use std::time::Duration;

/// The only group of tracks.
const PROCESS: u32 = 1;

/// Writes one row per unit, with a slice for each block.
pub(crate) fn write(path: &Path, process: &str, spans: &[Span]) -> std::io::Result<()> {
    let mut file = BufWriter::new(NewFile::new(path)?);
    let name = perfetto::process(PROCESS, process);
    let blocks = perfetto::blocks(PROCESS, spans, Duration::ZERO);
    perfetto::write(&mut file, std::iter::once(name).chain(blocks))?;
    file.into_inner().map_err(IntoInnerError::into_error)?.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn a_trace_is_json_with_a_slice_for_each_block() {
        let nanos = Duration::from_nanos;
        let span = Span::new("conv \"7\"", 1, nanos(1500), nanos(2750));
        let path = std::env::temp_dir().join(format!("reef-trace-{}.json", std::process::id()));
        write(&path, "test", &[span]).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let trace: Value = serde_json::from_str(&text).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        assert_eq!(events.len(), 1 + 1 + 1);
        let slice = events.last().unwrap();
        assert_eq!((slice["ts"].as_f64(), slice["dur"].as_f64()), (Some(1.5), Some(1.25)));
        assert_eq!(slice["tid"], 1);
    }
}
