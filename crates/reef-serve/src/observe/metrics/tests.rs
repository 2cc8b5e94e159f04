use super::*;
use crate::observe::exposition::Exposition;
use crate::observe::stats::{Numbers, Sum};
use crate::observe::triton::GpuCollector;
use reef_nvml::Figures;
use std::time::Instant;

#[test]
fn series_of_a_model_end_with_it() {
    let metrics = Metrics::default();
    let sizes = |names: &[&str]| {
        let of = |name: &&str| ModelLabels { model: (*name).to_owned(), version: 1 };
        names.iter().map(|name| (of(name), 1)).collect()
    };
    for model in ["leaves", "stays"] {
        let of = ClassLabels { model: model.into(), version: 1, class: "rt" };
        metrics.note_answer(&of, Duration::ZERO, Some(Ok(())));
        metrics.note_answer(&of, Duration::ZERO, None);
        let delay = Some(Duration::from_micros(5));
        metrics.note_phases(&of, &Phases { infer: Duration::MAX, delay, ..Phases::default() });
    }
    let text = |names| metrics.text(&Snapshot { sizes: sizes(names), ..Snapshot::default() });
    assert!(text(&["leaves", "stays"]).contains("\"leaves\""));
    let left = text(&["stays"]);
    assert!(!left.contains("\"leaves\""), "{left}");
    assert!(
        left.contains("reef_requests_served_total{model=\"stays\",version=\"1\",class=\"rt\"} 1")
    );
}

#[test]
fn metrics_text_has_every_counted_event() {
    let metrics = Metrics::default();
    let of = ClassLabels { model: "resnet18".into(), version: 1, class: "rt" };
    let phases = Phases {
        infer: Duration::from_millis(3),
        delay: Some(Duration::from_micros(5)),
        ..Phases::default()
    };
    let late = Error::Deadline(String::new());
    for outcome in [Some(Ok(())), Some(Err(&late)), None] {
        metrics.note_answer(&of, phases.total(), outcome);
    }
    metrics.note_phases(&of, &phases);
    metrics.note_phases(&of, &phases);
    let mut answer = metrics.answers.begin(Protocol::Http);
    answer.set("ok");
    drop((answer, metrics.answers.begin(Protocol::Grpc)));
    let mut stats = reef::Stats::default();
    (stats.preemptions, stats.padded_blocks) = (7, 9);
    let (name, busy) = ("cpu:0".into(), Duration::from_millis(500));
    let device = DeviceSnapshot { name, units: 2, busy, stats, memory: 41, load: 3, is_up: true };
    let snapshot = Snapshot {
        devices: vec![device.clone()],
        memory: 42,
        sizes: vec![(ModelLabels { model: "resnet18".into(), version: 1 }, 40)],
        engines: vec![EngineLabels { model: "resnet18".into(), version: 1, engine: "reef" }],
        clients: [3, 0, 1],
        depths: vec![(of, 2)],
        ..Snapshot::default()
    };
    metrics.text(&snapshot);
    let text = metrics.text(&Snapshot {
        devices: vec![DeviceSnapshot { busy: Duration::from_millis(750), ..device }],
        ..snapshot
    });
    let of = "model=\"resnet18\",version=\"1\",class=\"rt\"";
    for line in [
        format!("reef_requests_served_total{{{of}}} 1"),
        format!("reef_requests_failed_total{{{of},reason=\"deadline\"}} 1"),
        format!("reef_requests_failed_total{{{of},reason=\"gone\"}} 1"),
        "reef_answers_total{path=\"http\",outcome=\"ok\"} 1".into(),
        "reef_answers_total{path=\"grpc\",outcome=\"gone\"} 1".into(),
        format!("reef_request_seconds_count{{{of}}} 1"),
        format!("reef_rt_start_seconds_count{{{of}}} 2"),
        format!("reef_queue_depth{{{of}}} 2"),
        format!("reef_request_infer_seconds_count{{{of}}} 2"),
        "reef_device_busy_seconds_total{device=\"cpu:0\"} 0.75".into(),
        "reef_device_units{device=\"cpu:0\"} 2".into(),
        "reef_device_up{device=\"cpu:0\"} 1".into(),
        "reef_device_load{device=\"cpu:0\"} 3".into(),
        "reef_device_memory_bytes{device=\"cpu:0\"} 41".into(),
        "reef_device_preemptions{device=\"cpu:0\"} 7".into(),
        "reef_clients{path=\"local\"} 3".into(),
        "reef_clients{path=\"grpc\"} 0".into(),
        "reef_clients{path=\"http\"} 1".into(),
        "reef_model_memory_bytes{model=\"resnet18\",version=\"1\"} 40".into(),
        "reef_model_engine{model=\"resnet18\",version=\"1\",engine=\"reef\"} 1".into(),
        "reef_padded_blocks 9".into(),
        "reef_memory_bytes 42".into(),
        "reef_preemptions 7".into(),
    ] {
        assert!(text.lines().any(|l| l == line), "{line}\n{text}");
    }
}

#[test]
fn figures_of_a_model_have_tritons_names() {
    let sum = |count, micros| Sum { count, time: Duration::from_micros(micros) };
    let numbers = Numbers {
        success: sum(5, 100),
        fail: sum(2, 7),
        queue: sum(5, 10),
        input: sum(5, 20),
        infer: sum(5, 60),
        output: sum(5, 11),
        last: 0,
    };
    let model = |model: &str| ModelFigures {
        model: model.into(),
        version: 3,
        numbers,
        batch: 4,
        executions: 3,
        waiting: 6,
    };
    let metrics = Metrics::default();
    let text = |names: &[&str]| {
        let figures = names.iter().map(|name| model(name)).collect();
        metrics.text(&Snapshot { figures, ..Snapshot::default() })
    };
    text(&["gone"]);
    let text = text(&["m"]);
    for (name, value) in [
        ("request_success", 5),
        ("request_failure", 2),
        ("count", 20),
        ("exec_count", 3),
        ("request_duration_us", 100),
        ("queue_duration_us", 10),
        ("compute_duration_us", 91),
        ("compute_input_duration_us", 20),
        ("compute_infer_duration_us", 60),
        ("compute_output_duration_us", 11),
        ("pending_request_count", 6),
    ] {
        let line = format!("nv_inference_{name}{{model=\"m\",version=\"3\"}} {value}");
        assert!(text.lines().any(|l| l == line), "{line}\n{text}");
    }
    assert!(!text.contains("gone"), "{text}");
}

/// Names and labels in the queries of the dashboards, rules and autoscalers of Triton's
/// repositories for its server and its tutorials. `instance`, `job` and `pod` are Prometheus' own.
const OF_TRITONS_DASHBOARDS: [(&str, &[&str]); 16] = [
    ("nv_inference_request_success", &["model", "version"]),
    ("nv_inference_request_failure", &["model", "version"]),
    ("nv_inference_count", &["model", "version"]),
    ("nv_inference_exec_count", &["model", "version"]),
    ("nv_inference_request_duration_us", &["model", "version"]),
    ("nv_inference_queue_duration_us", &["model", "version"]),
    ("nv_inference_compute_duration_us", &["model", "version"]),
    ("nv_inference_compute_input_duration_us", &["model", "version"]),
    ("nv_inference_compute_infer_duration_us", &["model", "version"]),
    ("nv_inference_compute_output_duration_us", &["model", "version"]),
    ("nv_inference_load_ratio_bucket", &["le"]),
    ("nv_gpu_power_usage", &["gpu_uuid"]),
    ("nv_gpu_memory_used_bytes", &["gpu_uuid"]),
    ("nv_gpu_utilization", &["gpu_uuid"]),
    ("nv_cpu_memory_used_bytes", &[]),
    ("nv_cpu_utilization", &[]),
];

#[test]
fn panels_of_tritons_dashboards_have_their_series() {
    let gpu = Figures {
        utilization: Some(50),
        memory: Some([2, 1]),
        power: Some(3000),
        ..Figures::default()
    };
    let metrics = Metrics::default();
    metrics.add(Box::new(GpuCollector::asking(move || Some(vec![("GPU-1".into(), gpu)]))));
    let of = ClassLabels { model: "m".into(), version: 1, class: "be" };
    let millis = Duration::from_millis;
    metrics.note_phases(&of, &Phases { queue: millis(3), infer: millis(1), ..Phases::default() });
    let figures = ModelFigures {
        model: "m".into(),
        version: 1,
        numbers: Numbers::default(),
        batch: 1,
        executions: 1,
        waiting: 0,
    };
    let sizes = vec![(ModelLabels { model: "m".into(), version: 1 }, 1)];
    let snapshot = Snapshot { figures: vec![figures], sizes, ..Snapshot::default() };
    let begin = Instant::now();
    let text = loop {
        let text = Exposition::Prometheus.write(metrics.text(&snapshot));
        if text.contains("nv_gpu_") {
            break text; // another thread has answered
        }
        assert!(begin.elapsed() < Duration::from_secs(120), "{text}");
    };
    for (name, labels) in OF_TRITONS_DASHBOARDS {
        let of_name =
            |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
        let line = text.lines().find(of_name).unwrap_or_else(|| panic!("{name}: {text}"));
        for label in labels {
            assert!(line.contains(&format!("{label}=\"")), "{label}: {line}");
        }
    }
    assert!(text.contains("# TYPE nv_inference_load_ratio histogram\n"), "{text}");
    let counted = |le: &str, count: &str| {
        let mut lines = text.lines().filter(|line| line.starts_with("nv_inference_load_ratio_b"));
        lines.any(|line| line.contains(&format!("le=\"{le}\"")) && line.ends_with(count))
    };
    assert!(counted("2.0", " 0") && counted("10.0", " 1"), "a ratio of 4: {text}");
}
