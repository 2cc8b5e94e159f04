//! Throughput that best-effort work keeps next to real-time work, defined once.

use std::time::Duration;

/// Inferences per second of a best-effort client, next to real-time work and without it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BeThroughput {
    /// Inferences per second.
    pub(crate) rate: f64,
    /// Inferences per second without real-time work, under
    /// [`BE_ALONE`](crate::workload::baselines::BE_ALONE).
    pub(crate) alone: f64,
    /// Time of one on an idle device.
    pub(crate) time: Duration,
}

/// Work done ÷ work done without real-time work, in time of the device. An inference counts as much
/// as it takes, so a shift from large networks to small ones does not raise the number. `None`
/// without any work.
pub(crate) fn kept_share(clients: &[BeThroughput]) -> Option<f64> {
    let work = |rate: fn(&BeThroughput) -> f64| -> f64 {
        clients.iter().map(|client| rate(client) * client.time.as_secs_f64()).sum()
    };
    let alone = work(|client| client.alone);
    (alone > 0.0).then(|| work(|client| client.rate) / alone)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(rate: f64, alone: f64, ms: u64) -> BeThroughput {
        BeThroughput { rate, alone, time: Duration::from_millis(ms) }
    }

    #[test]
    fn a_shift_to_small_networks_is_no_gain() {
        // A large network of 90 ms and a small one of 10 ms take turns, 5 of each in 500 ms of each
        // second.
        let fair = kept_share(&[client(5.0, 10.0, 90), client(5.0, 10.0, 10)]).unwrap();
        assert!((fair - 0.5).abs() < 1e-9, "{fair}");
        // The small one alone: a mean of ratios would say 250 %.
        let shifted = kept_share(&[client(0.0, 10.0, 90), client(50.0, 10.0, 10)]).unwrap();
        assert!((shifted - 0.5).abs() < 1e-9, "{shifted}");
        assert_eq!(kept_share(&[]), None);
        assert_eq!(kept_share(&[client(1.0, 0.0, 10)]), None);
    }
}
