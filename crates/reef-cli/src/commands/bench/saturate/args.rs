//! Arguments of `reef bench saturate`.

use crate::commands::bench::policy::Lengths;
use crate::commands::bench::sides::Sides;
use crate::report::class::ClassName;
use crate::report::results;
use anyhow::Result;
use reef::DeviceName;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) common: results::Common,
    #[command(flatten)]
    pub(crate) sides: Sides,
    /// Also limit best-effort work to this many blocks at a time, on devices with the option
    /// `colocated_blocks`.
    #[arg(long, value_name = "BLOCKS", value_delimiter = ',')]
    pub(crate) colocated_blocks: Vec<u32>,
    /// Also hold the latency of real-time work at this multiple of that alone.
    #[arg(long, value_name = "RATIO", value_delimiter = ',')]
    pub(crate) slo: Vec<f64>,
    /// Run one class alone; the other one is another process, such as under MPS.
    #[arg(long = "class", value_name = "CLASS", conflicts_with_all = ["colocated_blocks", "slo"])]
    pub(crate) side: Option<ClassName>,
    #[command(flatten)]
    pub(crate) lengths: Lengths,
}

impl Args {
    /// Name of the device with this cap, which takes precedence over the device's own options.
    pub(crate) fn narrow(&self, blocks: u32) -> Result<String> {
        let DeviceName { backend, ordinal, options } = DeviceName::parse(&self.common.device)?;
        let is_other =
            |option: &&str| !option.is_empty() && !option.starts_with("colocated_blocks=");
        let others = options.split('&').filter(is_other).map(str::to_owned);
        let options: Vec<_> = others.chain([format!("colocated_blocks={blocks}")]).collect();
        Ok(format!("{backend}:{ordinal}?{}", options.join("&")))
    }
}

/// Name of a row of this cap.
pub(crate) fn name_of(blocks: u32) -> String {
    format!("narrow {blocks}")
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

    fn args(device: &str, caps: &str) -> Args {
        Line::try_parse_from(["pad", "--device", device, "--colocated-blocks", caps]).unwrap().args
    }

    /// Devices that are opened for these caps of this device.
    fn devices(device: &str, caps: &str) -> Vec<String> {
        let args = args(device, caps);
        args.colocated_blocks.iter().map(|blocks| args.narrow(*blocks).unwrap()).collect()
    }

    #[test]
    fn cap_is_an_option_of_the_device() {
        assert_eq!(
            devices("cuda:0", "16,132"),
            ["cuda:0?colocated_blocks=16", "cuda:0?colocated_blocks=132"]
        );
    }

    #[test]
    fn cap_takes_precedence_and_leaves_other_options() {
        let device = "cuda:1?colocated_blocks=4&precision=fp16";
        assert_eq!(devices(device, "16"), ["cuda:1?precision=fp16&colocated_blocks=16"]);
    }

    #[test]
    fn cap_that_is_not_a_number_is_refused() {
        for bad in ["", "132@32", "-1"] {
            assert!(Line::try_parse_from(["pad", "--colocated-blocks", bad]).is_err(), "{bad}");
        }
    }
}
