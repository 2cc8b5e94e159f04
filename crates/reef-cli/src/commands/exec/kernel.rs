//! The kernel's limit of a program's memory, next to the library's.

use super::limits::Limited;
use crate::report::usage::Usage;
use anyhow::{Result, bail};
use reef_guest::limit::{self, Cgroups, KernelLimits};

/// Gives this process, which becomes the program, limits by the kernel, if any are asked for and
/// the kernel has them. Without them the library alone keeps `--memory`.
///
/// # Errors
///
/// A size that can't be read, or `--memory-low` where the kernel doesn't keep it.
pub(super) fn apply(args: &Limited, explains: bool) -> Result<()> {
    let limits = sizes(args)?;
    if limits == KernelLimits::default() {
        return Ok(());
    }
    let files = Cgroups::default();
    let entered = limit::own_cgroup()
        .and_then(|own| limit::limit_by_kernel(&files, &own, std::process::id(), limits));
    match entered {
        Ok(cgroup) if explains => {
            note!("reef: memory: the kernel keeps the limit too, in cgroup {}", cgroup.display());
        }
        Err(why) if limits.low.is_some() => bail!("not run: --memory-low: {why}"),
        Err(why) if explains => {
            note!("reef: memory: the library alone keeps the limit: {why}");
        }
        _ => {}
    }
    Ok(())
}

fn sizes(args: &Limited) -> Result<KernelLimits> {
    let bytes = |name: &str, size: &Option<String>| {
        let read = size
            .as_ref()
            .map(|size| limit::bytes(size).map_err(|why| Usage(format!("{name} {size}: {why}"))));
        read.transpose()
    };
    let limits = KernelLimits {
        max: bytes("--memory", &args.memory)?,
        low: bytes("--memory-low", &args.memory_low)?,
    };
    if let (Some(max), Some(low)) = (limits.max, limits.low)
        && low > max
    {
        let [low, max] = [low, max].map(limit::format_bytes);
        bail!(Usage(format!("--memory-low must be at most --memory, which is {max}, got {low}")));
    }
    Ok(limits)
}
