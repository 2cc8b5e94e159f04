//! Shares and targets of unmodified programs.

use super::{client, fleet, options};
use crate::{Arrivals, Class, Client, Fleet, GUESTS, Peak, Totals, simulate};

const CLOSED: Arrivals = Arrivals::Closed { pause_us: 0.0 };

/// A real-time client in a closed loop and a best-effort one, which keeps all next to it.
fn pair(change: impl FnOnce(&mut Client, &mut Client)) -> Fleet {
    let mut rt = client(Class::Rt, "resnet50", 1, CLOSED);
    let mut be = client(Class::Be, "fixed", 1, CLOSED);
    change(&mut rt, &mut be);
    fleet(1, vec![rt, be])
}

fn run(fleet: &Fleet, seconds: f64) -> Totals {
    simulate(fleet, &options(GUESTS, seconds, 1)).unwrap()
}

#[test]
fn share_passes_next_to_a_busy_client_and_slows_it() {
    for (share, mean) in [(0, 0.400), (10, 0.4095), (30, 0.430), (100, 0.520)] {
        let totals = run(&pair(|_, be| be.colocate = Some(share)), 20.0);
        let kept = totals.be_kept() * 100.0;
        assert!((kept - f64::from(share)).abs() < 0.5, "{share} %: {kept} % kept");
        let simulated = totals.rt_mean_ms();
        assert!((simulated / mean - 1.0).abs() < 0.002, "{share} %: {simulated} ms");
    }
}

#[test]
fn idle_client_holds_nothing() {
    let mut fleet = pair(|_, _| {});
    fleet.clients[0].arrivals = Arrivals::Periodic { per_second: 100.0, offset_ms: 0.0 };
    let kept = run(&fleet, 10.0).be_kept();
    assert!((kept - 0.94).abs() < 0.01, "0.4 ms and 0.2 ms of 10 are held: {kept}");
}

#[test]
fn target_is_held_by_the_daemons_controller() {
    let fleet = pair(|rt, _| rt.slo = Some(1.10));
    let alone = simulate(&fleet, &options("rt-only", 20.0, 1)).unwrap().rt_quantile_ms(0.99);
    let totals = run(&fleet, 60.0);
    let growth = totals.rt_quantile_ms(0.99) / alone;
    assert!((1.05..1.12).contains(&growth), "{growth}");
    assert!((0.05..0.5).contains(&totals.be_kept()), "{}", totals.be_kept());
}

#[test]
fn floor_stays_next_to_a_target_and_room_bounds_it() {
    let floor = run(&pair(|rt, be| (rt.slo, be.floor) = (Some(1.01), Some(20))), 20.0);
    assert!((0.195..0.22).contains(&floor.be_kept()), "{}", floor.be_kept());
    let room = run(&pair(|rt, be| (rt.slo, be.colocate) = (Some(5.0), Some(20))), 20.0);
    assert!((0.15..0.205).contains(&room.be_kept()), "{}", room.be_kept());
}

#[test]
fn queue_starts_and_ends_later_than_its_gate() {
    let kept = |open_us, run_on_us| {
        let mut fleet = pair(|_, be| be.colocate = Some(30));
        (fleet.profile.device.open_us, fleet.profile.device.run_on_us) = (open_us, run_on_us);
        run(&fleet, 20.0).be_kept()
    };
    assert!((kept(100.0, 0.0) - 0.20).abs() < 0.005, "{}", kept(100.0, 0.0));
    assert!((kept(0.0, 50.0) - 0.35).abs() < 0.005, "{}", kept(0.0, 50.0));
}

/// Kernels of 50 µs begin in windows of 300 µs of each millisecond.
#[test]
fn kernel_that_has_begun_ends_after_its_gate_closes() {
    let kept = |kernel_us, share| {
        let mut fleet = pair(|_, be| be.colocate = Some(share));
        fleet.profile.networks.get_mut("fixed").unwrap().kernel_us = kernel_us;
        run(&fleet, 20.0).be_kept()
    };
    assert!((kept(50.0, 30) - 0.35).abs() < 0.005, "{}", kept(50.0, 30));
    assert!(kept(50.0, 0) < 0.001, "nothing begins: {}", kept(50.0, 0));
    assert!(kept(50.0, 100) > 0.999, "nothing closes: {}", kept(50.0, 100));
}

/// The longer kernels of the peak run on for longer, so that more of it passes in a window.
#[test]
fn kernels_of_the_peak_have_their_own_length() {
    let kept = |rest, peak| {
        let mut fleet = pair(|_, be| be.colocate = Some(20));
        let network = fleet.profile.networks.get_mut("fixed").unwrap();
        (network.alone_us, network.kernel_us) = (20_000.0, rest);
        network.peak = Some(Peak { part: 0.5, pressure: 1.0, kernel_us: peak });
        run(&fleet, 20.0).be_kept()
    };
    let (short, long, both) = (kept(50.0, 50.0), kept(200.0, 200.0), kept(50.0, 200.0));
    assert!((short - 0.25).abs() < 0.005 && (long - 0.40).abs() < 0.01, "{short}, {long}");
    let mean = 2.0 / (1.0 / 0.25 + 1.0 / 0.40);
    assert!((both - mean).abs() < 0.01, "{both}, not {mean}");
}

#[test]
fn gate_before_each_kernel_costs_time_in_windows_alone() {
    let kept = |gate_us, share| {
        let mut fleet = pair(|_, be| be.colocate = Some(share));
        fleet.profile.device.gate_us = gate_us;
        fleet.profile.networks.get_mut("fixed").unwrap().kernel_us = 20.0;
        run(&fleet, 20.0).be_kept()
    };
    assert!((kept(0.0, 50) - 0.52).abs() < 0.005, "{}", kept(0.0, 50));
    assert!((kept(5.0, 50) - (0.4 + 0.02)).abs() < 0.005, "{}", kept(5.0, 50));
    assert!(kept(5.0, 100) > 0.999, "all passes: {}", kept(5.0, 100));
}

#[test]
fn peak_of_an_inference_slows_a_part_of_the_iterations() {
    let mut fleet = pair(|_, be| be.colocate = Some(100));
    let network = fleet.profile.networks.get_mut("fixed").unwrap();
    network.alone_us = 100_000.0;
    network.peak = Some(Peak { part: 0.2, pressure: 5.0, kernel_us: 0.0 });
    let totals = run(&fleet, 20.0);
    assert!((totals.rt_quantile_ms(0.5) - 0.520).abs() < 0.001);
    assert!((totals.rt_quantile_ms(0.99) - 1.000).abs() < 0.002);
    let be_per_second = totals.be_finished as f64 / 20.0;
    assert!((be_per_second - 10.0).abs() < 0.1, "{be_per_second}");
}

#[test]
fn tail_is_the_99th_percentile_over_the_median() {
    let mut fleet = pair(|_, _| {});
    fleet.profile.networks.get_mut("resnet50").unwrap().tail = 1.2;
    let totals = run(&fleet, 30.0);
    let tail = totals.rt_quantile_ms(0.99) / totals.rt_quantile_ms(0.5);
    assert!((tail - 1.2).abs() < 0.005, "{tail}");
}

#[test]
fn share_of_the_wrong_class_is_refused() {
    let wrong = pair(|rt, _| rt.floor = Some(10));
    let error = simulate(&wrong, &options(GUESTS, 1.0, 1)).unwrap_err().to_string();
    assert_eq!(error, "clients[0].floor: class must be be, got rt");
    let wrong = pair(|_, be| be.slo = Some(1.1));
    let error = simulate(&wrong, &options(GUESTS, 1.0, 1)).unwrap_err().to_string();
    assert_eq!(error, "clients[1].slo: class must be rt, got be");
}
