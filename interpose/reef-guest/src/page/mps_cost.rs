//! Prediction of what MPS costs a program, from its own iterations.
//!
//! Under MPS each kernel of a graph begins later after the one before it. What the host launches
//! kernel by kernel waits for the host anyway, and is not counted.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

/// Nanoseconds by which MPS delays each kernel of a graph, at least and at most: in a graph of
/// 1,000 tiny kernels (0.92 and 1.15 µs each), and in that of a language model's token (370
/// kernels in 1.49 and 1.95 ms). H200: docs/operate/side-by-side.md.
const DELAYS: [f64; 2] = [230.0, 1240.0];

/// Variable that names the folder of MPS's control daemon, and the folder without it.
const FOLDER: &str = "CUDA_MPS_PIPE_DIRECTORY";
const DEFAULT_FOLDER: &str = "/tmp/nvidia-mps";

/// Cost of MPS for a program's iterations, in the mean over all of them.
///
/// 20 iterations of 1.52 ms with 370 kernels each without MPS have parts of 5.6 and 30 %.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MpsCost {
    /// Kernels of graphs in an iteration.
    kernels: f64,
    /// Length of an iteration in nanoseconds.
    nanos: f64,
    /// The iterations were measured under MPS.
    is_under_mps: bool,
}

impl MpsCost {
    /// Predicts the cost for a program whose `iterations` took `nanos` nanoseconds together and
    /// launched graphs with `kernels` kernels. `None`: it has no iteration.
    pub fn of(kernels: u64, iterations: u64, nanos: u64, is_under_mps: bool) -> Option<Self> {
        let of_each = |sum: u64| sum as f64 / iterations as f64;
        let (kernels, nanos_each) = (of_each(kernels), of_each(nanos));
        (iterations > 0 && nanos > 0).then_some(Self { kernels, nanos: nanos_each, is_under_mps })
    }

    /// Returns the time that MPS adds to an iteration as a part of the iteration without MPS, at
    /// least and at most. More than 1 is shown as 1: kernels of a graph may run next to each other.
    pub fn parts(&self) -> [f64; 2] {
        DELAYS.map(|delay| {
            let more = delay * self.kernels;
            let added = if self.is_under_mps { more.min(self.nanos / 2.0) } else { 0.0 };
            (more / (self.nanos - added)).min(1.0)
        })
    }
}

impl fmt::Display for MpsCost {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.is_under_mps { "lengthens" } else { "would lengthen" };
        let [least, most] = self.parts().map(|part| 100.0 * part);
        let (kernels, millis) = (self.kernels, self.nanos / 1e6);
        if kernels == 0.0 {
            return write!(out, "MPS {verb} its iterations by nothing: no kernel is in a graph");
        }
        write!(
            out,
            "MPS {verb} its iterations by {least:.1} to {most:.1} %, as predicted from {kernels:.0} kernels of graphs in {millis:.3} ms and 0.23 to 1.24 µs each (H200)"
        )
    }
}

/// Returns whether a control daemon serves the folder that this environment names, so that a
/// program which starts now uses MPS.
pub fn is_mps_served(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let folder = variable(FOLDER).filter(|folder| !folder.is_empty());
    let folder = folder.map_or_else(|| PathBuf::from(DEFAULT_FOLDER), PathBuf::from);
    folder.join("control").exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As measured on an H200: a graph of tiny kernels, and language models of 370 and some 750
    /// kernels a token.
    #[test]
    fn measured_costs_are_within_what_is_predicted() {
        for (kernels, nanos, under) in [
            (1000, 920_000, 1_150_000),
            (370, 1_520_000, 1_900_000),
            (370, 1_487_000, 1_946_000),
            (750, 3_000_000, 3_700_000),
        ] {
            let measured = under as f64 / nanos as f64 - 1.0;
            for (nanos, is_under_mps) in [(nanos, false), (under, true)] {
                let [least, most] = MpsCost::of(kernels, 1, nanos, is_under_mps).unwrap().parts();
                let bounds = 0.99 * least..=1.01 * most;
                assert!(bounds.contains(&measured), "{kernels}: {measured}, {bounds:?}");
            }
        }
    }

    #[test]
    fn long_kernels_and_those_of_no_graph_cost_nothing() {
        let [_, most] = MpsCost::of(50, 1, 50_000_000, false).unwrap().parts();
        assert!(most < 0.002, "50 kernels of a millisecond: {most}");
        let eager = MpsCost::of(0, 10, 50_000_000, true).unwrap();
        assert_eq!(eager.parts(), [0.0, 0.0]);
        let said = eager.to_string();
        assert_eq!(said, "MPS lengthens its iterations by nothing: no kernel is in a graph");
    }

    #[test]
    fn any_numbers_of_a_guest_give_a_cost_or_none() {
        assert_eq!(MpsCost::of(5, 0, 5, false), None);
        assert_eq!(MpsCost::of(5, 5, 0, false), None);
        for is_under_mps in [false, true] {
            for (kernels, iterations, nanos) in
                [(u64::MAX, 1, 1), (1, u64::MAX, 1), (u64::MAX, u64::MAX, u64::MAX)]
            {
                let cost = MpsCost::of(kernels, iterations, nanos, is_under_mps).unwrap();
                let parts = cost.parts();
                assert!(parts.iter().all(|part| (0.0..=1.0).contains(part)), "{parts:?}");
            }
        }
    }

    #[test]
    fn control_daemon_serves_the_folder_of_the_variable() {
        let folder = std::env::temp_dir().join(format!("reef-mps-cost-{}", std::process::id()));
        let is_served = || is_mps_served(|_| Some(folder.clone().into_os_string()));
        let _ = std::fs::remove_dir_all(&folder);
        assert!(!is_served());
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("control"), "").unwrap();
        assert!(is_served());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
