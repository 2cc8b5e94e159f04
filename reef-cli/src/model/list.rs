//! `reef model list`: the networks that can be built.

use super::facts::Facts;
use crate::report::output::print;
use anyhow::Result;
use reef::models;

#[derive(clap::Args)]
pub(crate) struct List {
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn list(args: &List) -> Result<()> {
    let networks = models::NAMES.iter().map(|&name| Ok((name, models::build(name, None, 1)?)));
    let networks = networks.collect::<models::Result<Vec<_>>>()?;
    if args.json {
        let facts: Vec<_> = networks.iter().map(|(name, model)| Facts::of(name, model)).collect();
        return print(serde_json::to_string_pretty(&facts)?);
    }
    for (name, model) in networks {
        let parameters = model.parameters() as f64 / 1e6;
        let steps = model.graph().steps.len();
        let size = model.input().height;
        print(format_args!(
            "{name:<13} {size}x{size}  {steps:>3} steps  {parameters:>5.1} M parameters"
        ))?;
    }
    Ok(())
}
