//! Networks that are stopped at each command.

use crate::common::{contents, cpu, finish, rng, spoil, stopped_at, through_a_file};
use reef_core::{Device, Parked, PreemptLevel, Seq};
use reef_models::{Model, Network, Seeded};
use reef_snapshot::{Error, Snapshot, Work, write};
use serde_json::Value;
use std::path::PathBuf;

fn onnx(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../reef-models/tests/onnx").join(name)
}

/// The output of an undisturbed inference, and of one that is cut at each command and finished on
/// another device.
fn is_cut_everywhere(model: &Model) {
    let mut rng = rng();
    let folder = tempfile::tempdir().expect("a folder");
    let (here, there) = (cpu(0, 2), cpu(1, 2));
    let load = |device| -> Network<reef_cpu::Cpu> { model.load(device).expect("it is loaded") };
    let (one, two) = (load(&here), load(&there));
    let (work, other) =
        (Work::of_network(&here, model, &one), Work::of_network(&there, model, &two));
    let outputs = |network: &Network<reef_cpu::Cpu>| {
        let mut bytes = vec![0; network.outputs().bytes()];
        network.read_staged(0, &mut bytes).expect("it is inside");
        bytes
    };
    one.stage_made_up(Seeded(7)).expect("there is room");
    finish(
        &work,
        Parked::new(Seq(0), work.task.to_vec(), None).expect("no host code"),
        PreemptLevel::All,
    );
    let want = outputs(&one);
    assert!(want.iter().any(|&byte| byte != 0), "the output is nothing");
    for at in 0..work.task.len() {
        let level = PreemptLevel::ALL[at % 3];
        spoil(&work);
        zero_scratch(&work);
        one.stage_made_up(Seeded(7)).expect("there is room");
        let parked = stopped_at(&work, 1, at, level, &mut rng);
        spoil(&other);
        let restored = through_a_file(folder.path(), &work, &parked, &other);
        finish(&other, restored, level);
        assert!(outputs(&two) == want, "level {level}, cut at command {at}");
    }
    println!("{} cuts", work.task.len());
}

/// It is zero when no inference runs.
fn zero_scratch(work: &Work<'_, reef_cpu::Cpu>) {
    for region in work.memory.iter().filter(|region| region.name == "scratch") {
        work.device.write(&region.buffer, 0, &vec![0; region.bytes]).expect("it is inside");
    }
}

#[test]
fn network_of_images_is_cut_at_each_command() {
    is_cut_everywhere(&Model::open(onnx("resnet-13.onnx")).read().expect("it is read"));
}

#[test]
fn network_of_tensors_is_cut_at_each_command() {
    let model = Model::open(onnx("resnet-13.onnx")).tensors_only().read().expect("it is read");
    is_cut_everywhere(&model);
}

/// A network of images is tuned to the number of units: it has other launches on another one.
#[test]
fn other_number_of_units_is_another_plan() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = Model::open(onnx("resnet-13.onnx")).read().expect("it is read");
    let (here, there) = (cpu(0, 2), cpu(1, 3));
    let load = |device| -> Network<reef_cpu::Cpu> { model.load(device).expect("it is loaded") };
    let (one, two) = (load(&here), load(&there));
    let (work, other) =
        (Work::of_network(&here, &model, &one), Work::of_network(&there, &model, &two));
    one.stage_made_up(Seeded(7)).expect("there is room");
    for at in [3, work.task.len()] {
        let parked = stopped_at(&work, 2, at, PreemptLevel::All, &mut rng());
        let is_between = at == work.task.len() && parked.partial().is_none();
        write(folder.path(), &work, &parked, Value::Null).expect("written");
        let mut snapshot = Snapshot::open(folder.path()).expect("whole");
        match snapshot.restore(&other) {
            Err(Error::Plan { device, .. }) => {
                assert_eq!((device.as_str(), is_between), ("software device, 2 units", false));
            }
            Err(error) => panic!("{error}"),
            Ok(parked) => {
                assert!(is_between, "in the middle of a task");
                finish(&other, parked, PreemptLevel::All);
                let mut staged = vec![0; two.inputs().bytes()];
                here.read(one.regions()[2].buffer, 0, &mut staged).expect("it is inside");
                let mut brought = staged.clone();
                there.read(two.regions()[2].buffer, 0, &mut brought).expect("it is inside");
                assert_eq!(two.regions()[2].name, "host input");
                assert!(brought == staged, "the next inference has its input");
            }
        }
    }
}

#[test]
fn other_network_and_other_weights_are_refused_by_name() {
    let (folder, device) = (tempfile::tempdir().expect("a folder"), cpu(0, 2));
    let model = |size, seed| {
        Model::open("resnet18").input_size(size).seed(seed).read().expect("it is built")
    };
    let right = model(32, 1);
    let network: Network<reef_cpu::Cpu> = right.load(&device).expect("it is loaded");
    let work = Work::of_network(&device, &right, &network);
    let parked = stopped_at(&work, 1, 5, PreemptLevel::All, &mut rng());
    let written = write(folder.path(), &work, &parked, Value::Null).expect("written");
    assert!(written.bytes < written.memory, "weights are not stored, zeros neither");
    let before = contents(&work);
    let refused = |model: &Model| {
        let other =
            Work { memory: work.memory.clone(), ..Work::of_network(&device, model, &network) };
        Snapshot::open(folder.path()).expect("whole").restore(&other).expect_err("refused")
    };
    let said = refused(&model(64, 1)).to_string();
    assert!(said.starts_with("network must be that of the snapshot, resnet18 ("), "{said}");
    let said = refused(&model(32, 2));
    assert!(matches!(said, Error::Other { what: "weights", .. }), "{said}");
    assert!(contents(&work) == before, "a refusal writes nothing");
}
