//! Changes between two scrapes of a daemon's metrics.

use super::guests::{Guest, guests};
use super::jobs::{Job, jobs};
use super::rates::{Rates, grown};
use super::sessions::RemoteSession;
use crate::remote::residency::Residency;
use crate::remote::scrape::{Labels, Scrape};
use crate::report::date::date;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

/// Everything that is shown. Rates and times are of the interval, the rest is of its end; `None` is
/// what the daemon doesn't say, or what didn't happen.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct View {
    pub(crate) date: String,
    pub(crate) seconds: f64,
    pub(crate) devices: Vec<Device>,
    /// Of programs that ask for inferences, and of those that only look, such as this one.
    pub(crate) connections: u64,
    /// By the path that they took, if the daemon says.
    pub(crate) connections_by_path: BTreeMap<String, u64>,
    pub(crate) open_requests: u64,
    pub(crate) models_loaded: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) rt_per_second: f64,
    pub(crate) be_per_second: f64,
    pub(crate) failed_per_second: f64,
    pub(crate) queued: u64,
    pub(crate) preemptions_per_second: f64,
    pub(crate) padded_per_second: f64,
    /// Time from the submission of real-time work until it could start: the preemption.
    pub(crate) rt_start_p50_us: Option<f64>,
    pub(crate) rt_start_p99_us: Option<f64>,
    pub(crate) models: Vec<Model>,
    pub(crate) guests: Vec<Guest>,
    /// Jobs with limits.
    pub(crate) jobs: Vec<Job>,
    pub(crate) shares: Vec<Share>,
    /// Programs of other machines that use devices of this one.
    pub(crate) sessions: Vec<RemoteSession>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Device {
    pub(crate) name: String,
    pub(crate) units: Option<u64>,
    pub(crate) busy_percent: Option<f64>,
    /// Open requests and connections of the local path there.
    pub(crate) load: Option<u64>,
    /// It works no more.
    pub(crate) is_lost: bool,
}

/// The requests of one version of a model in one class.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Model {
    pub(crate) model: String,
    pub(crate) version: String,
    pub(crate) class: String,
    pub(crate) per_second: f64,
    pub(crate) failed_per_second: f64,
    pub(crate) p50_ms: Option<f64>,
    pub(crate) p99_ms: Option<f64>,
    pub(crate) queued: u64,
    /// Its processes, if they are on the GPU on demand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) residency: Option<Residency>,
}

/// Share of the device that one client takes in one class, by its name in the daemon's
/// configuration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Share {
    pub(crate) client: String,
    pub(crate) class: String,
    /// Device time, of the interval.
    pub(crate) percent: f64,
    /// Its budget as a part of the device; real-time only.
    pub(crate) budget_percent: Option<f64>,
    /// Requests over its budget: late, best-effort or refused; real-time alone.
    pub(crate) over_per_second: Option<f64>,
    /// Late requests among them.
    pub(crate) late_per_second: Option<f64>,
    /// Time in which its requests were on the device and did not run, of the interval: beyond 100
    /// with several at a time. `None`: the daemon doesn't say.
    pub(crate) held_percent: Option<f64>,
}

/// Names of numbers that are a sum over time.
const SERVED: &str = "reef_requests_served_total";
const FAILED: &str = "reef_requests_failed_total";
const DEVICE: &str = "reef_client_device_seconds_total";
const HELD: &str = "reef_client_held_seconds_total";
const OVER: &str = "reef_client_over_total";
const BUSY: &str = "reef_device_busy_seconds_total";

/// Two polls.
pub(crate) struct Interval<'a> {
    pub(crate) before: &'a Scrape,
    pub(crate) after: &'a Scrape,
    pub(crate) time: Duration,
}

impl Interval<'_> {
    /// The changes between the two scrapes.
    pub(crate) fn view(&self) -> View {
        let class = |class: &'static str| move |of: &Labels| is(of, "class", class);
        let [p50, p99] = self.quantiles("reef_rt_start_seconds", |_| true);
        let micros = |seconds: f64| seconds * 1e6;
        View {
            date: date(SystemTime::now()),
            seconds: self.time.as_secs_f64(),
            devices: self.devices(),
            connections: self.now("reef_clients", |_| true),
            connections_by_path: self.connections_by_path(),
            open_requests: self.now("reef_open_requests", |_| true),
            models_loaded: self.now("reef_models", |_| true),
            memory_bytes: self.now("reef_memory_bytes", |_| true),
            rt_per_second: self.rate(SERVED, class("rt")),
            be_per_second: self.rate(SERVED, class("be")),
            failed_per_second: self.rate(FAILED, |_| true),
            queued: self.now("reef_queue_depth", |_| true),
            preemptions_per_second: self.rate("reef_preemptions", |_| true),
            padded_per_second: self.rate("reef_padded_launches", |_| true),
            rt_start_p50_us: p50.map(micros),
            rt_start_p99_us: p99.map(micros),
            models: self.models(),
            guests: guests(self.rates()),
            jobs: jobs(self.rates()),
            shares: self.shares(),
            sessions: Vec::new(),
        }
    }

    fn models(&self) -> Vec<Model> {
        let key = |of: &Labels| {
            ["model", "version", "class"].map(|name| of.get(name).cloned().unwrap_or_default())
        };
        let named = [SERVED, FAILED, "reef_queue_depth"].into_iter();
        let mut keys: Vec<_> =
            named.flat_map(|name| self.after.all(name).iter().map(|(of, _)| key(of))).collect();
        keys.sort();
        keys.dedup();
        keys.into_iter()
            .map(|[model, version, class]| {
                let mine = |of: &Labels| key(of) == [&*model, &*version, &*class];
                let [p50, p99] = self.quantiles("reef_request_seconds", mine);
                let millis = |seconds: f64| seconds * 1e3;
                Model {
                    per_second: self.rate(SERVED, mine),
                    failed_per_second: self.rate(FAILED, mine),
                    p50_ms: p50.map(millis),
                    p99_ms: p99.map(millis),
                    queued: self.now("reef_queue_depth", mine),
                    residency: Residency::of(self.after, mine),
                    model,
                    version,
                    class,
                }
            })
            .collect()
    }

    /// Shares of all clients that have used the device.
    fn shares(&self) -> Vec<Share> {
        let had = self.after.all(DEVICE).iter().filter(|(_, seconds)| *seconds > 0.0);
        had.filter_map(|(of, _)| self.share(of.get("client")?, of.get("class")?)).collect()
    }

    fn share(&self, client: &str, class: &str) -> Option<Share> {
        let mine = |of: &Labels| is(of, "client", client);
        let rt = class == "rt";
        let [budget, period] = ["budget", "period"]
            .map(|what| self.after.sum(&format!("reef_client_{what}_seconds"), mine));
        let of_class = |of: &Labels| mine(of) && is(of, "class", class);
        let says_held = self.after.sum(HELD, of_class).is_some();
        let granted = budget.zip(period).map(|(budget, period)| 100.0 * budget / period);
        Some(Share {
            client: client.into(),
            class: class.into(),
            percent: 100.0 * self.rate(DEVICE, of_class),
            budget_percent: granted.filter(|_| rt),
            over_per_second: rt.then(|| self.rate(OVER, mine)),
            late_per_second: rt
                .then(|| self.rate(OVER, |of| mine(of) && is(of, "outcome", "late"))),
            held_percent: says_held.then(|| 100.0 * self.rate(HELD, of_class)),
        })
    }

    fn devices(&self) -> Vec<Device> {
        let named = ["reef_device_units", BUSY].into_iter();
        let mut names: Vec<_> = named
            .flat_map(|name| self.after.all(name).iter().filter_map(|(of, _)| of.get("device")))
            .cloned()
            .collect();
        names.sort();
        names.dedup();
        names
            .into_iter()
            .map(|name| {
                let mine = |of: &Labels| is(of, "device", &name);
                let units = self.after.sum("reef_device_units", mine).map(|units| units as u64);
                let known = self.after.sum(BUSY, mine).is_some();
                let busy_percent = known.then(|| (100.0 * self.rate(BUSY, mine)).min(100.0));
                let load = self.after.sum("reef_device_load", mine).map(|load| load as u64);
                let is_lost = self.after.sum("reef_device_up", mine) == Some(0.0);
                Device { units, busy_percent, load, is_lost, name }
            })
            .collect()
    }

    fn connections_by_path(&self) -> BTreeMap<String, u64> {
        let of = self.after.all("reef_clients").iter();
        of.filter_map(|(of, value)| Some((of.get("path")?.clone(), *value as u64))).collect()
    }

    /// Current value.
    fn now(&self, name: &str, of: impl Fn(&Labels) -> bool) -> u64 {
        self.after.sum(name, of).unwrap_or(0.0) as u64
    }

    fn rates(&self) -> Rates<'_> {
        Rates { before: self.before, after: self.after, time: self.time }
    }

    /// Growth per second.
    fn rate(&self, name: &str, of: impl Fn(&Labels) -> bool + Copy) -> f64 {
        self.rates().rate(name, of)
    }

    /// p50 and p99 of what a histogram took up meanwhile.
    fn quantiles(&self, name: &str, of: impl Fn(&Labels) -> bool + Copy) -> [Option<f64>; 2] {
        let name = format!("{name}_bucket");
        let mut limits: Vec<_> = self
            .after
            .all(&name)
            .iter()
            .filter(|(labels, _)| of(labels))
            .filter_map(|(labels, _)| labels.get("le")?.parse::<f64>().ok())
            .collect();
        limits.sort_by(f64::total_cmp);
        limits.dedup();
        let below = |limit: f64| {
            let at = |labels: &Labels| {
                let le = labels.get("le").and_then(|le| le.parse::<f64>().ok());
                of(labels) && le == Some(limit)
            };
            grown(self.before.sum(&name, at), self.after.sum(&name, at))
        };
        let buckets: Vec<_> = limits.into_iter().map(|limit| (limit, below(limit))).collect();
        [0.5, 0.99].map(|q| quantile(&buckets, q))
    }
}

fn is(of: &Labels, name: &str, value: &str) -> bool {
    of.get(name).is_some_and(|have| have == value)
}

/// The value below which the share `q` lies, from upper limits and how many are below each: evenly
/// spread in a bucket, as Prometheus' `histogram_quantile` has it.
fn quantile(buckets: &[(f64, f64)], q: f64) -> Option<f64> {
    let all = buckets.last()?.1;
    if all <= 0.0 {
        return None;
    }
    let index = buckets.iter().position(|&(_, below)| below >= q * all)?;
    let (upper, below) = buckets[index];
    let (lower, before) = if index == 0 { (0.0, 0.0) } else { buckets[index - 1] };
    if upper.is_infinite() {
        return Some(lower);
    }
    Some(lower + (upper - lower) * (q * all - before) / (below - before).max(f64::MIN_POSITIVE))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A daemon's numbers after `times` seconds of the same.
    pub(crate) fn numbers(times: u64) -> String {
        let of = "model=\"resnet18\",version=\"1\"";
        format!(
            "reef_requests_served_total{{{of},class=\"rt\"}} {}\n\
             reef_requests_served_total{{{of},class=\"be\"}} {}\n\
             reef_requests_failed_total{{{of},class=\"be\",reason=\"deadline\"}} {}\n\
             reef_request_seconds_bucket{{{of},class=\"rt\",le=\"0.001\"}} 0\n\
             reef_request_seconds_bucket{{{of},class=\"rt\",le=\"0.002\"}} {}\n\
             reef_request_seconds_bucket{{{of},class=\"rt\",le=\"+Inf\"}} {}\n\
             reef_rt_start_seconds_bucket{{{of},class=\"rt\",le=\"1e-05\"}} {}\n\
             reef_rt_start_seconds_bucket{{{of},class=\"rt\",le=\"+Inf\"}} {}\n\
             reef_queue_depth{{{of},class=\"be\"}} 5\n\
             reef_preemptions {}\n\
             reef_clients{{path=\"local\"}} 3\n\
             reef_clients{{path=\"grpc\"}} 2\n\
             reef_device_busy_seconds_total{{device=\"cpu:0\"}} {}\n\
             reef_device_units{{device=\"cpu:0\"}} 8\n\
             reef_device_up{{device=\"cpu:0\"}} 1\n\
             reef_device_load{{device=\"cpu:0\"}} 3\n\
             reef_device_units{{device=\"cpu:1\"}} 8\n\
             reef_device_up{{device=\"cpu:1\"}} 0\n\
             reef_client_device_seconds_total{{client=\"token a\",class=\"rt\"}} {}\n\
             reef_client_device_seconds_total{{client=\"token a\",class=\"be\"}} 0\n\
             reef_client_period_seconds{{client=\"token a\"}} 0.01\n\
             reef_client_budget_seconds{{client=\"token a\"}} 0.002\n\
             reef_client_over_total{{client=\"token a\",outcome=\"late\"}} {times}\n\
             reef_client_over_total{{client=\"token a\",outcome=\"refused\"}} {times}\n\
             reef_client_held_seconds_total{{client=\"token a\",class=\"rt\"}} {}\n\
             reef_guest_active{{guest=\"3\",class=\"be\",pid=\"77\",job=\"training\"}} 0\n\
             reef_suspended_bytes{{pid=\"77\",name=\"python\"}} 6442450944\n\
             reef_limit_memory_used_bytes{{device=\"66\",job=\"team\"}} 3145728.0\n\
             reef_limit_memory_bytes{{device=\"66\",job=\"team\"}} 8589934592.0\n\
             reef_memory_bytes 3145728\n",
            100 * times,
            40 * times,
            2 * times,
            100 * times,
            100 * times,
            100 * times,
            100 * times,
            90 * times,
            0.25 * times as f64,
            0.125 * times as f64,
            0.5 * times as f64,
        )
    }

    pub(crate) fn view() -> View {
        let [before, after] = [2, 6].map(|times| Scrape::parse(&numbers(times)));
        Interval { before: &before, after: &after, time: Duration::from_secs(4) }.view()
    }

    #[test]
    fn rates_and_times_are_those_of_the_interval() {
        let view = view();
        assert_eq!((view.rt_per_second, view.be_per_second), (100.0, 40.0));
        assert_eq!((view.failed_per_second, view.preemptions_per_second), (2.0, 90.0));
        assert_eq!((view.connections, view.connections_by_path["local"]), (5, 3));
        assert_eq!(view.rt_start_p50_us, Some(5.0));
        let device = &view.devices[0];
        assert_eq!((&*device.name, device.units), ("cpu:0", Some(8)));
        assert_eq!(
            (device.busy_percent, device.load, device.is_lost),
            (Some(25.0), Some(3), false)
        );
        assert_eq!((&*view.devices[1].name, view.devices[1].is_lost), ("cpu:1", true));
        let [share] = &view.shares[..] else { panic!("{:?}", view.shares) };
        assert_eq!((&*share.client, &*share.class, share.percent), ("token a", "rt", 12.5));
        assert_eq!((share.budget_percent, share.over_per_second), (Some(20.0), Some(2.0)));
        assert_eq!((share.held_percent, share.late_per_second), (Some(50.0), Some(1.0)));
        let [be, rt] = &view.models[..] else { panic!("{:?}", view.models) };
        assert_eq!((&*be.class, be.per_second, be.queued, be.p50_ms), ("be", 40.0, 5, None));
        assert_eq!((&*rt.class, rt.failed_per_second), ("rt", 0.0));
        assert!((rt.p50_ms.unwrap() - 1.5).abs() < 1e-9, "{rt:?}");
        assert!((rt.p99_ms.unwrap() - 1.99).abs() < 1e-9, "{rt:?}");
    }

    #[test]
    fn another_daemon_begins_at_zero() {
        let [before, after] = [9, 1].map(|times| Scrape::parse(&numbers(times)));
        let between = Interval { before: &before, after: &after, time: Duration::from_secs(1) };
        assert_eq!(between.view().rt_per_second, 100.0);
    }

    #[test]
    fn an_old_daemon_says_less() {
        let (before, after) = (Scrape::default(), Scrape::parse("reef_clients 4\n"));
        let between = Interval { before: &before, after: &after, time: Duration::from_secs(1) };
        let view = between.view();
        assert_eq!((view.connections, view.rt_start_p99_us), (4, None));
        assert!(view.connections_by_path.is_empty() && view.devices.is_empty());
    }

    #[test]
    fn quantiles_lie_within_their_bucket() {
        let buckets = [(1.0, 10.0), (2.0, 10.0), (4.0, 20.0), (f64::INFINITY, 20.0)];
        assert_eq!(quantile(&buckets, 0.25), Some(0.5));
        assert_eq!(quantile(&buckets, 0.75), Some(3.0));
        assert_eq!(quantile(&[(1.0, 0.0), (f64::INFINITY, 3.0)], 0.5), Some(1.0));
        assert_eq!(quantile(&[(1.0, 0.0)], 0.5), None);
        assert_eq!(quantile(&[], 0.5), None);
    }
}
