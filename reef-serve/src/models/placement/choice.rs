//! Where a model goes, in numbers.
//!
//! Real-time instances stay apart as long as there are devices; after that the device with the
//! fewest best-effort ones comes first, then the one with the least to do now, then the one with
//! most memory left.

use crate::error::{Error, Result};
use crate::models::description::Placing;
use std::cmp::Reverse;

/// What counts of a device when a model is placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate {
    /// Its place among the daemon's devices.
    pub(super) index: usize,
    /// Instances of models that are there, as [`Class::EACH`](crate::class::Class::EACH).
    pub(super) instances: [usize; 2],
    /// Open requests, and connections of the local path.
    pub(super) load: usize,
    /// Bytes that models may still reserve.
    pub(super) left: u64,
}

/// The best device for one more model.
pub(super) fn best(candidates: impl Iterator<Item = Candidate>) -> Option<usize> {
    let rank = |c: &Candidate| (c.instances, c.load, Reverse(c.left), c.index);
    candidates.min_by_key(rank).map(|candidate| candidate.index)
}

/// The devices of these names that a model may be on, and on how many of them it is to be; `usual`
/// is for one whose description doesn't say, 0 for all.
///
/// # Errors
///
/// `Invalid` if there is no such device, or there are too few.
pub(super) fn wanted(
    placing: &Placing,
    usual: usize,
    names: &[&str],
) -> Result<(Vec<usize>, usize)> {
    let count = match placing {
        Placing::On(asked) => return named(asked, names).map(|all| (all.clone(), all.len())),
        Placing::At(asked) => return at(asked, names).map(|all| (all.clone(), all.len())),
        Placing::Replicas(count) => *count,
        Placing::Usual => usual,
    };
    let have = names.len();
    if count > have {
        return Err(Error::Invalid(format!("replicas: {count}, the daemon has {have} devices")));
    }
    Ok(((0..have).collect(), if count == 0 { have } else { count }))
}

fn named(asked: &[String], names: &[&str]) -> Result<Vec<usize>> {
    let mut all = Vec::new();
    for name in asked {
        let at = names.iter().position(|have| have == name).ok_or_else(|| {
            let have = names.join(", ");
            Error::Invalid(format!("devices: the daemon has no device {name:?} (have: {have})"))
        })?;
        if all.contains(&at) {
            return Err(Error::Invalid(format!("devices: {name:?} is named twice")));
        }
        all.push(at);
    }
    if all.is_empty() {
        return Err(Error::Invalid("devices: none is named".into()));
    }
    Ok(all)
}

/// As [`named`], by places.
fn at(asked: &[usize], names: &[&str]) -> Result<Vec<usize>> {
    let of = |why: String| Err(Error::Invalid(format!("instance_group.gpus: {why}")));
    for (n, at) in asked.iter().enumerate() {
        if *at >= names.len() {
            let have: Vec<_> =
                names.iter().enumerate().map(|(at, name)| format!("{at} {name}")).collect();
            return of(format!("the daemon has no device {at} (have: {})", have.join(", ")));
        }
        if asked[..n].contains(at) {
            return of(format!("{at} is named twice"));
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
    fn the_device_with_the_fewest_real_time_instances_comes_first() {
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
    fn a_description_names_devices_or_counts_them() {
        let names = ["cuda:0", "cuda:1", "cuda:3"];
        let on = |asked: &[&str]| Placing::On(asked.iter().map(|&name| name.into()).collect());
        let said = |placing| wanted(&placing, 1, &names).unwrap_err().to_string();
        assert_eq!(wanted(&Placing::Usual, 1, &names), Ok((vec![0, 1, 2], 1)));
        assert_eq!(wanted(&Placing::Usual, 0, &names), Ok((vec![0, 1, 2], 3)));
        assert_eq!(wanted(&Placing::Replicas(2), 1, &names), Ok((vec![0, 1, 2], 2)));
        assert_eq!(wanted(&Placing::Replicas(0), 1, &names), Ok((vec![0, 1, 2], 3)));
        assert_eq!(wanted(&on(&["cuda:3", "cuda:0"]), 1, &names), Ok((vec![2, 0], 2)));
        assert_eq!(said(Placing::Replicas(4)), "replicas: 4, the daemon has 3 devices");
        let want = "devices: the daemon has no device \"cuda:2\" (have: cuda:0, cuda:1, cuda:3)";
        assert_eq!(said(on(&["cuda:2"])), want);
        assert_eq!(said(on(&["cuda:1", "cuda:1"])), "devices: \"cuda:1\" is named twice");
        assert_eq!(wanted(&Placing::At(vec![2, 0]), 1, &names), Ok((vec![2, 0], 2)));
        let want =
            "instance_group.gpus: the daemon has no device 3 (have: 0 cuda:0, 1 cuda:1, 2 cuda:3)";
        assert_eq!(said(Placing::At(vec![0, 3])), want);
        assert_eq!(said(Placing::At(vec![1, 1])), "instance_group.gpus: 1 is named twice");
        assert_eq!(said(on(&[])), "devices: none is named");
    }
}
