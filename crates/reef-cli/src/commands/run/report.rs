//! The best classes of each image.

use super::args::Args;
use super::infer::Prediction;
use crate::report::output::print;
use crate::report::usage::Usage;
use anyhow::Result;
use serde_json::{Value, json};
use std::path::Path;

/// The names of all classes, in their order.
pub(crate) struct Labels(Vec<String>);

impl Labels {
    /// Reads `file`, which must name each of `classes`.
    pub(crate) fn load(file: &Path, classes: usize) -> Result<Self, Usage> {
        let wrong = |why: String| Usage(format!("--labels {}: {why}", file.display()));
        let text = reef_files::read_to_string(file, reef_files::MAX_TEXT_BYTES)
            .map_err(|error| wrong(error.to_string()))?;
        let labels: Vec<_> = text.trim_end().lines().map(|line| line.trim().to_owned()).collect();
        if labels.len() != classes {
            return Err(wrong(format!(
                "{} lines, the network has {classes} classes",
                labels.len()
            )));
        }
        Ok(Self(labels))
    }

    /// The name of a class.
    pub(crate) fn of(&self, class: usize) -> &str {
        &self.0[class]
    }
}

/// A class and how sure the network is.
struct Class {
    index: usize,
    logit: f32,
    probability: f64,
}

/// The `most` classes with the largest logits; probabilities are their softmax over all.
fn best(logits: &[f32], most: usize) -> Vec<Class> {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weight = |logit: f32| f64::from(logit - largest).exp();
    let sum: f64 = logits.iter().map(|&logit| weight(logit)).sum();
    let class =
        |(index, &logit): (usize, &f32)| Class { index, logit, probability: weight(logit) / sum };
    let mut classes: Vec<_> = logits.iter().enumerate().map(class).collect();
    classes.sort_by(|a, b| b.logit.total_cmp(&a.logit));
    classes.truncate(most);
    classes
}

/// Prints what was seen.
pub(crate) fn show(args: &Args, seen: &[Prediction], labels: Option<&Labels>) -> Result<()> {
    if args.json {
        return print(serde_json::to_string_pretty(&json(args, seen, labels))?);
    }
    if args.is_made_up() {
        print(format_args!(
            "{}: weights are made up; --weights FILE has trained ones",
            args.model
        ))?;
    }
    for (file, seen) in args.images.iter().zip(seen) {
        print(format_args!("{}  {:.2} ms", file.display(), seen.time.as_secs_f64() * 1e3))?;
        for Class { index, probability, .. } in best(&seen.logits, args.top()) {
            let label = labels.map_or(String::new(), |labels| format!("  {}", labels.of(index)));
            print(format_args!("  {:6.2} %  class {index:>3}{label}", 100.0 * probability))?;
        }
    }
    Ok(())
}

fn json(args: &Args, seen: &[Prediction], labels: Option<&Labels>) -> Value {
    let class = |class: Class| {
        json!({
            "class": class.index,
            "label": labels.map(|labels| labels.of(class.index)),
            "probability": class.probability,
            "logit": class.logit,
        })
    };
    let image = |(file, seen): (&std::path::PathBuf, &Prediction)| {
        let top: Vec<_> = best(&seen.logits, args.top()).into_iter().map(class).collect();
        let (file, ms) = (file.display().to_string(), seen.time.as_secs_f64() * 1e3);
        json!({ "file": file, "ms": ms, "top": top })
    };
    json!({
        "model": args.model,
        "device": args.device,
        "weights_made_up": args.is_made_up(),
        "images": args.images.iter().zip(seen).map(image).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_come_first_and_probabilities_are_of_all() {
        let logits = [1000.0, 1000.0 + 2f32.ln(), f32::NEG_INFINITY, 1000.0];
        let best = best(&logits, 2);
        let found: Vec<_> = best.iter().map(|class| class.index).collect();
        assert_eq!(found, [1, 0]);
        assert!((best[0].probability - 0.5).abs() < 1e-4, "{}", best[0].probability);
        assert!((best[1].probability - 0.25).abs() < 1e-4, "{}", best[1].probability);
    }
}
