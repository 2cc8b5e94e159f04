//! One real-time and one best-effort network:
//! `cargo run --release --example two_models [-- --device cuda:0]`

mod common;

use reef::models::{Model, Network, Result, Seeded};
use reef::op::Operators;
use reef::scheduler::Reef;
use reef::{ClientConfig, Dispatcher, Task};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::{error::Error, thread, time::Duration};

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let (device, _) = common::arguments()?;
    Ok(reef::with_device(&device, TwoModels)??)
}

fn load<D: Operators>(device: &D, name: &str) -> Result<Network<D>> {
    let network = Model::open(name).load(device)?; // or an ONNX file, or .weights("MODEL.param")
    network.stage_input(&Seeded(1).input(network.input_len()))?;
    Ok(network)
}

struct TwoModels;

impl reef::Visit for TwoModels {
    type Output = Result<()>;

    fn visit<D: Operators>(self, device: D) -> Result<()> {
        let (rt, be) = (load(&device, "resnet18")?, load(&device, "densenet121")?);
        let dispatcher = Dispatcher::start(&device, Reef::default())?;
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let best_effort = scope.spawn(|| {
                let mut client = dispatcher.best_effort(ClientConfig::default())?;
                let mut inferences = 0;
                while !stop.load(Relaxed) {
                    client.run(&be.inference())?;
                    inferences += 1;
                }
                Ok(inferences)
            });
            let mut client = dispatcher.real_time()?;
            let task = Task::new(rt.inference())?;
            for _ in 0..10 {
                thread::sleep(Duration::from_millis(100));
                let timing = client.run(&task)?;
                println!("real-time: {:?} after {:?}", timing.total, timing.delay);
            }
            stop.store(true, Relaxed);
            let inferences: Result<u32> = best_effort.join().expect("the client doesn't panic");
            println!("best-effort: {} inferences meanwhile", inferences?);
            Ok(())
        })
    }
}
