//! Device that a command runs on.

use crate::report::usage::Usage;
pub(crate) use reef::AUTO;

/// Help of `--device`.
pub(crate) const HELP: &str =
    "Device: auto (a GPU if there is one), cpu, cuda:0, cpu:0?units=4; `reef devices` lists them";

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
    let (chosen, why) = reef::auto_device();
    if let Some(why) = why {
        note!("reef: {why}; --device chooses another");
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_has_no_options_and_names_stay() {
        assert!(resolve("auto?units=4").is_err());
        assert_eq!(resolve("cpu:0?units=4").unwrap(), "cpu:0?units=4");
    }
}
