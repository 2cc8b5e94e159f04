//! Quantiles of few samples.

/// Returns the value below which `part` of the samples are: the nearest rank. `None`: there are
/// none. Changes their order.
pub fn quantile(samples: &mut [f64], part: f64) -> Option<f64> {
    let rank = (samples.len() as f64 * part).ceil() as usize;
    let at = rank.clamp(1, samples.len().max(1)) - 1;
    (at < samples.len()).then(|| *samples.select_nth_unstable_by(at, f64::total_cmp).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantile_is_the_nearest_rank() {
        let mut all: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(quantile(&mut all, 0.99), Some(99.0));
        assert_eq!(quantile(&mut all, 0.5), Some(50.0));
        assert_eq!(quantile(&mut all, 0.0), Some(1.0));
        assert_eq!(quantile(&mut [], 0.5), None);
    }
}
