//! `reef model list`: the networks that can be built.

use super::facts::Facts;
use super::show_tensors;
use crate::report::output::print;
use anyhow::Result;
use reef::models::{self, Model, Seeded, TensorModel, Tensors};

#[derive(clap::Args)]
pub(crate) struct List {
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn list(args: &List) -> Result<()> {
    let pictures = models::NAMES.iter().map(|&name| Ok((name, models::build(name, None, 1)?)));
    let pictures = pictures.collect::<models::Result<Vec<_>>>()?;
    let seeded = || Tensors::Seeded(Seeded(1));
    let texts = models::TEXT_NAMES.iter();
    let texts = texts.map(|&name| Ok((name, models::build_text(name, None, 1, seeded())?)));
    let texts = texts.collect::<models::Result<Vec<_>>>()?;
    if args.json {
        let pictures =
            pictures.iter().map(|(name, model)| Ok(serde_json::to_value(Facts::of(name, model))?));
        let texts = texts.iter().map(|(name, model)| Ok(show_tensors::listed(name, model)));
        let facts = pictures.chain(texts).collect::<Result<Vec<_>>>()?;
        return print(serde_json::to_string_pretty(&facts)?);
    }
    pictures.iter().try_for_each(|(name, model)| picture(name, model))?;
    texts.iter().try_for_each(|(name, model)| text(name, model))
}

fn picture(name: &str, model: &Model) -> Result<()> {
    let size = model.input().height;
    line(name, format_args!("{size}x{size}"), model.graph().steps.len(), model.parameters())
}

fn text(name: &str, model: &TensorModel) -> Result<()> {
    let tokens = model.inputs.first().and_then(|port| port.spec.dims.last()).copied();
    let tokens = tokens.unwrap_or_default();
    line(name, format_args!("{tokens} tokens"), model.steps().len(), model.parameters())
}

fn line(name: &str, takes: std::fmt::Arguments<'_>, steps: usize, parameters: usize) -> Result<()> {
    let (takes, millions) = (takes.to_string(), parameters as f64 / 1e6);
    print(format_args!("{name:<13} {takes:<10}  {steps:>3} steps  {millions:>5.1} M parameters"))
}
