//! NVIDIA's multi-process service.

use super::finding::{Check, Finding};
use std::path::{Path, PathBuf};

/// Variable that names the folder of the control daemon, and the folder without it.
const VARIABLE: &str = "CUDA_MPS_PIPE_DIRECTORY";
const DEFAULT: &str = "/tmp/nvidia-mps";

/// Checks whether programs of this environment share a GPU without time slices.
pub(super) fn finding() -> Finding {
    let folder = std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty());
    of(&folder.map_or_else(|| PathBuf::from(DEFAULT), PathBuf::from))
}

fn of(folder: &Path) -> Finding {
    let shown = folder.display();
    if !folder.join("control").exists() {
        let found = format!("no control daemon at {shown}: programs get the GPU in time slices");
        return Finding::absent(Check::Mps, found, "nvidia-cuda-mps-control -d");
    }
    let file = folder.join("nvidia-cuda-mps-control.pid");
    let number = reef_files::read_to_string(file, reef_files::MAX_TOKEN_BYTES).ok();
    match number.and_then(|text| text.trim().parse::<u32>().ok()) {
        Some(pid) if !Path::new(&format!("/proc/{pid}")).exists() => {
            let found = format!(
                "the control daemon {pid} of {shown} has ended: programs may fail to start"
            );
            Finding::wrong(Check::Mps, found, "nvidia-cuda-mps-control -d, or remove the folder")
        }
        _ => Finding::ok(Check::Mps, format!("a control daemon serves {shown}")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::State;
    use super::*;

    #[test]
    fn control_daemon_that_ended_is_wrong() {
        let folder = std::env::temp_dir().join(format!("reef-doctor-mps-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        assert_eq!(of(&folder).state, State::Absent);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("control"), "").unwrap();
        for (pid, state) in [(u32::MAX, State::Wrong), (std::process::id(), State::Ok)] {
            std::fs::write(folder.join("nvidia-cuda-mps-control.pid"), format!("{pid}\n")).unwrap();
            assert_eq!(of(&folder).state, state);
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
