//! `reef model show`: what a network is made of.

use super::facts::{Facts, describe};
use super::{graph, show_program, show_tensors};
use crate::report::output::print;
use crate::report::table::{Table, table};
use crate::report::usage::Usage;
use crate::workload::networks::{Sizes, WEIGHTS};
use anyhow::Result;
use reef::models::arena;
use reef::models::kinds::{ImageModel, Layer};
use reef::op::{Bounds, Function, Op, PoolKind, Tensor, Window};
use serde_json::{Value, json};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Model: a name of `reef model list`, a folder (REEF's too), an ONNX file, or a schedule graph
    /// (MODEL.json).
    model: String,
    /// Weights of a schedule graph to check against it, MODEL.param.
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// Kernel latencies of a schedule graph to check, MODEL.profile.json.
    #[arg(long, value_name = "FILE")]
    latencies: Option<PathBuf>,
    #[command(flatten)]
    sizes: Sizes,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let files = graph::Files {
        graph: Path::new(&args.model),
        weights: args.weights.as_deref(),
        latencies: args.latencies.as_deref(),
    };
    if files.graph.extension().is_some_and(|of| of == "json") {
        return graph::show(&files, args.json);
    }
    if files.weights.or(files.latencies).is_some() {
        let why = "--weights and --latencies belong to a schedule graph (MODEL.json)";
        return Err(Usage(why.into()).into());
    }
    // The process ends when this has been shown: giving a hundred thousand steps back one by one
    // takes a tenth as long as reading them.
    let model = args.sizes.opened(&args.model).seed(WEIGHTS.0).read_usual()?;
    let model = ManuallyDrop::new(model);
    if let Some(model) = model.program() {
        return show_program::show(&args.model, model, args.json);
    }
    if let Some(model) = model.tensors() {
        return show_tensors::show(&args.model, model, args.json);
    }
    let (model, _) = model.image()?;
    let arena = arena::plan(model.graph()).bytes;
    if args.json {
        let steps: Vec<_> = steps(model).map(|(name, layer)| step(name, layer)).collect();
        let facts = Facts::of(&args.model, model);
        let json = json!({ "network": facts, "arena_bytes": arena, "steps": steps });
        return print(serde_json::to_string_pretty(&json)?);
    }
    describe(&args.model, model)?;
    print(format_args!("activations take {:.1} MB", arena as f64 / 1e6))?;
    print(as_table(model))
}

fn steps(model: &ImageModel) -> impl Iterator<Item = (&str, &Layer)> {
    let names = model.graph().steps.iter().map(|step| step.name.as_str());
    names.zip(model.layers())
}

fn as_table(model: &ImageModel) -> Table {
    let mut table = table(&["step", "parameters", "input", "output", "operation"]);
    for (name, layer) in steps(model) {
        let [input, output] = [layer.op.input(), layer.op.output()].map(|tensor| {
            let Tensor { channels, height, width, .. } = tensor;
            format!("{channels}x{height}x{width}")
        });
        let parameters = layer.parameters().to_string();
        table.add_row([name.to_owned(), parameters, input, output, operation(&layer.op)]);
    }
    table
}

fn step(name: &str, layer: &Layer) -> Value {
    json!({
        "name": name,
        "operation": operation(&layer.op),
        "input": layer.op.input().shape(),
        "output": layer.op.output().shape(),
        "parameters": layer.parameters(),
    })
}

/// Description of an operation: `convolution 3x3/2, residual, relu`.
fn operation(op: &Op) -> String {
    let with = |what: String, parts: &[(bool, &str)]| {
        let parts = parts.iter().filter(|(is, _)| *is).map(|(_, name)| *name);
        std::iter::once(what.as_str()).chain(parts).collect::<Vec<_>>().join(", ")
    };
    match op {
        Op::Conv2d(op) => {
            let (groups, function) = (format!("{} groups", op.groups), name(op.function));
            let parts = [
                (op.groups > 1, &*groups),
                (op.residual, "residual"),
                (op.relu, "relu"),
                (op.function.is_some(), &*function),
            ];
            with(format!("convolution {}", window(&op.window)), &parts)
        }
        Op::Pool2d(op) => match op.kind {
            PoolKind::Max => format!("maximum {}", window(&op.window)),
            PoolKind::Average => format!("mean {}", window(&op.window)),
        },
        Op::ScaleShift(op) => with("scale and shift".into(), &[(op.relu, "relu")]),
        Op::Linear(op) => {
            let function = name(op.function);
            let parts = [(op.relu, "relu"), (op.function.is_some(), &*function)];
            with("fully connected".into(), &parts)
        }
        Op::Activate(op) => name(Some(op.function)),
        Op::Multiply(_) => "product".into(),
    }
}

/// Empty without a function.
fn name(function: Option<Function>) -> String {
    match function {
        None => String::new(),
        Some(Function::Clamp(Bounds::RELU6)) => "relu6".into(),
        Some(Function::Clamp(bounds)) => format!("clamp {bounds:?}"),
        Some(Function::HardSigmoid) => "hard sigmoid".into(),
        Some(Function::HardSwish) => "hard swish".into(),
        Some(Function::Sigmoid) => "sigmoid".into(),
        Some(Function::Swish) => "swish".into(),
    }
}

/// `3x3/2`, without the stride if it is 1.
fn window(window: &Window) -> String {
    let [[rows, columns], [down, right]] = [window.size, window.stride];
    match (down, right) {
        (1, 1) => format!("{rows}x{columns}"),
        (down, right) if down == right => format!("{rows}x{columns}/{down}"),
        (down, right) => format!("{rows}x{columns}/{down}x{right}"),
    }
}
