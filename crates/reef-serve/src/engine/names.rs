//! Names of devices in metrics, descriptions of models and errors.

/// Returns a unique name for each of the `count` devices that `asked` has opened, such as `cuda:1`.
///
/// Software devices are created as they are opened, so `cpu,cpu` are `cpu:0` and `cpu:1`.
pub(crate) fn names(asked: &str, count: usize) -> Vec<String> {
    let asked: Vec<(&str, &str)> = asked.split(',').map(parts).collect();
    let all = asked.iter().filter(|(_, ordinal)| *ordinal == "*").count();
    let each = (count + all).saturating_sub(asked.len()).checked_div(all).unwrap_or(1);
    let expanded = |&(backend, ordinal): &(&str, &str)| -> Vec<String> {
        match ordinal {
            "*" => (0..each).map(|ordinal| format!("{backend}:{ordinal}")).collect(),
            ordinal => vec![format!("{backend}:{ordinal}")],
        }
    };
    let names: Vec<String> = asked.iter().flat_map(expanded).collect();
    let mut different = names.clone();
    different.sort();
    different.dedup();
    if different.len() == count {
        return names;
    }
    let backend = asked[0].0; // splitting gives one at least
    (0..count).map(|at| format!("{backend}:{at}")).collect()
}

/// Splits a name into backend and ordinal, without options.
fn parts(name: &str) -> (&str, &str) {
    let device = name.split_once('?').map_or(name, |(device, _)| device);
    device.split_once(':').unwrap_or((device, "0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_names_are_unique() {
        for (asked, want) in [
            ("cpu", &["cpu:0"][..]),
            ("cpu:0?units=1", &["cpu:0"]),
            ("cuda:1", &["cuda:1"]),
            ("cuda:2?gates=4,cuda:0", &["cuda:2", "cuda:0"]),
            ("cuda:*?gates=4", &["cuda:0", "cuda:1", "cuda:2"]),
            ("cpu,cpu?units=1", &["cpu:0", "cpu:1"]),
            ("cpu:1,cpu:1", &["cpu:0", "cpu:1"]),
            ("cpu:*,cpu:3", &["cpu:0", "cpu:3"]),
        ] {
            assert_eq!(names(asked, want.len()), want, "{asked}");
        }
    }
}
