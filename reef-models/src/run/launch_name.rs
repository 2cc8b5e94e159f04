//! Names of launches in traces and profiles.

use std::collections::HashMap;

/// Name of a launch in traces and profiles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchName {
    /// Name of the step that it belongs to; of several that share the launch, with `+` between.
    pub step: String,
    /// Its own: the step's, with `/0`, `/1` and so on if the step takes several launches.
    pub launch: String,
}

/// Names of the launches of one step.
pub(crate) fn launch_names(step: &str, launches: usize) -> impl Iterator<Item = LaunchName> {
    (0..launches).map(move |i| name(step, i, launches))
}

/// Names of all launches of steps of which several may have one name: those of one node.
pub(super) fn names_of_steps(steps: &[(&str, usize)]) -> Vec<LaunchName> {
    let mut all: HashMap<&str, usize> = HashMap::new();
    steps.iter().for_each(|(step, launches)| *all.entry(step).or_default() += launches);
    let (mut next, mut names) = (HashMap::<&str, usize>::new(), Vec::new());
    for &(step, launches) in steps {
        for _ in 0..launches {
            let i = next.entry(step).or_default();
            names.push(name(step, *i, all[step]));
            *i += 1;
        }
    }
    names
}

fn name(step: &str, i: usize, launches: usize) -> LaunchName {
    let launch = if launches == 1 { step.to_owned() } else { format!("{step}/{i}") };
    LaunchName { step: step.into(), launch }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_is_called_like_its_step_unless_there_are_several() {
        let launches = |n| launch_names("fc", n).map(|name| name.launch).collect::<Vec<_>>();
        assert_eq!(launches(1), ["fc"]);
        assert_eq!(launches(2), ["fc/0", "fc/1"]);
    }

    #[test]
    fn launches_of_one_node_are_counted_through() {
        let names = names_of_steps(&[("norm", 1), ("add", 1), ("norm", 2)]);
        let launches: Vec<_> = names.iter().map(|name| name.launch.as_str()).collect();
        assert_eq!(launches, ["norm/0", "add", "norm/1", "norm/2"]);
    }
}
