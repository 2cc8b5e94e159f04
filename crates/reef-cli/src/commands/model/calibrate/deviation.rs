//! Distance of outputs from those of floats.

use serde_json::{Value, json};

/// Differences of the outputs for one image, as parts of the largest that floats give.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Deviation {
    pub(super) largest: f64,
    pub(super) mean: f64,
    /// Cosine of the angle between both; 1 if they are equal.
    pub(super) cosine: f64,
    /// False if an output is NaN.
    pub(super) is_same_class: bool,
}

/// Differences for several images.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Deviations {
    pub(super) each: Vec<Deviation>,
}

impl Deviation {
    pub(super) fn of(have: &[f32], want: &[f32]) -> Self {
        let pairs = || have.iter().zip(want).map(|(&a, &b)| (f64::from(a), f64::from(b)));
        let whole = largest(pairs().map(|(_, want)| want));
        let part = |difference: f64| if difference == 0.0 { 0.0 } else { difference / whole };
        let sum = |of: fn((f64, f64)) -> f64| pairs().map(of).sum::<f64>();
        let norms = sum(|(a, _)| a * a).sqrt() * sum(|(_, b)| b * b).sqrt();
        Self {
            largest: part(largest(pairs().map(|(a, b)| a - b))),
            mean: part(sum(|(a, b)| (a - b).abs()) / have.len() as f64),
            cosine: if have == want { 1.0 } else { sum(|(a, b)| a * b) / norms },
            is_same_class: class(have).is_some_and(|top| Some(top) == class(want)),
        }
    }

    fn json(&self) -> Value {
        let Self { largest, mean, cosine, is_same_class } = self;
        json!({ "largest": largest, "mean": mean, "cosine": cosine, "same_class": is_same_class })
    }
}

impl Deviations {
    pub(super) fn largest(&self) -> f64 {
        largest(self.each.iter().map(|each| each.largest))
    }

    pub(super) fn mean(&self) -> f64 {
        self.each.iter().map(|each| each.mean).sum::<f64>() / self.each.len() as f64
    }

    /// The least of all; NaN is less than all.
    pub(super) fn cosine(&self) -> f64 {
        let order = |a: &f64, b: &f64| b.is_nan().cmp(&a.is_nan()).then(a.total_cmp(b));
        self.each.iter().map(|each| each.cosine).min_by(order).unwrap_or(1.0)
    }

    pub(super) fn same_classes(&self) -> usize {
        self.each.iter().filter(|each| each.is_same_class).count()
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "largest": self.largest(),
            "mean": self.mean(),
            "cosine": self.cosine(),
            "same_class": self.same_classes(),
            "each": self.each.iter().map(Deviation::json).collect::<Vec<_>>(),
        })
    }
}

/// The largest absolute value; NaN is larger than all.
pub(in crate::commands::model) fn largest(values: impl Iterator<Item = f64>) -> f64 {
    values.map(f64::abs).max_by(f64::total_cmp).unwrap_or_default()
}

/// Number of the largest output, if none is NaN.
fn class(outputs: &[f32]) -> Option<usize> {
    if outputs.iter().any(|output| output.is_nan()) {
        return None;
    }
    let numbered = outputs.iter().enumerate();
    numbered.max_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(class, _)| class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_parts_of_the_largest_output() {
        let deviation = Deviation::of(&[1.0, -3.0, 2.5], &[1.0, -4.0, 3.0]);
        assert_eq!((deviation.largest, deviation.mean), (0.25, 0.125));
        assert!(deviation.is_same_class && deviation.cosine > 0.99);
        assert!(!Deviation::of(&[1.0, 2.0], &[2.0, 1.0]).is_same_class);
        assert_eq!(Deviation::of(&[0.0, 1.0], &[0.0, 1.0]).largest, 0.0);
        assert!(Deviation::of(&[f32::NAN], &[1.0]).largest.is_nan());
    }

    #[test]
    fn several_images_have_the_worst_of_all_and_the_mean() {
        let each = [(&[3.0, 4.0], &[3.0, 4.0]), (&[3.0, 2.0], &[3.0, 4.0])];
        let each = each.map(|(have, want)| Deviation::of(have, want)).into();
        let all = Deviations { each };
        assert_eq!((all.largest(), all.mean(), all.same_classes()), (0.5, 0.125, 1));
        assert!((all.cosine() - 17.0 / (5.0 * 13f64.sqrt())).abs() < 1e-9);
    }

    #[test]
    fn nan_of_one_image_shows_in_all_figures() {
        let image = |value| Deviation::of(&[value, 1.0], &[0.5, 1.0]);
        let all = Deviations { each: [0.5, 0.5, f32::NAN, 0.5].map(image).into() };
        assert!([all.largest(), all.mean(), all.cosine()].iter().all(|figure| figure.is_nan()));
        assert_eq!(all.same_classes(), 3);
        let both = Deviation::of(&[f32::NAN, 1.0], &[f32::NAN, 1.0]);
        assert!(!both.is_same_class, "no output of NaN is a class");
        let zeros = Deviation::of(&[0.0; 2], &[0.0; 2]);
        assert_eq!((zeros.largest, zeros.cosine), (0.0, 1.0), "equal outputs");
    }
}
