//! Choice of a device for a model, on plain numbers.
//!
//! Real-time instances are kept on separate devices for as long as possible. Then the device with
//! the fewest best-effort instances comes first, then the one with the least load, then the one
//! with the most free memory.

use crate::error::{Error, Result};
use crate::models::description::Placing;
use std::cmp::Reverse;

/// Figures of a device for the choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate {
    /// Index among the daemon's devices.
    pub(super) index: usize,
    /// Model instances on it, for each of [`Class::ALL`](crate::class::Class::ALL).
    pub(super) instances: [usize; 2],
    /// Open requests, and connections of the local path.
    pub(super) load: usize,
    /// Bytes that models may still reserve.
    pub(super) left: u64,
}

/// Returns the best device for one more model.
pub(super) fn best(candidates: impl Iterator<Item = Candidate>) -> Option<usize> {
    let rank = |c: &Candidate| (c.instances, c.load, Reverse(c.left), c.index);
    candidates.min_by_key(rank).map(|candidate| candidate.index)
}

/// Returns the allowed devices of a model, and the number of them to use. `usual` is the number for
/// a description that does not set one; 0 is all.
///
/// # Errors
///
/// `Invalid` if a device does not exist, or there are too few.
pub(super) fn candidates(
    placing: &Placing,
    usual: usize,
    names: &[&str],
) -> Result<(Vec<usize>, usize)> {
    let count = match placing {
        Placing::On(asked) => {
            return indices_of_names(asked, names).map(|all| (all.clone(), all.len()));
        }
        Placing::At(asked) => {
            return checked_indices(asked, names).map(|all| (all.clone(), all.len()));
        }
        Placing::Replicas(count) => *count,
        Placing::Default => usual,
    };
    let have = names.len();
    if count > have {
        return Err(Error::Invalid(format!(
            "replicas must be at most the daemon's {have} devices, got {count}"
        )));
    }
    Ok(((0..have).collect(), if count == 0 { have } else { count }))
}

fn indices_of_names(asked: &[String], names: &[&str]) -> Result<Vec<usize>> {
    let mut all = Vec::new();
    for name in asked {
        let at = names.iter().position(|have| have == name).ok_or_else(|| {
            let have = names.join(", ");
            Error::Invalid(format!("devices: unknown device {name:?} (have: {have})"))
        })?;
        if all.contains(&at) {
            return Err(Error::Invalid(format!("devices: {name:?} must be named once")));
        }
        all.push(at);
    }
    if all.is_empty() {
        return Err(Error::Invalid("devices must name at least one device".into()));
    }
    Ok(all)
}

/// Resolves devices by their indices.
fn checked_indices(asked: &[usize], names: &[&str]) -> Result<Vec<usize>> {
    let of = |why: String| Err(Error::Invalid(format!("instance_group.gpus: {why}")));
    for (n, at) in asked.iter().enumerate() {
        if *at >= names.len() {
            let have: Vec<_> =
                names.iter().enumerate().map(|(at, name)| format!("{at} {name}")).collect();
            return of(format!("unknown device {at} (have: {})", have.join(", ")));
        }
        if asked[..n].contains(at) {
            return of(format!("{at} must be named once"));
        }
    }
    Ok(asked.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(index: usize, instances: [usize; 2], load: usize, left: u64) -> Candidate {
        Candidate { index, instances, load, left }
    }

    #[test]
    fn device_with_fewest_real_time_instances_is_chosen() {
        let free = candidate(2, [0, 0], 0, 5);
        for (others, want) in [
            ([candidate(0, [1, 1], 0, 9), free], 2),
            ([candidate(0, [0, 1], 0, 9), free], 2),
            ([candidate(0, [0, 0], 1, 9), free], 2),
            ([candidate(0, [0, 0], 0, 9), free], 0),
            ([candidate(0, [0, 0], 0, 5), free], 0),
            ([candidate(0, [0, 9], 9, 1), candidate(1, [1, 0], 0, 9)], 0),
        ] {
            assert_eq!(best(others.into_iter()), Some(want), "{others:?}");
        }
        assert_eq!(best([].into_iter()), None);
    }

    #[test]
    fn placing_names_or_counts_devices() {
        let names = ["cuda:0", "cuda:1", "cuda:3"];
        let on = |asked: &[&str]| Placing::On(asked.iter().map(|&name| name.into()).collect());
        let said = |placing| candidates(&placing, 1, &names).unwrap_err().to_string();
        assert_eq!(candidates(&Placing::Default, 1, &names), Ok((vec![0, 1, 2], 1)));
        assert_eq!(candidates(&Placing::Default, 0, &names), Ok((vec![0, 1, 2], 3)));
        assert_eq!(candidates(&Placing::Replicas(2), 1, &names), Ok((vec![0, 1, 2], 2)));
        assert_eq!(candidates(&Placing::Replicas(0), 1, &names), Ok((vec![0, 1, 2], 3)));
        assert_eq!(candidates(&on(&["cuda:3", "cuda:0"]), 1, &names), Ok((vec![2, 0], 2)));
        assert_eq!(
            said(Placing::Replicas(4)),
            "replicas must be at most the daemon's 3 devices, got 4"
        );
        let want = "devices: unknown device \"cuda:2\" (have: cuda:0, cuda:1, cuda:3)";
        assert_eq!(said(on(&["cuda:2"])), want);
        assert_eq!(said(on(&["cuda:1", "cuda:1"])), "devices: \"cuda:1\" must be named once");
        assert_eq!(candidates(&Placing::At(vec![2, 0]), 1, &names), Ok((vec![2, 0], 2)));
        let want = "instance_group.gpus: unknown device 3 (have: 0 cuda:0, 1 cuda:1, 2 cuda:3)";
        assert_eq!(said(Placing::At(vec![0, 3])), want);
        assert_eq!(said(Placing::At(vec![1, 1])), "instance_group.gpus: 1 must be named once");
        assert_eq!(said(on(&[])), "devices must name at least one device");
    }
}
