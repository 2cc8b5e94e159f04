//! One queue full of inferences, stopped and restored:
//! `cargo run --release --example preempt [-- --device cuda:0]`

mod common;

use reef::models::{Model, Result, Seeded};
use reef::op::Operators;
use reef::{PreemptLevel, Seq, VirtualQueue, queue::Config};
use std::{error::Error, thread, time::Duration};

/// Inferences in the queue: more than a GPU ends in the time before it is stopped.
const INFERENCES: usize = 20;

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let (device, _) = common::arguments()?;
    Ok(reef::with_device(&device, StopAndGo)??)
}

struct StopAndGo;

impl reef::Visit for StopAndGo {
    type Output = Result<()>;

    fn visit<D: Operators>(self, device: D) -> Result<()> {
        let network = Model::open("densenet121").input_size(64).load(&device)?;
        network.stage_input(&Seeded(1).input(network.input_len()))?;
        let config = Config::default().level(PreemptLevel::All);
        let (mut submitter, queue) = VirtualQueue::enable(&device, config)?;
        for _ in 0..INFERENCES {
            for command in network.inference().iter() {
                submitter.submit_blocking(command.clone())?;
            }
        }
        let all = submitter.submitted().0;

        let begin = device.clock();
        queue.preempt(true)?;
        let (took, done) = (device.clock() - begin, submitter.completed().0);
        println!("stopped within {took:?}, {done} of {all} commands done");
        thread::sleep(Duration::from_millis(100));
        println!("100 ms later           {} of {all} commands done", submitter.completed().0);

        queue.restore()?;
        submitter.wait(Seq(all - 1))?;
        let (done, again) = (submitter.completed().0, queue.rerun());
        println!("restored: {done} of {all} commands done, {again} launches ran again");
        Ok(queue.disable().map_err(|(error, _queue)| error)?)
    }
}
