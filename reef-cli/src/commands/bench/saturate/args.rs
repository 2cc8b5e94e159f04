//! Arguments of `reef bench saturate`.

use crate::commands::bench::policy::Lengths;
use crate::commands::bench::sides::Sides;
use crate::report::class::ClassName;
use crate::report::results;
use anyhow::Result;
use reef::DeviceName;
use std::fmt;
use std::str::FromStr;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) common: results::Common,
    #[command(flatten)]
    pub(crate) sides: Sides,
    /// Also limit best-effort work to this many blocks at a time, on devices with the option
    /// `beside`; 132@32 for 32 units, with `beside_on`.
    #[arg(long, value_name = "BLOCKS[@UNITS]", value_delimiter = ',')]
    pub(crate) beside: Vec<Width>,
    /// Run one class alone; the other one is another process, such as under MPS.
    #[arg(long = "class", value_name = "CLASS", conflicts_with = "beside")]
    pub(crate) side: Option<ClassName>,
    #[command(flatten)]
    pub(crate) lengths: Lengths,
}

/// Width of best-effort work next to real-time work: the number of blocks of a queue, and of units
/// if not all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Width {
    pub(crate) blocks: u32,
    pub(crate) units: Option<u32>,
}

impl FromStr for Width {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let number = |text: &str| text.parse().map_err(|_| format!("{text:?} is not a number"));
        let (blocks, units) = match text.split_once('@') {
            Some((blocks, units)) => (blocks, Some(number(units)?)),
            None => (text, None),
        };
        Ok(Self { blocks: number(blocks)?, units })
    }
}

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.blocks)?;
        self.units.map_or(Ok(()), |units| write!(f, "@{units}"))
    }
}

impl Args {
    /// Name of a row of this width. It has the number of units if the width or the device says one.
    pub(crate) fn name_of(&self, width: Width) -> Result<String> {
        let options = DeviceName::parse(&self.common.device)?.options;
        let own = options.split('&').find_map(|option| option.strip_prefix("beside_on="));
        let units = width.units.or_else(|| own?.parse().ok());
        Ok(format!("narrow {}", Width { units, ..width }))
    }

    /// Name of the device with this width, which takes precedence over the device's own options.
    pub(crate) fn narrow(&self, width: Width) -> Result<String> {
        let DeviceName { backend, ordinal, options } = DeviceName::parse(&self.common.device)?;
        let units = width.units.map(|units| format!("beside_on={units}"));
        let is_said = |option: &str| {
            option.starts_with("beside=") || units.is_some() && option.starts_with("beside_on=")
        };
        let others = options.split('&').filter(|option| !option.is_empty() && !is_said(option));
        let own = [Some(format!("beside={}", width.blocks)), units.clone()];
        let options: Vec<_> = others.map(str::to_owned).chain(own.into_iter().flatten()).collect();
        Ok(format!("{backend}:{ordinal}?{}", options.join("&")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn args(device: &str, widths: &str) -> Args {
        Line::try_parse_from(["pad", "--device", device, "--beside", widths]).unwrap().args
    }

    /// The devices that are opened for these widths of this device.
    fn devices(device: &str, widths: &str) -> Vec<String> {
        let args = args(device, widths);
        args.beside.iter().map(|width| args.narrow(*width).unwrap()).collect()
    }

    #[test]
    fn a_row_is_called_by_the_units_that_the_device_or_it_says() {
        for (device, want) in [
            ("cuda:0", ["narrow 16", "narrow 132@32"]),
            ("cuda:0?beside_on=8", ["narrow 16@8", "narrow 132@32"]),
        ] {
            let args = args(device, "16,132@32");
            let names = args.beside.iter().map(|width| args.name_of(*width).unwrap());
            assert_eq!(names.collect::<Vec<_>>(), want);
        }
    }

    #[test]
    fn a_width_is_blocks_and_units_if_not_all() {
        let want = ["cuda:0?beside=16", "cuda:0?beside=132&beside_on=32"];
        assert_eq!(devices("cuda:0", "16,132@32"), want);
    }

    #[test]
    fn a_width_goes_before_what_the_device_says_and_leaves_the_rest() {
        let device = "cuda:1?beside=4&precision=fp16&beside_on=8";
        let want = [
            "cuda:1?precision=fp16&beside_on=8&beside=16",
            "cuda:1?precision=fp16&beside=132&beside_on=32",
        ];
        assert_eq!(devices(device, "16,132@32"), want);
    }

    #[test]
    fn a_width_reads_as_it_was_written() {
        for text in ["16", "132@32"] {
            assert_eq!(text.parse::<Width>().unwrap().to_string(), text);
        }
        for bad in ["", "@", "16@", "@8", "16@8@4", "-1"] {
            assert!(bad.parse::<Width>().is_err(), "{bad}");
        }
    }
}
