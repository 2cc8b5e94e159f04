//! Files of Alnair's profiler, in its three versions.

use super::super::api::{Api, Set};
use super::super::ring::Call;
use super::super::totals::Totals;

/// Functions whose calls have a line in the timeline.
pub const TIMELINE_CALLS: [Api; 4] = [Api::Init, Api::CopyIn, Api::CopyInAsync, Api::CopyOut];

/// Returns [`TIMELINE_CALLS`] as a set.
pub fn timeline_calls() -> Set {
    Set::of(&TIMELINE_CALLS)
}

/// Returns count and burst of some functions: calls, and host time in microseconds.
fn sum(totals: &Totals, apis: &[Api]) -> (u64, u64) {
    let of = |api: &Api| (totals.of(*api).count, totals.of(*api).micros);
    apis.iter().map(of).fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1))
}

/// Returns `metrics.log` of version 1.
pub fn metrics_1(totals: &Totals) -> String {
    let names: [(&str, &[Api]); 7] = [
        ("cuInit", &[Api::Init]),
        ("cuMemAlloc", &[Api::Alloc]),
        ("cuMemFree", &[Api::Free]),
        ("cuLaunchKernel", &[Api::Launch]),
        ("cuMemcpyH2D", &[Api::CopyIn, Api::CopyInAsync]),
        ("cuMemcpyD2H", &[Api::CopyOut]),
        ("cuGetProcAddress", &[Api::LookUp]),
    ];
    let lines = names.map(|(name, apis)| {
        let (count, burst) = sum(totals, apis);
        format!("name:{name}\ncount:{count}\nburst:{burst}\n")
    });
    lines.concat()
}

/// Returns `metrics.log` of version 2, with the allocated bytes. Functions of the runtime API are
/// never counted.
pub fn metrics_2(totals: &Totals, used: u64) -> String {
    let names: [(&str, &[Api]); 10] = [
        ("cuInit", &[Api::Init]),
        ("cuMemAlloc", &[Api::Alloc]),
        ("cuMemFree", &[Api::Free]),
        ("cuLaunchKernel", &[Api::Launch]),
        ("cuMemcpyH2D", &[Api::CopyIn]),
        ("cuMemcpyD2H", &[Api::CopyOut]),
        ("cuGetProcAddress", &[Api::LookUp]),
        ("cuMemcpyH2D_ASYNC", &[Api::CopyInAsync]),
        ("cudaMemcpy", &[]),
        ("cudaMemcpyAsync", &[]),
    ];
    let lines = names.map(|(name, apis)| {
        let (count, burst) = sum(totals, apis);
        format!("name:{name},count:{count},burst:{burst}\n")
    });
    format!("name:mem_used,count:{used}\n{}", lines.concat())
}

/// Returns the four lines of version 3.
pub fn metrics_3(totals: &Totals, pid: u32, used: u64) -> String {
    let launches = totals.of(Api::Launch);
    let (count, threads) = (launches.count, launches.amount);
    format!("pid:{pid}\nkernel-cnt:{count}\nmem-used:{used}\ntoken-cnt:{threads}\n")
}

/// Returns the line of `timeline.log` of version 1; `start` in nanoseconds since 1970. `None`: the
/// call has none.
pub fn line_1(call: &Call, start: u64) -> Option<String> {
    let name = match call.api {
        Api::Init => "cuInit",
        Api::CopyIn | Api::CopyInAsync => "cuMemcpyH2D",
        Api::CopyOut => "cuMemcpyD2H",
        _ => return None,
    };
    Some(format!("name:{name} start:{start} burst:{}\n", call.nanos / 1000))
}

/// Returns the line of version 2. The kind is the runtime's `cudaMemcpyKind`: 1 to the device, 2 to
/// the host, 0 otherwise.
pub fn line_2(call: &Call, start: u64) -> Option<String> {
    let (name, kind) = match call.api {
        Api::Init => ("cuInit", 0),
        Api::CopyIn => ("cuMemcpyH2D", 1),
        Api::CopyInAsync => ("cuMemcpyH2D_ASYNC", 1),
        Api::CopyOut => ("cuMemcpyD2H", 2),
        _ => return None,
    };
    let (burst, bytes) = (call.nanos / 1000, call.amount);
    Some(format!("name:{name}, start:{start}, burst:{burst}, bytes:{bytes}, kind:{kind}\n"))
}
