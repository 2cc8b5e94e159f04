mod batches;
mod devices;
mod eight_bits;
mod guests;
mod limits;
mod loads;
mod losses;
mod models;
mod rights;
mod sequences;
mod shapes;
mod sharing;
mod sharing_by_grpc;

use super::*;
use crate::config::settings::Models;
use crate::name::ModelName;
use crate::requests::job::{Input, Output};
use crate::tenants::tenant::Tenant;
use crate::tensor::{to_bytes, to_floats};
use reef::models::{Model, Seeded};
use std::path::PathBuf;
use std::sync::mpsc::channel;

/// A repository with small networks, and a daemon without protocols on it.
struct Fixture {
    folder: PathBuf,
    server: Arc<Server>,
}

impl Fixture {
    fn new(test: &str, change: impl FnOnce(&mut Config)) -> Self {
        Self::open(test, change, Server::open)
    }

    fn open(
        test: &str,
        change: impl FnOnce(&mut Config),
        open: impl FnOnce(Config) -> Result<Arc<Server>>,
    ) -> Self {
        let folder =
            std::env::temp_dir().join(format!("reef-server-{test}-{}", std::process::id()));
        for name in ["tiny", "other"] {
            std::fs::create_dir_all(folder.join(name).join("1")).unwrap();
            let text = "network = \"resnet18\"\nsize = 32\nseed = 1\n";
            std::fs::write(folder.join(name).join("model.toml"), text).unwrap();
        }
        let mut config = Config {
            device: "cpu:0?units=1".into(),
            models: Models {
                repository: Some(folder.clone()),
                load: vec!["tiny".into()],
                builtin: true,
                ..Models::default()
            },
            ..Config::default()
        };
        config.times.request_ms = 600_000; // requests of busy machines
        change(&mut config);
        Self { server: open(config).unwrap(), folder }
    }

    fn inference(&self, priority: u64) -> Inference {
        self.inference_of("tiny", priority)
    }

    fn inference_of(&self, name: &str, priority: u64) -> Inference {
        self.inference_on(self.server.registry.get(name, "").unwrap(), priority)
    }

    fn inference_on(&self, model: Arc<LoadedModel>, priority: u64) -> Inference {
        let input = Seeded(1).input(model.base.inputs.each[0].elements());
        let (bytes, variant) = (model.base.outputs.bytes, model.base.clone());
        Inference {
            client: Peer::UNKNOWN.id,
            tenant: Tenant::owner(),
            model,
            variant,
            entry: None,
            priority: Priority::new(priority, Class::BestEffort),
            account: None,
            arrived: Instant::now(),
            timeout: None,
            call: None,
            inputs: vec![BoundInput {
                index: 0,
                offset: 0,
                input: Input::Bytes(to_bytes(&input).into()),
            }],
            outputs: vec![BoundOutput {
                index: 0,
                offset: 0,
                bytes,
                size: None,
                output: Output::Bytes,
            }],
        }
    }
}

impl Drop for Fixture {
    /// Fails if an instance works for ever.
    fn drop(&mut self) {
        let (sender, done) = channel();
        let server = self.server.clone();
        std::thread::spawn(move || {
            server.registry.clear(); // waits for instances
            let _ = sender.send(()); // it took too long
        });
        let is_clear = done.recv_timeout(Duration::from_secs(60)).is_ok();
        let _ = std::fs::remove_dir_all(&self.folder);
        assert!(is_clear || std::thread::panicking(), "a lane still works");
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(future)
}

#[test]
fn both_classes_compute_what_the_reference_does() {
    let fixture = Fixture::new("reference", |_| ());
    let model = Model::open("resnet18").input_size(32).read().unwrap();
    let input = Seeded(1).input(model.input_len());
    let want = model.expected(&input).unwrap();
    for priority in [1, 2] {
        let output = block_on(fixture.server.infer(fixture.inference(priority))).unwrap();
        let got: Vec<f32> = to_floats(&output[0]).collect();
        assert_eq!(got.len(), want.len());
        let worst =
            got.iter().zip(&want).map(|(a, b)| (a - b).abs()).max_by(f32::total_cmp).unwrap();
        assert!(worst < 1e-3, "priority {priority}: {worst}");
    }
    let numbers = fixture.server.registry.get("tiny", "1").unwrap().numbers();
    assert_eq!((numbers.success.count, numbers.fail.count), (2, 0));
    let text = fixture.server.metrics_now();
    for class in ["rt", "be"] {
        let of = format!("model=\"tiny\",version=\"1\",class=\"{class}\"");
        assert!(text.contains(&format!("reef_requests_served_total{{{of}}} 1\n")), "{text}");
    }
}

#[test]
fn an_overloaded_model_refuses_at_once() {
    let fixture = Fixture::new("overload", |config| config.limits.queue = 2);
    block_on(async {
        let many: Vec<_> = (0..20).map(|_| fixture.server.infer(fixture.inference(2))).collect();
        let (mut served, mut refused) = (0, 0);
        let mut waiting = Vec::new();
        for mut future in many.into_iter().map(Box::pin) {
            // Polled once, so that it is queued or refused.
            let first = std::future::poll_fn(|cx| {
                std::task::Poll::Ready(match future.as_mut().poll(cx) {
                    std::task::Poll::Ready(how) => Some(how),
                    std::task::Poll::Pending => None,
                })
            });
            match first.await {
                Some(Err(Error::Exhausted(text))) => {
                    assert_eq!(text, "queue full: waiting requests must be at most 2");
                    refused += 1;
                }
                Some(how) => panic!("{how:?}"),
                None => waiting.push(future),
            }
        }
        for future in waiting {
            future.await.unwrap();
            served += 1;
        }
        // How many are served while others are still asked for is the machine's affair.
        assert!(served >= 2 && refused >= 1, "{served} served, {refused} refused");
        assert_eq!(served + refused, 20);
        let of = "model=\"tiny\",version=\"1\",class=\"be\",reason=\"exhausted\"";
        let counted = format!("reef_requests_failed_total{{{of}}} {refused}\n");
        assert!(
            fixture.server.metrics_now().contains(&counted),
            "{}",
            fixture.server.metrics_now()
        );
    });
}

#[test]
fn a_request_ends_when_its_time_is_over() {
    let fixture = Fixture::new("timeout", |_| ());
    let timeout = Some(Duration::from_micros(1));
    for priority in [1, 2] {
        let inference = Inference { timeout, ..fixture.inference(priority) };
        let said = block_on(fixture.server.infer(inference)).unwrap_err();
        assert!(matches!(said, Error::Deadline(_)), "{said}");
    }
    block_on(fixture.server.infer(fixture.inference(2))).unwrap();
}

#[test]
fn models_come_and_go_and_their_memory_with_them() {
    let fixture = Fixture::new("unload", |_| ());
    let registry = &fixture.server.registry;
    let (tiny, other) = (ModelName::new("tiny").unwrap(), ModelName::new("other").unwrap());
    let one = registry.budget().used();
    registry.load(&other).unwrap();
    assert_eq!(registry.budget().used(), 2 * one);
    let pending = fixture.inference(2);
    let answer = block_on(async {
        let answer = fixture.server.infer(pending);
        let mut answer = Box::pin(answer);
        std::future::poll_fn(|cx| {
            let _ = answer.as_mut().poll(cx);
            std::task::Poll::Ready(())
        })
        .await;
        registry.unload(&tiny).unwrap(); // what was queued is still served
        answer.await
    });
    assert_eq!(answer.unwrap()[0].len(), 4000);
    assert_eq!(registry.budget().used(), one);
    assert!(matches!(registry.get("tiny", ""), Err(Error::NotFound(_))));
    assert!(matches!(registry.unload(&tiny), Err(Error::NotFound(_))));
    registry.load(&tiny).unwrap();
    registry.load(&tiny).unwrap(); // anew
    assert_eq!(registry.budget().used(), 2 * one);
    block_on(fixture.server.infer(fixture.inference(1))).unwrap();
}

#[test]
fn loads_over_budget_are_refused_before_allocation() {
    let fixture = Fixture::new("budget", |config| config.memory.model_mib = 50);
    let registry = &fixture.server.registry;
    let before = registry.budget().used();
    let said = registry.load(&ModelName::new("resnet50").unwrap()).unwrap_err();
    let Error::Exhausted(text) = &said else { panic!("{said}") };
    assert!(
        text.starts_with("memory budget: model resnet50/1 must have at most 52428800 bytes, got "),
        "{text}"
    );
    assert_eq!(registry.budget().used(), before);
    let limits = Fixture::new("models", |config| config.limits.models = 1);
    let said = limits.server.registry.load(&ModelName::new("other").unwrap());
    let want = "model other: loaded versions must be at most 1 (limits.models), got 1 + 1";
    assert_eq!(said, Err(Error::Exhausted(want.into())));
}

#[test]
fn the_index_has_what_is_loaded_and_what_could_be() {
    let fixture = Fixture::new("index", |_| ());
    let index = fixture.server.registry.index().unwrap();
    let state = |name: &str| {
        index.iter().find(|i| i.name.as_str() == name).map(|i| (i.version, i.is_ready))
    };
    assert_eq!(state("tiny"), Some((Some(1), true)));
    assert_eq!(state("other"), Some((Some(1), false)));
    assert_eq!(state("resnet152"), Some((Some(1), false)));
}

/// Clients that come at the same time get the same model: none of them loads it anew.
#[test]
fn a_model_that_many_want_is_loaded_once() {
    let fixture = Fixture::new("once", |_| ());
    let registry = &fixture.server.registry;
    let models: Vec<_> = std::thread::scope(|scope| {
        let all: Vec<_> =
            (0..5).map(|_| scope.spawn(|| registry.get_or_load("other").unwrap())).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(models.iter().all(|model| Arc::ptr_eq(model, &models[0]) && !model.is_retired()));
}

/// Any user of the machine can connect to a loopback address.
#[test]
fn unauthenticated_peers_over_tcp_register_no_memory() {
    let fixture = Fixture::new("outsiders", |_| ());
    let said = fixture.server.register(&Peer::UNKNOWN, "r", "/reef-there-is-none", 0, 4);
    assert!(matches!(said, Err(Error::Denied(_))), "{said:?}");
}

/// The token may have come with a reload, after the connection.
#[test]
fn holder_of_a_token_over_tcp_may_register_memory() {
    let fixture = Fixture::new("holder", |_| ());
    let principal = Principal::Token("ci".into());
    let holder = Peer { principal, ..Peer::UNKNOWN };
    let said = fixture.server.register(&holder, "r", "/reef-there-is-none", 0, 4);
    assert!(matches!(said, Err(Error::NotFound(_))), "{said:?}");
}
