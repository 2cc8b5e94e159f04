//! Finds the scales of a network.

use super::model::Model;
use crate::errors::error::{Error, Result};
use crate::quantize::plan::check_any;
use crate::quantize::probes::Probes;
use crate::quantize::scales::{Scales, check_percentile};
use reef_op::{Format, Operators};
use std::collections::BTreeMap;

impl Model {
    /// Runs the network on samples, and finds the largest absolute value of each storage between
    /// its input and its output.
    ///
    /// A sample is an input that is like those to come: all images of the network's batch. Of
    /// each image's values of a storage, `percentile` of a hundred are not above the largest; all
    /// others become the largest number.
    ///
    /// # Errors
    ///
    /// `NotImage` or `Kind` for a network that isn't one for images; `Scales` without samples, for
    /// a percentile out of range, for values that are not finite, or if no step can have numbers of
    /// 8 bits; `Length` for a sample of another length; an error of the device.
    pub fn calibrate<D: Operators>(
        &self,
        device: &D,
        format: Format,
        percentile: f64,
        samples: impl IntoIterator<Item = Vec<f32>>,
    ) -> Result<Scales> {
        let (model, tensors) = self.image()?;
        let network = self.name().to_owned();
        let wrong = |why| Error::Scales { file: network.clone(), why };
        check_percentile(percentile).map_err(wrong)?;
        let mut probes = Probes::new(device, model, tensors)?;
        let (mut largest, mut count) = (BTreeMap::new(), 0);
        for sample in samples {
            count += 1;
            probes.run(&sample, |name, values| {
                let image = values.len() / model.input().batch;
                for values in values.chunks_mut(image) {
                    let Some(found) = percentile_of(values, percentile) else {
                        let what = format!("values of {name} must be finite, in sample {count}");
                        return Err(wrong(format!("{what} one is not")));
                    };
                    let largest: &mut f32 = largest.entry(name.to_owned()).or_default();
                    *largest = largest.max(found);
                }
                Ok(())
            })?;
        }
        if count == 0 {
            return Err(wrong("samples: must be at least 1, got 0".into()));
        }
        let scales =
            Scales { network: network.clone(), format, percentile, samples: count, largest };
        check_any(model, &scales).map_err(wrong)?;
        Ok(scales)
    }
}

/// Least of the absolute values that `percentile` of a hundred values are not above; `None` if one
/// is not finite. Changes the order of the values.
fn percentile_of(values: &mut [f32], percentile: f64) -> Option<f32> {
    if !values.iter().all(|value| value.is_finite()) {
        return None;
    }
    let count = (values.len() as f64 * percentile / 100.0).ceil() as usize;
    let at = count.clamp(1, values.len()) - 1;
    let (_, found, _) = values.select_nth_unstable_by(at, |a, b| a.abs().total_cmp(&b.abs()));
    Some(found.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_is_the_least_value_that_enough_are_not_above() {
        let of = |percentile| percentile_of(&mut [-4.0, 1.0, 3.0, -2.0], percentile);
        let rows = [(100.0, 4.0), (75.1, 4.0), (75.0, 3.0), (50.0, 2.0), (0.001, 1.0)];
        for (percentile, want) in rows {
            assert_eq!(of(percentile), Some(want), "{percentile}");
        }
        assert_eq!(percentile_of(&mut [1.0, f32::NAN], 50.0), None);
        assert_eq!(percentile_of(&mut [1.0, f32::INFINITY], 50.0), None);
    }
}
