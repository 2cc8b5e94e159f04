//! `reef model list`: the networks that can be built.

use super::facts::Facts;
use super::show_tensors;
use crate::report::output::print;
use anyhow::Result;
use reef::models::{self, Model, Seeded, TensorModel, Tensors};

#[derive(clap::Args)]
pub(crate) struct List {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn list(args: &List) -> Result<()> {
    let pictures = models::NAMES.iter().map(|&name| Ok((name, models::build(name, None, 1)?)));
    let pictures = pictures.collect::<models::Result<Vec<_>>>()?;
    let seeded = || Tensors::Seeded(Seeded(1));
    let others = models::TENSOR_NAMES.iter();
    let others = others.map(|&name| Ok((name, models::build_tensors(name, None, 1, seeded())?)));
    let others = others.collect::<models::Result<Vec<_>>>()?;
    if args.json {
        let pictures =
            pictures.iter().map(|(name, model)| Ok(serde_json::to_value(Facts::of(name, model))?));
        let others = others.iter().map(|(name, model)| Ok(show_tensors::listed(name, model)));
        let facts = pictures.chain(others).collect::<Result<Vec<_>>>()?;
        return print(serde_json::to_string_pretty(&facts)?);
    }
    pictures.iter().try_for_each(|(name, model)| picture(name, model))?;
    others.iter().try_for_each(|(name, model)| tensors(name, model))
}

fn picture(name: &str, model: &Model) -> Result<()> {
    let size = model.input().height;
    line(name, format_args!("{size}x{size}"), model.graph().steps.len(), model.parameters())
}

fn tensors(name: &str, model: &TensorModel) -> Result<()> {
    let takes = match model.inputs.first().map(|port| port.spec.dims.as_slice()) {
        Some([_, _, rows, columns]) => format!("{rows}x{columns}"),
        Some([_, tokens]) => format!("{tokens} tokens"),
        _ => String::new(),
    };
    line(name, format_args!("{takes}"), model.steps().len(), model.parameters())
}

fn line(name: &str, takes: std::fmt::Arguments<'_>, steps: usize, parameters: usize) -> Result<()> {
    let (takes, millions) = (takes.to_string(), parameters as f64 / 1e6);
    print(format_args!("{name:<18}  {takes:<10}  {steps:>3} steps  {millions:>5.1} M parameters"))
}
