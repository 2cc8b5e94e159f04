//! Registers guests at a socket, without a daemon, and says once a second what they do; for
//! measurements.
//!
//! `registry SOCKET [HOLD] [PERIOD] [LONGEST]`: with HOLD, a seed, all best-effort guests are held
//! at random for 0.1 ms to LONGEST at a time, 20 ms if it is not given. PERIOD is that of pass
//! windows. Both are in microseconds; a PERIOD of 0 is the usual one.

use reef_guest::registry::{GuestView, Registry, Rules};
use std::path::PathBuf;
use std::time::{Duration, Instant};

fn main() -> std::io::Result<()> {
    let mut args = std::env::args().skip(1);
    let path = PathBuf::from(args.next().ok_or(std::io::ErrorKind::InvalidInput)?);
    let mut seed: Option<u64> = args.next().and_then(|seed| seed.parse().ok());
    let mut rules = Rules::default();
    let mut micros = || args.next().and_then(|value| value.parse().ok()).filter(|value| *value > 0);
    if let Some(period) = micros() {
        rules.colocate_period = Duration::from_micros(period);
    }
    let longest = micros().unwrap_or(20_000).max(200);
    let registry = Registry::open_with(&path, rules, Box::new(|_, wish| Ok(wish.class)))?;
    let mut said = Instant::now();
    loop {
        let guests = registry.guests();
        if said.elapsed() > Duration::from_secs(1) {
            guests.iter().for_each(|guest| println!("{}", line(guest)));
            said = Instant::now();
        }
        match &mut seed {
            Some(seed) => hold_at_random(&registry, &guests, seed, longest),
            None => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

fn line(guest: &GuestView) -> String {
    let GuestView { who, kernels, graphs, gates, delayed, starvation_reliefs, refused, .. } = guest;
    let counts = format!("kernels {kernels} graphs {graphs} gates {gates} delayed {delayed}");
    let counts = format!("{counts} starvation reliefs {starvation_reliefs} refused {refused}");
    let shares = format!(
        "share {:.4} passed {:.3} s held {:.3} s iterations {} growth {:.3}",
        f64::from(guest.duty) / 1e6,
        guest.passed.as_secs_f64(),
        guest.held.as_secs_f64(),
        guest.iterations,
        guest.growth.unwrap_or_default(),
    );
    format!("{} pid {}: {counts} {shares}", who.class, who.pid)
}

fn hold_at_random(registry: &Registry, guests: &[GuestView], seed: &mut u64, longest: u64) {
    let mut pause = || {
        *seed =
            seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_micros(100 + (*seed >> 33) % (longest - 100)));
    };
    guests.iter().for_each(|guest| registry.hold(guest.device, true));
    pause();
    guests.iter().for_each(|guest| registry.hold(guest.device, false));
    pause();
}
