//! Instances that fail, on a fake device.

use super::*;
use crate::class::Priority;
use crate::engine::api::{DeviceModel, Instance, Run, RunTiming, Sizes};
use crate::models::budget::Budget;
use crate::models::config::load::Replacement;
use crate::models::repository::Repository;
use crate::models::shaped::variant;
use crate::name::ModelName;
use crate::net::identity::client_id::Protocol;
use crate::requests::job::{BoundOutput, Output};
use crate::tenants::tenant::Tenant;
use reef::ClientConfig;
use std::any::Any;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Its instances fail, then panic, then work, counted over all of them.
#[derive(Debug, Default)]
struct Device {
    instances: AtomicUsize,
    runs: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct FailingInstance(Arc<AtomicUsize>);

impl DeviceModel for Device {
    fn instance(&self, _: Class, _: ClientConfig) -> Result<Box<dyn Instance>> {
        self.instances.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(FailingInstance(self.runs.clone())))
    }

    fn own_bytes(&self) -> u64 {
        0
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Instance for FailingInstance {
    fn write(&mut self, _: usize, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn share(&mut self, _: reef::HostMemory, _: &[(usize, usize)]) -> Result<bool> {
        Ok(false)
    }

    fn run(&mut self, _: Run<'_>) -> Result<RunTiming> {
        match self.0.fetch_add(1, Ordering::Relaxed) {
            0 => Err(Error::Failed("cuda: cuLaunchKernel: DeviceLost (code 719)".into())),
            1 => panic!("an instance that panics, as this test needs"),
            _ => Ok(RunTiming::default()),
        }
    }

    fn read(&mut self, _: usize, bytes: &mut [u8]) -> Result<()> {
        bytes.fill(7);
        Ok(())
    }
}

fn served(device: Arc<Device>) -> Arc<LoadedModel> {
    let name = ModelName::new("resnet18").unwrap();
    let spec = Repository::open(None, true)
        .unwrap()
        .specs(&name, None, &Replacement::default())
        .unwrap()
        .remove(0);
    let model = reef::models::Model::open("resnet18").input_size(32).read().unwrap();
    let node = crate::engine::node::Nodes::open("cpu:0?units=1", "reef", 0.0).unwrap();
    let node = node.all[0].clone();
    let parts = variant::Parts {
        inputs: TensorInfos::of(&model.inputs()),
        outputs: TensorInfos::of(&model.outputs()),
        sizes: Sizes { weights: 0, instance: 0 },
        loaded: device,
        node: node.clone(),
        memory: Budget::new(0).reserve("a model", 1).unwrap(),
        taken: None,
    };
    let base = Variant::new(parts, [1, 1]).unwrap();
    let factory = Arc::new(VariantFactory {
        node,
        budget: Budget::new(0),
        host: Budget::new(0),
        model_bytes: 0,
        message_bytes: 0,
        closing: Arc::default(),
        observer: Arc::default(),
    });
    let variants = Variants::new(1, 1);
    let (declaration, on_demand) = (None, None);
    let stats = Arc::default();
    let parts = Parts { spec, base, variants, declaration, on_demand, factory, stats };
    LoadedModel::start(parts, 8).unwrap()
}

fn ask(served: &LoadedModel) -> Result<Vec<Vec<u8>>> {
    ask_within(served, Duration::from_secs(60))
}

fn ask_within(served: &LoadedModel, time: Duration) -> Result<Vec<Vec<u8>>> {
    let (reply, answer) = oneshot::channel();
    let now = Instant::now();
    served.submit(Job {
        tenant: Tenant::owner(),
        client: ClientId { protocol: Protocol::Grpc, number: 1 },
        priority: Priority::new(2, Class::BestEffort),
        account: reef::Account::new(None),
        has_stated_rate: false,
        instances: served.base.clone(),
        rows: None,
        call: None,
        inputs: Vec::new(),
        outputs: vec![BoundOutput {
            index: 0,
            offset: 0,
            bytes: served.outputs.bytes,
            size: None,
            output: Output::Bytes,
        }],
        arrived: now,
        deadline: now + time,
        reply,
    })?;
    answer.blocking_recv().expect("an answer, whatever happens").0
}

#[test]
fn device_error_fails_only_its_own_request() {
    let device = Arc::new(Device::default());
    let served = served(device.clone());
    assert_eq!(device.instances.load(Ordering::Relaxed), 2, "one for each class");
    let lost = "cuda: cuLaunchKernel: DeviceLost (code 719)";
    assert_eq!(ask(&served), Err(Error::Failed(lost.into())));
    assert_eq!(ask(&served), Err(Error::Failed("the worker panicked".into())));
    for _ in 0..3 {
        assert_eq!(ask(&served), Ok(vec![vec![7; 4000]]));
    }
    assert_eq!(device.instances.load(Ordering::Relaxed), 4, "a new one after each failure");
    served.retire();
    assert!(matches!(ask(&served), Err(Error::Unavailable(_))));
}

#[test]
fn late_request_never_reaches_the_device() {
    let device = Arc::new(Device::default());
    let served = served(device.clone());
    let said = ask_within(&served, Duration::ZERO).unwrap_err();
    assert!(matches!(&said, Error::Deadline(text) if text.ends_with("in the queue")), "{said}");
    assert_eq!(device.runs.load(Ordering::Relaxed), 0);
    served.retire();
}
