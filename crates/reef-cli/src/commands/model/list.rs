//! `reef model list`: the networks that can be built.

use super::facts::Facts;
use super::show_tensors;
use crate::report::output::print;
use anyhow::Result;
use reef::models::kinds::{ImageModel, TensorModel};
use reef::models::{self, Model};

#[derive(clap::Args)]
pub(crate) struct List {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn list(args: &List) -> Result<()> {
    let names = models::NAMES.iter().chain(models::TENSOR_NAMES);
    let all = names.map(|&name| Ok((name, Model::open(name).read()?)));
    let all = all.collect::<models::Result<Vec<_>>>()?;
    if args.json {
        let facts = all.iter().map(|(name, model)| facts(name, model));
        return print(serde_json::to_string_pretty(&facts.collect::<Result<Vec<_>>>()?)?);
    }
    all.iter().try_for_each(|(name, model)| match model.tensors() {
        Some(model) => tensors(name, model),
        None => image(name, model.image()?.0),
    })
}

fn facts(name: &str, model: &Model) -> Result<serde_json::Value> {
    match model.tensors() {
        Some(model) => Ok(show_tensors::listed(name, model)),
        None => Ok(serde_json::to_value(Facts::of(name, model.image()?.0))?),
    }
}

fn image(name: &str, model: &ImageModel) -> Result<()> {
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
