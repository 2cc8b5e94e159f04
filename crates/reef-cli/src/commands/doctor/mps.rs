//! NVIDIA's multi-process service.

use super::finding::{Check, Finding, State};
use crate::remote::daemon::Daemon;
use crate::remote::scrape::{Labels, Scrape};
use reef_guest::page::MpsCost;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest time of an answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Programs of which the cost is shown.
const MAX_PROGRAMS: usize = 3;

/// Variable that names the folder of the control daemon, and the folder without it.
const VARIABLE: &str = "CUDA_MPS_PIPE_DIRECTORY";
const DEFAULT: &str = "/tmp/nvidia-mps";

/// Checks whether programs of this environment share a GPU without time slices. With the costs that
/// are predicted for real-time programs of the daemon whose sockets are in `sockets`.
pub(super) fn finding(sockets: Option<&Path>) -> Finding {
    let folder = std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty());
    let finding = of(&folder.map_or_else(|| PathBuf::from(DEFAULT), PathBuf::from));
    let metrics = Daemon::in_folder(sockets).ok().and_then(|of| of.get("/metrics", TIMEOUT).ok());
    let scrape = Scrape::parse(&String::from_utf8_lossy(&metrics.unwrap_or_default()));
    with_costs(finding, &scrape)
}

/// Adds what MPS costs the real-time programs of a daemon, or would cost them.
fn with_costs(finding: Finding, scrape: &Scrape) -> Finding {
    let is_served = finding.state == State::Ok;
    let programs = scrape.all("reef_guest_iterations_total").iter();
    let costs = programs.filter_map(|(labels, count)| cost(scrape, labels, *count, is_served));
    let all = [finding.found.clone()].into_iter().chain(costs.take(MAX_PROGRAMS));
    Finding { found: all.collect::<Vec<_>>().join("; "), ..finding }
}

/// Predicts the cost for the program with these labels.
fn cost(scrape: &Scrape, labels: &Labels, iterations: f64, is_served: bool) -> Option<String> {
    let is_own = |of: &Labels| of.get("guest") == labels.get("guest");
    let sum = |name: &str| scrape.sum(name, is_own).unwrap_or_default();
    let kernels = sum("reef_guest_graph_kernels_total") as u64;
    let nanos = (1e9 * sum("reef_guest_iteration_seconds_total")) as u64;
    let cost = MpsCost::of(kernels, iterations as u64, nanos, is_served)?;
    Some(format!("pid {}: {cost}", labels.get("pid").map_or("?", String::as_str)))
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

    #[test]
    fn costs_of_real_time_programs_are_predicted() {
        let scrape = Scrape::parse(
            "reef_guest_iterations_total{guest=\"3\",class=\"rt\",pid=\"77\"} 20
reef_guest_iterations_total{guest=\"4\",class=\"be\",pid=\"78\"} 0
reef_guest_graph_kernels_total{guest=\"3\",class=\"rt\",pid=\"77\"} 7400
reef_guest_graph_kernels_total{guest=\"4\",class=\"be\",pid=\"78\"} 0
reef_guest_iteration_seconds_total{guest=\"3\",class=\"rt\",pid=\"77\"} 0.0304
reef_guest_iteration_seconds_total{guest=\"4\",class=\"be\",pid=\"78\"} 0",
        );
        let said = |finding| with_costs(finding, &scrape).found;
        let absent = said(Finding::absent(Check::Mps, "none", "start it"));
        let page = include_str!("../../../../../docs/operate/side-by-side.md");
        let shown = page.lines().find(|line| line.starts_with("MPS would lengthen"));
        assert_eq!(absent, format!("none; pid 77: {}", shown.expect("a prediction")));
        let served = said(Finding::ok(Check::Mps, "runs"));
        assert!(served.starts_with("runs; pid 77: MPS lengthens its iterations by "), "{served}");
        let without = with_costs(Finding::ok(Check::Mps, "runs"), &Scrape::default());
        assert_eq!(without.found, "runs", "an older daemon, or none");
    }
}
