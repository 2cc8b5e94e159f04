//! Numbers of 8 bits on a remote device: its kernels for them, and networks that use these.

#[path = "../../../../reef-models/tests/integration/eight_bits/device.rs"]
mod device;

use crate::support;
use device::eight;
use reef_core::scheduler::Reef;
use reef_core::{Device, Dispatcher, PreemptLevel, Task};
use reef_models::{Model, Scales, Seeded};
use reef_op::{Format, Operators, Quantization};
use reef_remote::Remote;

/// Output of the network for a made-up image.
fn output<D: Operators>(device: &D, model: &Model) -> Vec<f32> {
    let network = model.load(device).unwrap();
    network.stage_input(&Seeded(1).input(model.input_len())).unwrap();
    let scheduler = Box::new(Reef::default().level(PreemptLevel::HostQueue));
    let dispatcher = Dispatcher::start(device, scheduler).unwrap();
    let task = Task::new(network.inference()).unwrap();
    dispatcher.real_time().unwrap().run(&task).unwrap();
    network.staged_output().unwrap()
}

#[test]
fn remote_device_answers_as_the_local_one() {
    let (served, cpu) = (support::shared_of(eight()), support::shared());
    let [with, without] = [&served, &cpu].map(|served| Remote::open(0, &served.device()).unwrap());
    let model = Model::open("resnet18").input_size(32).read().unwrap();
    for layer in model.image().unwrap().0.layers() {
        for format in Format::ALL {
            let local = eight().quantization(&layer.op, format);
            assert_eq!(with.quantization(&layer.op, format), local);
            assert_eq!(without.quantization(&layer.op, format), Quantization::default());
        }
    }
}

#[test]
fn remote_network_of_8_bits_gives_what_a_local_one_gives() {
    let served = support::shared_of(eight());
    let remote = Remote::open(0, &served.device()).unwrap();
    let floats = Model::open("resnet18").input_size(32).read().unwrap();
    let samples = [Seeded(1).input(floats.input_len())];
    let scales: Scales = floats.calibrate(&remote, Format::Int8, 100.0, samples).unwrap();
    let model = floats.clone().with_scales(&scales).unwrap();
    let have = output(&remote, &model);
    assert_eq!(have, output(&eight(), &model));
    assert_ne!(have, output(&remote, &floats));
}
