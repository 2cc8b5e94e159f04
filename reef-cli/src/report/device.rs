//! Device that a command runs on.

use crate::report::usage::Usage;

/// Name that stands for a GPU if there is one, else for the CPU.
pub(crate) const AUTO: &str = "auto";
/// Help of `--device`.
pub(crate) const HELP: &str =
    "Device: auto (a GPU if there is one), cpu, cuda:0, cpu:0?units=4; `reef devices` lists them";
/// Name of the device that is always there.
const CPU: &str = "cpu";

/// The device that a name stands for. A choice that `auto` made is said in a line on stderr.
///
/// Nothing is said where this build has nothing to choose from.
pub(crate) fn resolve(name: &str) -> Result<String, Usage> {
    if name.split('?').next() != Some(AUTO) {
        return Ok(name.to_owned());
    }
    if name != AUTO {
        return Err(Usage(format!("device {name:?}: auto takes no options; name a device")));
    }
    if reef::BACKENDS == [CPU] {
        return Ok(CPU.into());
    }
    let (chosen, said) = choose(reef::devices());
    if let Some(said) = said {
        eprintln!("reef: {said}");
    }
    Ok(chosen)
}

/// A device and the line that says why, given backends and the devices that each found.
fn choose(backends: Vec<(&'static str, reef::Result<Vec<String>>)>) -> (String, Option<String>) {
    let mut missing = Vec::new();
    for (backend, found) in backends.into_iter().filter(|(backend, _)| *backend != CPU) {
        match found.as_deref() {
            Ok([first, ..]) => {
                let said = format!("on {backend}:0 ({first}); --device chooses another");
                return (format!("{backend}:0"), Some(said));
            }
            Ok([]) => missing.push(format!("{backend}: no device")),
            Err(error) => missing.push(error.to_string()),
        }
    }
    let why = missing.join("; ");
    (CPU.into(), (!missing.is_empty()).then(|| format!("on the CPU, as there is no GPU ({why})")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use reef::Error;

    fn chosen(gpu: reef::Result<Vec<String>>) -> (String, Option<String>) {
        choose(vec![(CPU, Ok(vec!["8 units".into()])), ("cuda", gpu)])
    }

    #[test]
    fn auto_takes_a_gpu_if_there_is_one_and_says_so() {
        let (device, said) = chosen(Ok(vec!["H200".into(), "H100".into()]));
        assert_eq!(
            (&*device, &*said.unwrap()),
            ("cuda:0", "on cuda:0 (H200); --device chooses another")
        );
    }

    #[test]
    fn auto_takes_the_cpu_and_says_why() {
        for (gpu, why) in [
            (Err(Error::NotFound("libcuda.so.1 not found".into())), "libcuda.so.1 not found"),
            (Ok(Vec::new()), "cuda: no device"),
        ] {
            let (device, said) = chosen(gpu);
            assert_eq!(device, CPU);
            assert!(said.unwrap().contains(why));
        }
        assert_eq!(
            choose(vec![(CPU, Ok(Vec::new()))]),
            (CPU.into(), None),
            "nothing to choose from"
        );
    }

    #[test]
    fn auto_has_no_options_and_names_stay() {
        assert!(resolve("auto?units=4").is_err());
        assert_eq!(resolve("cpu:0?units=4").unwrap(), "cpu:0?units=4");
    }
}
