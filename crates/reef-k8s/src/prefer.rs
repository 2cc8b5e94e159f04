//! Preferred devices of a container, from ids to ids.

use crate::resource::gpu_of;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// `size` ids with all of `must` among them: each of another GPU as long as there is one, and of
/// the GPU first that has most left. The same for the same ids. Fewer if there are fewer.
pub(crate) fn prefer(available: &[String], must: &[String], size: usize) -> Vec<String> {
    let mut chosen = must.to_vec();
    let mut left: BTreeSet<&String> = available.iter().filter(|id| !must.contains(id)).collect();
    while chosen.len() < size {
        let Some(next) = left.iter().min_by_key(|id| rank(id, &chosen, &left)).copied() else {
            break;
        };
        left.remove(next);
        chosen.push(next.clone());
    }
    chosen
}

/// The lower the better.
fn rank<'a>(
    id: &'a str,
    chosen: &[String],
    left: &BTreeSet<&String>,
) -> (usize, Reverse<usize>, &'a str) {
    let is_neighbour = |other: &str| gpu_of(other) == gpu_of(id);
    let taken = chosen.iter().filter(|other| is_neighbour(other)).count();
    (taken, Reverse(left.iter().filter(|other| is_neighbour(other)).count()), id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(list: &str) -> Vec<String> {
        list.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn gpus_differ_and_the_emptiest_comes_first() {
        let available = ids("GPU-a-be-03 GPU-b-be-00 GPU-b-be-01 GPU-c-be-01 GPU-c-be-00");
        assert_eq!(prefer(&available, &[], 1), ids("GPU-b-be-00"));
        assert_eq!(prefer(&available, &[], 3), ids("GPU-b-be-00 GPU-c-be-00 GPU-a-be-03"));
        assert_eq!(prefer(&available, &[], 4).len(), 4);
    }

    #[test]
    fn required_ids_are_kept_and_others_are_on_other_gpus() {
        let available = ids("GPU-a-rt-00 GPU-b-rt-00 GPU-b-rt-01");
        assert_eq!(prefer(&available, &ids("GPU-b-rt-01"), 2), ids("GPU-b-rt-01 GPU-a-rt-00"));
        assert_eq!(prefer(&available, &ids("GPU-b-rt-01"), 9).len(), 3);
        assert_eq!(prefer(&[], &[], 1), ids(""));
    }
}
