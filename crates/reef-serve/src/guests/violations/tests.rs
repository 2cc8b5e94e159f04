//! Guests and processes that commit violations.

use super::find::{Kind, violation};
use super::revoked::RevokedProcesses;
use super::scan::Violations;
use crate::guests::collector::{ViolationCollector, hex};
use reef_guest::join::{JoinRequest, Joined, join};
use reef_guest::page::Class;
use reef_guest::registry::Registry;
use reef_nvml::{Process, Uuid};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const GPU: Uuid = *b"sixteen bytes id";

fn registry(revoked: &Arc<RevokedProcesses>) -> (Arc<Registry>, PathBuf) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path =
        std::env::temp_dir().join(format!("reef-violations-{}-{number}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let of = revoked.clone();
    let policy = Box::new(move |caller: &reef_guest::registry::Caller, wish: &JoinRequest| {
        of.check(caller.pid, wish.class).map(|()| wish.class)
    });
    (Arc::new(Registry::open(&path, policy).unwrap()), path)
}

fn guest(path: &std::path::Path, class: Class) -> Result<Joined, String> {
    let wish = JoinRequest { class, device: GPU };
    join(path, &wish, Duration::from_secs(60)).map_err(|why| why.to_string())
}

#[allow(unsafe_code)] // what a program may do to its own memory
fn change(joined: &Joined) {
    let first = joined.page.address().cast::<u64>();
    // SAFETY: the first word of the page, which is atomics alone.
    unsafe { AtomicU64::from_ptr(first) }.store(7, Ordering::Relaxed);
}

/// Returns the metrics as Prometheus and the plugins of Kubernetes nodes read them.
fn metrics(violations: &Arc<Violations>) -> String {
    let mut registry = prometheus_client::registry::Registry::default();
    registry.register_collector(Box::new(ViolationCollector(violations.clone())));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    text
}

fn no_processes(_: &Uuid) -> Option<Vec<Process>> {
    Some(Vec::new())
}

#[test]
fn changed_page_revokes_rt_and_reports_be() {
    let revoked = Arc::<RevokedProcesses>::default();
    let (registry, path) = registry(&revoked);
    let violations = Violations::new(&registry, revoked);
    let (be, rt) =
        (guest(&path, Class::BestEffort).unwrap(), guest(&path, Class::RealTime).unwrap());
    violations.scan(&[], no_processes, Instant::now());
    assert_eq!(violations.now(), []);
    change(&rt);
    violations.scan(&[], no_processes, Instant::now());
    assert_eq!(violations.count(Kind::Page), 1);
    assert_eq!(registry.guests().len(), 1, "it is out");
    let line = guest(&path, Class::RealTime).unwrap_err();
    assert!(line.contains("class rt was revoked: this process changed its page"), "{line}");
    guest(&path, Class::BestEffort).unwrap();
    violations.scan(&[], no_processes, Instant::now());
    assert_eq!(violations.now(), []);
    change(&be);
    let pid = std::process::id();
    for _ in 0..2 {
        violations.scan(&[], no_processes, Instant::now());
        assert_eq!(violations.now(), [violation(Kind::Page, GPU, pid, "")]);
    }
    assert_eq!(violations.count(Kind::Page), 2, "each once");
    assert!(registry.guests().iter().any(|view| view.who == be.who), "it keeps its gates");
}

#[test]
fn process_that_is_not_a_guest_is_reported_after_a_while() {
    let revoked = Arc::<RevokedProcesses>::default();
    let (registry, path) = registry(&revoked);
    let violations = Violations::new(&registry, revoked);
    let pids = [std::process::id(), 1];
    let both = |device: &Uuid| {
        assert_eq!(*device, GPU);
        Some(pids.map(|pid| Process { pid, memory: Some(3 << 30) }).into())
    };
    let begun = Instant::now();
    violations.scan(&[], both, begun); // there is no guest to be disturbed
    let _guest = guest(&path, Class::BestEffort).unwrap();
    for (seconds, want) in [(1, 0), (10, 0), (11, 1), (12, 1)] {
        violations.scan(&[], both, begun + Duration::from_secs(seconds));
        assert_eq!(violations.now().len(), want, "after {seconds} s");
    }
    assert_eq!(violations.now(), [violation(Kind::Unmanaged, GPU, 1, "")]);
    let violations = Arc::new(violations);
    let line = format!(
        "reef_violation{{kind=\"unmanaged\",device=\"{}\",pid=\"1\",job=\"\"}} 1\n",
        hex(&GPU)
    );
    assert!(metrics(&violations).contains(&line), "{}", metrics(&violations));
    violations.scan(&[], |_| None, begun + Duration::from_secs(13));
    assert_eq!((violations.now().len(), violations.count(Kind::Unmanaged)), (0, 1));
    let text = metrics(&violations);
    assert!(text.contains("reef_violations_total{kind=\"unmanaged\"} 1\n"), "{text}");
    assert!(!text.contains("reef_violation{"), "{text}");
}
