//! Detection of NVIDIA's multi-process service (MPS), with its effect on real-time work.
//!
//! A program uses MPS if, when it starts, a control daemon serves the folder that
//! `CUDA_MPS_PIPE_DIRECTORY` names (MPS's manual, "Environment variables"). This module checks the
//! folder that a program with the daemon's environment would use.

use reef_files::{MAX_TOKEN_BYTES, read_to_string};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Variable that names the folder of the control daemon.
pub(super) const FOLDER: &str = "CUDA_MPS_PIPE_DIRECTORY";
/// Folder without the variable.
const DEFAULT_FOLDER: &str = "/tmp/nvidia-mps";

/// Returns one line for the log; `folder` is the variable's value.
pub(super) fn line(folder: Option<OsString>) -> String {
    let folder = folder.filter(|folder| !folder.is_empty());
    let folder = folder.map_or_else(|| PathBuf::from(DEFAULT_FOLDER), PathBuf::from);
    let (shown, slices) = (
        folder.display(),
        "programs get the GPU in time slices, and real-time \
         work that arrives now and then starts about 0.3 ms later than alone",
    );
    match control(&folder) {
        Control::None => format!("MPS: no control daemon at {shown}: {slices}"),
        Control::Stale(pid) => {
            format!("MPS: the control daemon {pid} of {shown} has ended: {slices}")
        }
        Control::Running => format!(
            "MPS: a control daemon serves {shown}: programs that start there share the GPU without time slices"
        ),
    }
}

/// State of a control daemon.
#[derive(Debug, PartialEq, Eq)]
enum Control {
    None,
    /// Its folder exists, and the process of the number in its file does not.
    Stale(u32),
    Running,
}

fn control(folder: &Path) -> Control {
    if !folder.join("control").exists() {
        return Control::None;
    }
    let number = read_to_string(folder.join("nvidia-cuda-mps-control.pid"), MAX_TOKEN_BYTES);
    match number.ok().and_then(|text| text.trim().parse::<u32>().ok()) {
        Some(pid) if !Path::new(&format!("/proc/{pid}")).exists() => Control::Stale(pid),
        // Without the file it belongs to another container with other process numbers.
        _ => Control::Running,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    #[test]
    fn stale_control_daemon_is_detected() {
        let folder = std::env::temp_dir().join(format!("reef-mps-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let said = || line(Some(folder.clone().into()));
        assert!(said().starts_with("MPS: no control daemon at "), "{}", said());
        std::fs::write(folder.join("control"), "").unwrap();
        assert_eq!(control(&folder), Control::Running);
        let pid = folder.join("nvidia-cuda-mps-control.pid");
        std::fs::write(&pid, format!("{}\n", std::process::id())).unwrap();
        assert!(said().contains("without time slices"), "{}", said());
        std::fs::write(&pid, "4294967295\n").unwrap();
        assert_eq!(control(&folder), Control::Stale(u32::MAX));
        std::fs::remove_file(&pid).unwrap();
        mknodat(CWD, &pid, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert_eq!(control(&folder), Control::Running, "and no writer is waited for");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
