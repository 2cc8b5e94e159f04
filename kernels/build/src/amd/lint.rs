//! Rules that every kernel obeys on AMD's GPUs, read from its metadata and its instructions.

use super::code_object::Kernel;
use super::image::Image;
use super::listing::function;
use super::live::{Load, loads};

/// Bytes of shared memory that a workgroup can have.
const SHARED: u64 = 64 << 10;
/// SIMDs of a compute unit.
const SIMDS: u64 = 4;
const LANES: u64 = 64;
/// Vector registers of a SIMD for each lane, given out in fours.
const VGPRS: u64 = 256;
const VGPR_GRANULE: u64 = 4;
/// Bytes of `Guard`.
const GUARD: u64 = 72;

/// Kernels that are never stopped, as they have no guard.
const UNGUARDED: [&str; 3] = ["report", "stamp", "store"];
/// Kernels that look while they run; all others do when they start.
const POLLING: [&str; 20] = [
    "append",
    "contract_32x32",
    "contract_64x64",
    "contract_f32",
    "contract_f64",
    "contract_i64",
    "fold_f32",
    "fold_f64",
    "fold_i64",
    "fold_u64",
    "scan_f32",
    "scan_f64",
    "scan_i64",
    "scatter_f32",
    "scatter_f64",
    "scatter_i64",
    "scatter_u64",
    "top_f64",
    "top_i64",
    "top_u64",
];

/// Faults of the kernels of an image.
pub(crate) fn faults(image: &Image) -> Vec<String> {
    let of_kernel = |kernel: &Kernel| {
        let mut faults = excesses(kernel);
        if !UNGUARDED.contains(&kernel.name.as_str()) {
            faults.extend(misplaced_guard(kernel));
            if image.build != "plain" {
                faults.extend(stale_polls(&kernel.name, &polls(image, kernel)));
            }
        }
        let name = format!("{}.{}, {}", image.source, kernel.name, image.build);
        faults.into_iter().map(move |fault| format!("{name}: {fault}"))
    };
    image.kernels.iter().flat_map(of_kernel).collect()
}

/// Resources that a kernel takes beyond those of a compute unit.
pub(crate) fn excesses(kernel: &Kernel) -> Vec<String> {
    let Kernel { threads, vgprs, spills, private, shared, .. } = *kernel;
    let waves = threads.div_ceil(LANES).div_ceil(SIMDS);
    let rules = [
        (spills > 0, format!("{spills} registers spilled")),
        (private > 0, format!("{private} bytes of private memory for each thread")),
        (shared > SHARED, format!("{shared} bytes of shared memory, most is {SHARED}")),
        (
            vgprs.next_multiple_of(VGPR_GRANULE) * waves > VGPRS,
            format!("{vgprs} vector registers for {threads} threads"),
        ),
    ];
    rules.into_iter().filter(|(broken, _)| *broken).map(|(_, fault)| fault).collect()
}

/// The host passes the guard first, by value.
pub(crate) fn misplaced_guard(kernel: &Kernel) -> Option<String> {
    let first = kernel.arguments.first();
    let is_guard = first.is_some_and(|first| {
        (first.offset, first.size, first.kind.as_str()) == (0, GUARD, "by_value")
    });
    (!is_guard).then(|| format!("its first parameter is not a guard: {first:?}"))
}

fn polls(image: &Image, kernel: &Kernel) -> Vec<Load> {
    let code = function(&image.instructions, &kernel.name);
    kernel.parameters_at.map_or(Vec::new(), |at| loads(&code, at))
}

/// A preemption point that a cache may answer never sees that the kernel is to stop.
fn stale_polls(kernel: &str, polls: &[Load]) -> Vec<String> {
    let mut faults: Vec<_> = polls
        .iter()
        .filter(|poll| !poll.bypasses)
        .map(|poll| {
            format!("{} of the live word at {:#x} without glc", poll.mnemonic, poll.address)
        })
        .collect();
    if polls.is_empty() {
        faults.push("it never looks".into());
    } else if POLLING.contains(&kernel) && !polls.iter().any(|poll| poll.in_loop) {
        faults.push("it doesn't look again while it runs".into());
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amd::code_object::Argument;

    fn kernel() -> Kernel {
        let guard = Argument { offset: 0, size: 72, kind: "by_value".into() };
        Kernel { threads: 256, vgprs: 128, arguments: vec![guard], ..Kernel::default() }
    }

    #[test]
    fn a_workgroup_fits_a_compute_unit() {
        assert_eq!(excesses(&kernel()), [""; 0]);
        assert_eq!(excesses(&Kernel { vgprs: 256, ..kernel() }), [""; 0]);
        let broken = [
            Kernel { spills: 1, ..kernel() },
            Kernel { private: 16, ..kernel() },
            Kernel { shared: (64 << 10) + 1, ..kernel() },
            Kernel { threads: 257, vgprs: 129, ..kernel() },
            Kernel { threads: 1024, vgprs: 65, ..kernel() },
        ];
        for kernel in broken {
            assert_eq!(excesses(&kernel).len(), 1, "{kernel:?}");
        }
        assert_eq!(excesses(&Kernel { threads: 1024, vgprs: 64, ..kernel() }), [""; 0]);
    }

    #[test]
    fn the_guard_comes_first() {
        assert_eq!(misplaced_guard(&kernel()), None);
        assert!(misplaced_guard(&Kernel { arguments: Vec::new(), ..kernel() }).is_some());
        let mut other = kernel();
        other.arguments[0].size = 56;
        assert!(misplaced_guard(&other).is_some());
    }

    #[test]
    fn polls_are_fresh_and_made_where_they_must_be() {
        let poll = |bypasses, in_loop| Load {
            address: 0x2700,
            mnemonic: "global_load_dword".into(),
            bypasses,
            in_loop,
        };
        assert_eq!(stale_polls("add", &[poll(true, false)]), [""; 0]);
        assert_eq!(stale_polls("append", &[poll(true, false), poll(true, true)]), [""; 0]);
        assert_eq!(stale_polls("append", &[poll(true, false)]).len(), 1, "only when it starts");
        assert_eq!(stale_polls("add", &[poll(true, false), poll(false, false)]).len(), 1, "cached");
        assert_eq!(stale_polls("add", &[]).len(), 1, "never");
    }
}
