//! One real-time and one best-effort network: `cargo run --release --example two_models`

use reef::cpu::Cpu;
use reef::models::{Model, Network, Result, Seeded};
use reef::scheduler::Reef;
use reef::{ClientConfig, Device, Dispatcher, Task};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::{thread, time::Duration};

fn load(device: &Cpu, name: &str) -> Result<Network<Cpu>> {
    let network = Model::open(name).load(device)?; // or an ONNX file, or .weights("MODEL.param")
    network.stage_input(&Seeded(1).input(network.input_len()))?;
    Ok(network)
}

fn main() -> Result<()> {
    let device = Cpu::open(0, "")?;
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
