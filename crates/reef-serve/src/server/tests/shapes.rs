//! Models whose sizes are open.

use super::*;
use crate::kserve::infer::request::{InferRequest, InputTensor, RequestedOutput, TensorData};
use crate::kserve::infer::response::InferResponse;
use crate::kserve::parameter::RegionPart;
use crate::net::identity::principal::Principal;
use handmade::{bytes, file, float, graph, int, ints, node, number, ones, sequence, typed};

#[path = "../../../../../reef-models/tests/handmade/mod.rs"]
pub(super) mod handmade;

/// An input (field 11) or output (12) of FP32; a size that is not a number is open and has this
/// name.
pub(super) fn port(field: u64, name: &str, sizes: &[&str]) -> Vec<u8> {
    let size = |size: &&str| match size.parse() {
        Ok(fixed) => bytes(1, number(1, fixed)),
        Err(_) => bytes(1, bytes(2, size)),
    };
    let sizes: Vec<u8> = sizes.iter().flat_map(size).collect();
    let tensor = [number(1, 1), bytes(2, sizes)].concat();
    bytes(field, [bytes(1, name), bytes(2, bytes(1, tensor))].concat())
}

/// Sums of each four numbers, three times: `x[batch, tokens, 4]` by a matrix of ones.
fn sums() -> Vec<u8> {
    let product = node("MatMul", &["x", "ones"], "y", &[]);
    let ports =
        [port(11, "x", &["batch", "tokens", "4"]), port(12, "y", &["batch", "tokens", "3"])];
    file(17, &[product, ones("ones", &[4, 3]), ports.concat()])
}

pub(super) fn open(test: &str, description: &str, change: impl FnOnce(&mut Config)) -> Fixture {
    let (fixture, loaded) = open_file(test, &sums(), description, change);
    loaded.unwrap();
    fixture
}

/// A daemon with this file as its model `sums`, if that could be loaded.
pub(super) fn open_file(
    test: &str,
    model: &[u8],
    description: &str,
    change: impl FnOnce(&mut Config),
) -> (Fixture, Result<()>) {
    let fixture = Fixture::new(test, |config| {
        config.models.load.clear();
        config.limits.queue = 512;
        change(config);
    });
    let folder = fixture.folder.join("sums");
    std::fs::create_dir_all(folder.join("1")).unwrap();
    std::fs::write(folder.join("1/model.onnx"), model).unwrap();
    std::fs::write(folder.join("model.toml"), description).unwrap();
    let loaded = fixture.server.registry.load(&ModelName::new("sums").unwrap());
    (fixture, loaded)
}

pub(super) fn peer(name: &str) -> Peer {
    Peer { principal: Principal::Token(name.into()), ..Peer::UNKNOWN }
}

impl Fixture {
    pub(super) async fn ask_sums(&self, principal: &str, shape: &[i64]) -> Result<InferResponse> {
        self.server.answer(&peer(principal), asking(&[("x", shape)])).await
    }

    pub(super) fn sums(&self) -> Arc<LoadedModel> {
        self.server.registry.get("sums", "").unwrap()
    }
}

/// A request with 0, 1, 2 and so on in each input.
pub(super) fn asking(inputs: &[(&str, &[i64])]) -> InferRequest {
    let input = |&(name, shape): &(&str, &[i64])| {
        let values: Vec<f32> = (0..shape.iter().product()).map(|n: i64| n as f32).collect();
        InputTensor {
            name: name.into(),
            datatype: "FP32".into(),
            shape: shape.into(),
            from: TensorData::Bytes(to_bytes(&values).into()),
        }
    };
    let inputs = inputs.iter().map(input).collect();
    InferRequest { model: "sums".into(), inputs, ..InferRequest::default() }
}

fn refused<T>(how: Result<T>) -> String {
    how.err().expect("a refusal").to_string()
}

#[test]
fn each_request_has_its_own_shape() {
    let fixture = open("shapes", "", |_| ());
    let model = fixture.sums();
    assert_eq!(model.inputs.each[0].shape, [-1, -1, 4]);
    assert_eq!(model.outputs.each[0].shape, [-1, -1, 3]);
    for shape in [[1, 3, 4], [2, 5, 4], [1, 3, 4]] {
        let answer = block_on(fixture.ask_sums("a", &shape)).unwrap();
        let (info, output) = answer.tensors().next().unwrap();
        assert_eq!(info.shape, [shape[0], shape[1], 3]);
        let got: Vec<f32> = to_floats(&output.bytes).collect();
        let want = (0..shape[0] * shape[1]).flat_map(|row| [(16 * row + 6) as f32; 3]);
        assert_eq!(got, want.collect::<Vec<_>>());
    }
    assert_eq!(model.variants.len(), 3, "the usual shape and two more");
    let shapes = vec![vec![2, 5, 4]];
    let variant = model.variants.get(&shapes, &peer("a").principal).unwrap();
    assert_eq!(variant.bytes(), 2 * variant.sizes.instance, "its weights are the model's");
}

#[test]
fn shapes_that_contradict_the_file_are_refused_with_both() {
    let fixture = open("contradiction", "batch = 2", |_| ());
    assert_eq!(fixture.sums().inputs.each[0].shape, [2, -1, 4]);
    let said = refused(block_on(fixture.ask_sums("a", &[1, 3, 4])));
    assert_eq!(said, "tensor x: shape must be [2, -1 (tokens), 4], got [1, 3, 4]");
    let said = refused(block_on(fixture.ask_sums("a", &[2, 12])));
    assert_eq!(said, "tensor x: shape must be [2, -1 (tokens), 4], got [2, 12]");
    let said = refused(block_on(fixture.ask_sums("a", &[2, -1, 4])));
    assert_eq!(said, "a size of a tensor must be at least 0, got -1");
    assert_eq!(fixture.sums().variants.len(), 1);
}

/// As the first step of a decoder asks, whose past has no rows.
#[test]
fn request_without_rows_has_an_answer_without_rows() {
    let fixture = open("no-rows", "", |_| ());
    let answer = block_on(fixture.ask_sums("a", &[2, 0, 4])).unwrap();
    let (info, output) = answer.tensors().next().unwrap();
    assert_eq!((&*info.shape, output.bytes.len()), (&[2, 0, 3][..], 0));
    block_on(fixture.ask_sums("a", &[1, 3, 4])).unwrap();
}

/// An answer of floats, with its shape.
fn answered(fixture: &Fixture, request: InferRequest) -> (Vec<i64>, Vec<f32>) {
    let answer = block_on(fixture.server.answer(&peer("a"), request)).unwrap();
    let (info, output) = answer.tensors().next().unwrap();
    (info.shape.clone(), to_floats(&output.bytes).collect())
}

fn tensor(name: &str, datatype: &str, bytes: Vec<u8>) -> InputTensor {
    let (name, datatype, shape) = (name.into(), datatype.into(), vec![1]);
    InputTensor { name, datatype, shape, from: TensorData::Bytes(bytes.into()) }
}

/// A decoder whose graphs are merged: one has the rows of a cache before its own, and the other has
/// none.
fn merged() -> Vec<u8> {
    let both = [node("Concat", &["past", "x"], "with", &[int("axis", 0)]), port(12, "with", &[])];
    let alone = [node("Neg", &["x"], "without", &[]), port(12, "without", &[])];
    let branches = [graph("then_branch", &both), graph("else_branch", &alone)];
    let nodes = [
        node("If", &["use_cache"], "y", &branches),
        port(11, "x", &["1", "2"]),
        typed(11, "use_cache", 9, &[1]),
        port(11, "past", &["rows", "2"]),
        port(12, "y", &["all", "2"]),
    ];
    file(17, &nodes)
}

#[test]
fn truth_value_of_a_request_chooses_between_shapes() {
    let (fixture, loaded) = open_file("truth", &merged(), "", |_| ());
    loaded.unwrap();
    assert_eq!(fixture.sums().inputs.names(), ["x", "use_cache", "past"]);
    assert_eq!(fixture.sums().outputs.each[0].shape, [-1, 2]);
    let (with, without) = (vec![0.0, 1.0, 2.0, 3.0, 0.0, 1.0], vec![0.0, -1.0]);
    for (holds, want) in [(1, &with), (0, &without), (1, &with)] {
        let mut request = asking(&[("x", &[1, 2]), ("past", &[2, 2])]);
        request.inputs.push(tensor("use_cache", "BOOL", vec![holds]));
        let (shape, got) = answered(&fixture, request);
        assert_eq!((shape, &got), (vec![want.len() as i64 / 2, 2], want));
    }
    assert_eq!(fixture.sums().variants.len(), 3, "the usual one and one for each value");
}

#[test]
fn integers_of_a_request_choose_shapes() {
    let request = |begin: i64, end: i64| {
        let mut request = asking(&[("x", &[4])]);
        request.inputs.push(tensor("end", "INT64", end.to_le_bytes().to_vec()));
        request.inputs.push(tensor("begin", "INT64", begin.to_le_bytes().to_vec()));
        request
    };
    for (test, x, description) in [
        ("integers", port(11, "x", &["4"]), ""),
        ("integers-any-rank", of_any_rank(11, "x"), "shapes = [{ x = [4] }]"),
    ] {
        let nodes = [
            node("Slice", &["x", "begin", "end"], "y", &[]),
            x,
            typed(11, "begin", 7, &[1]),
            typed(11, "end", 7, &[1]),
            port(12, "y", &["n"]),
        ];
        let (fixture, loaded) = open_file(test, &file(17, &nodes), description, |_| ());
        loaded.unwrap();
        assert_eq!(answered(&fixture, request(1, 3)), (vec![2], vec![1.0, 2.0]));
        assert_eq!(answered(&fixture, request(-2, 4)), (vec![2], vec![2.0, 3.0]));
        assert_eq!(answered(&fixture, request(0, 4)), (vec![4], vec![0.0, 1.0, 2.0, 3.0]));
    }
}

/// An input (field 11) or output (12) of FP32 that says nothing about its shape.
fn of_any_rank(field: u64, name: &str) -> Vec<u8> {
    let tensor = bytes(1, number(1, 1));
    bytes(field, [bytes(1, name), bytes(2, tensor)].concat())
}

#[test]
fn input_of_any_rank_has_that_of_the_description() {
    let nodes = [node("Relu", &["x"], "y", &[]), of_any_rank(11, "x"), of_any_rank(12, "y")];
    let relu = file(17, &nodes);
    let (fixture, loaded) = open_file("any-rank", &relu, "shapes = [{ x = [2, 3] }]", |_| ());
    loaded.unwrap();
    assert_eq!(fixture.sums().inputs.each[0].shape, [-1, -1]);
    assert_eq!(answered(&fixture, asking(&[("x", &[1, 2])])), (vec![1, 2], vec![0.0, 1.0]));
    let (_fixture, loaded) = open_file("no-rank", &relu, "", |_| ());
    let said = refused(loaded);
    assert!(said.contains("its shape is left open: choose one"), "{said}");
}

/// Its tensors are inputs and outputs of their own.
#[test]
fn sequence_has_the_number_of_tensors_of_the_description() {
    let nodes = [
        node("Identity", &["x"], "y", &[]),
        sequence(11, "x", 1, &[2], false),
        sequence(12, "y", 1, &[2], false),
    ];
    let copies = file(17, &nodes);
    let (fixture, loaded) = open_file("list", &copies, "shapes = [{ x = [2] }]", |_| ());
    loaded.unwrap();
    let names: Vec<_> = fixture.sums().outputs.each.iter().map(|info| info.name.clone()).collect();
    assert_eq!(names, ["y.0", "y.1"]);
    let request = asking(&[("x.0", &[2]), ("x.1", &[2])]);
    assert_eq!(answered(&fixture, request), (vec![2], vec![0.0, 1.0]));
    for (test, description, why) in [
        ("no-number", "", "choose its number of tensors as its shape"),
        ("two-numbers", "shapes = [{ x = [2] }, { x = [1] }]", "shapes: must have an open size"),
    ] {
        let (_fixture, loaded) = open_file(test, &copies, description, |_| ());
        let said = refused(loaded);
        assert!(said.contains(why), "{said}");
    }
}

/// Rows and columns of an image may be floats, as in exported decoders of masks.
#[test]
fn floats_of_a_request_choose_shapes() {
    let nodes = [
        node("Cast", &["x"], "sizes", &[int("to", 7)]),
        node("Expand", &["x", "sizes"], "y", &[]),
        port(11, "x", &["1"]),
        port(12, "y", &["n"]),
    ];
    let (fixture, loaded) = open_file("floats", &file(17, &nodes), "", |_| ());
    loaded.unwrap();
    for count in [3, 0, 2] {
        let size = count as f32;
        let mut request = asking(&[]);
        request.inputs.push(tensor("x", "FP32", size.to_le_bytes().to_vec()));
        assert_eq!(answered(&fixture, request), (vec![count], vec![size; count as usize]));
    }
}

/// Data of any number cannot be chosen so.
#[test]
fn many_floats_that_decide_about_shapes_are_refused_at_load() {
    let nodes = [
        node("ReduceMax", &["x"], "largest", &[]),
        node("Cast", &["largest"], "sizes", &[int("to", 7)]),
        node("Expand", &["largest", "sizes"], "y", &[]),
        port(11, "x", &["17"]),
        port(12, "y", &["n"]),
    ];
    let (_fixture, loaded) = open_file("many-floats", &file(17, &nodes), "", |_| ());
    let said = refused(loaded);
    assert!(said.contains("the values of input [\"x\"] decide about shapes"), "{said}");
}

/// Rows whose first number isn't 0.
fn chosen_rows() -> Vec<u8> {
    let zero = node("Constant", &[], "zero", &[ints("value_ints", &[0])]);
    let nodes = [
        zero,
        node("Gather", &["x", "zero"], "column", &[int("axis", 1)]),
        node("Squeeze", &["column"], "flat", &[]),
        node("Cast", &["flat"], "keep", &[int("to", 9)]),
        node("Compress", &["x", "keep"], "y", &[int("axis", 0)]),
        port(11, "x", &["3", "2"]),
        port(12, "y", &["n", "2"]),
    ];
    file(17, &nodes)
}

#[test]
fn answer_has_as_many_rows_as_data_say() {
    let (fixture, loaded) = open_file("chosen", &chosen_rows(), "", |_| ());
    loaded.unwrap();
    assert_eq!(fixture.sums().outputs.each[0].shape, [-1, 2]);
    let ask = |request| block_on(fixture.server.answer(&peer("a"), request));
    let answer = ask(asking(&[("x", &[3, 2])])).unwrap();
    let (info, output) = answer.tensors().next().unwrap();
    assert_eq!(output.datatype_and_shape(info), ("FP32", &[2, 2][..]));
    assert_eq!(to_floats(&output.bytes).collect::<Vec<_>>(), [2.0, 3.0, 4.0, 5.0]);
    let mut none = asking(&[("x", &[3, 2])]);
    none.inputs[0].from = TensorData::Bytes(vec![0; 24].into());
    let answer = ask(none).unwrap();
    let (info, output) = answer.tensors().next().unwrap();
    assert_eq!(output.datatype_and_shape(info).1, [0, 2]);
    let output = |classes| RequestedOutput { name: "y".into(), to: None, is_binary: None, classes };
    let classes = InferRequest { outputs: vec![output(1)], ..asking(&[("x", &[3, 2])]) };
    let said = refused(ask(classes));
    assert!(said.starts_with("tensor \"y\", about whose size data decide, in a region"), "{said}");
}

/// Adds `x`, of these sizes, until its largest number is 5 or more.
fn until_five(sizes: &[&str]) -> Vec<u8> {
    let body = [
        typed(11, "i", 7, &[]),
        typed(11, "going", 9, &[]),
        port(11, "h", sizes),
        node("Add", &["h", "x"], "sum", &[]),
        node("ReduceMax", &["sum"], "most", &[int("keepdims", 0)]),
        node("Less", &["most", "five"], "small", &[]),
        typed(12, "small", 9, &[]),
        port(12, "sum", sizes),
    ];
    let nodes = [
        node("Constant", &[], "five", &[float("value_float", 5.0)]),
        node("Loop", &["", "", "x"], "y", &[graph("body", &body)]),
        port(11, "x", sizes),
        port(12, "y", sizes),
    ];
    file(17, &nodes)
}

#[test]
fn request_whose_loop_does_not_end_is_refused() {
    for (bound, description) in [(64, ""), (4, "loop_bound = 4")] {
        let name = format!("loops-{bound}");
        let (fixture, loaded) = open_file(&name, &until_five(&["2"]), description, |_| ());
        loaded.unwrap();
        let ask = |values: [f32; 2]| {
            let mut request = asking(&[("x", &[2])]);
            request.inputs[0].from = TensorData::Bytes(to_bytes(&values).into());
            block_on(fixture.server.answer(&peer("a"), request))
        };
        let of = |answer: InferResponse| -> Vec<f32> {
            let (_, output) = answer.tensors().next().unwrap();
            to_floats(&output.bytes).collect()
        };
        assert_eq!(of(ask([0.0, 1.0]).unwrap()), [0.0, 5.0], "four iterations");
        let said = refused(ask([0.0, 0.0]));
        assert!(said.contains(&format!("node \"y\" (Loop): {bound} iterations: ")), "{said}");
        assert_eq!(of(ask([3.0, 1.0]).unwrap()), [6.0, 2.0]); // the next one is not harmed
    }
}

#[test]
fn model_whose_loop_may_not_end_is_not_batched() {
    let model = until_five(&["n", "2"]);
    let (_fixture, loaded) = open_file("loops-batch", &model, "max_batch = 4", |_| ());
    let said = refused(loaded);
    assert!(said.contains("max_batch: data decide how long a loop runs"), "{said}");
}

#[test]
fn refusals_of_a_variant_name_its_shape() {
    let fixture = open("too-long", "", |config| config.memory.model_mib = 1);
    let before = fixture.server.registry.budget().used();
    let said = refused(block_on(fixture.ask_sums("a", &[1, 40_000, 4])));
    let want =
        "memory budget: model sums/1 for x [1, 40000, 4] must have at most 1048576 bytes, got ";
    assert!(said.starts_with(want), "{said}");
    assert_eq!(fixture.server.registry.budget().used(), before);
    block_on(fixture.ask_sums("a", &[1, 4, 4])).unwrap();
}

/// A client with many shapes evicts none of another client's, and its memory is bounded.
#[test]
fn many_shapes_of_one_client_push_out_its_own() {
    let fixture = open("hostile", "", |config| {
        config.limits.shapes = 6;
        config.limits.principal_percent = 50;
    });
    let (model, shapes) = (fixture.sums(), vec![vec![2, 7, 4]]);
    block_on(fixture.ask_sums("b", &[2, 7, 4])).unwrap();
    let before = model.variants.get(&shapes, &peer("b").principal).unwrap();
    for tokens in 1..150 {
        block_on(fixture.ask_sums("a", &[1, tokens, 4])).unwrap();
        assert!(model.variants.len() <= 1 + 1 + 3, "{tokens}: {}", model.variants.len());
    }
    block_on(fixture.ask_sums("a", &[2, 7, 4])).unwrap(); // has it in its list as well now
    for tokens in 1..9 {
        block_on(fixture.ask_sums("a", &[3, tokens, 4])).unwrap();
    }
    let after = model.variants.get(&shapes, &peer("b").principal).unwrap();
    assert!(Arc::ptr_eq(&before, &after), "it was not made anew");
    drop((before, after));
    fixture.server.registry.unload(&ModelName::new("sums").unwrap()).unwrap();
    drop(model);
    assert_eq!(fixture.server.registry.budget().used(), 0, "all memory is back");
}

/// A request that can never fit evicts nothing of others.
#[test]
fn requests_too_large_for_the_budget_evict_nothing_of_others() {
    let fixture = open("too-much", "", |config| config.memory.model_mib = 1);
    let (model, shapes) = (fixture.sums(), vec![vec![1, 5, 4]]);
    for tokens in 5..9 {
        block_on(fixture.ask_sums("b", &[1, tokens, 4])).unwrap();
    }
    let said = refused(block_on(fixture.ask_sums("a", &[1, 40_000, 4])));
    assert!(said.contains(" must have at most 1048576 bytes, got "), "{said}");
    assert_eq!(model.variants.len(), 5, "those of another are there");
    assert!(model.variants.get(&shapes, &peer("b").principal).is_some());
}

/// A request over its principal's own part of the memory evicts nothing of others either.
#[test]
fn tenants_over_their_own_part_evict_nothing_of_others() {
    let fixture = open("own-part", "", |config| {
        config.memory.total_mib = 8;
        config.limits.principal_percent = 10;
        config.limits.shapes = 100;
    });
    let model = fixture.sums();
    for tokens in 5..9 {
        block_on(fixture.ask_sums("b", &[1, tokens, 4])).unwrap();
    }
    let said = refused(block_on(fixture.ask_sums("a", &[1, 30_000, 4])));
    assert!(said.contains("must have at most"), "{said}");
    assert_eq!(model.variants.len(), 5, "those of another are there");
    assert_eq!(fixture.server.tenants.of(&peer("a").principal).memory(), 0);
}

/// No network is made for a request that is wrong anyway.
#[test]
fn a_wrong_request_has_no_network_made() {
    let fixture = open("wrong", "", |_| ());
    let place = || RegionPart { region: "none".into(), offset: 0, bytes: 80 };
    let output = |name: &str, to| {
        let (name, is_binary) = (name.into(), None);
        vec![RequestedOutput { name, to, is_binary, classes: 0 }]
    };
    let wrong_input = || {
        let mut request = asking(&[("x", &[1, 5, 4])]);
        request.inputs[0].from = TensorData::Region(place());
        request
    };
    let asked = || asking(&[("x", &[1, 5, 4])]);
    let missing = "no shared memory region \"none\" is registered";
    for (request, want) in [
        (wrong_input(), missing),
        (InferRequest { outputs: output("y", Some(place())), ..asked() }, missing),
        (InferRequest { outputs: output("z", None), ..asked() }, "no tensor \"z\" (have: y)"),
    ] {
        let said = refused(block_on(fixture.server.answer(&peer("a"), request)));
        assert_eq!(said, want);
        assert_eq!(fixture.sums().variants.len(), 1, "{want}");
    }
}

/// When all slots are used, the principal with the most gives one up.
#[test]
fn newcomers_get_a_slot_of_the_principal_with_the_most() {
    let fixture = open("places", "", |config| {
        config.limits.shapes = 2;
        config.limits.principal_percent = 100;
    });
    for (principal, tokens) in [("a", 2), ("a", 3), ("b", 4), ("c", 5), ("a", 6)] {
        block_on(fixture.ask_sums(principal, &[1, tokens, 4])).unwrap();
        assert!(fixture.sums().variants.len() <= 3);
    }
}

/// Requests of shapes that are there don't wait for those of others that aren't.
#[test]
fn known_shapes_do_not_wait_while_networks_are_made() {
    let fixture = open("waiting", "shapes = [{ x = [1, 2, 4] }, { x = [1, 9, 4] }]", |_| ());
    assert_eq!(fixture.sums().variants.len(), 2, "made ahead");
    let (release, held) = std::sync::mpsc::channel::<()>();
    let held = Arc::new(parking_lot::Mutex::new(held));
    let (begin, begun) = std::sync::mpsc::channel();
    let hold = |principal: &str| {
        let (held, principal) = (held.clone(), Principal::Token(principal.into()));
        let begin = begin.clone();
        let work = move || {
            let _ = begin.send(());
            let _ = held.lock().recv_timeout(Duration::from_secs(60));
            Ok(())
        };
        let server = fixture.server.clone();
        async move { server.network_workers[0].run_blocking(&principal, (), work).await }
    };
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_time().build().unwrap();
    let busy = [runtime.spawn(hold("x")), runtime.spawn(hold("y"))];
    for _ in &busy {
        begun.recv_timeout(Duration::from_secs(60)).expect("both threads are taken");
    }
    runtime.block_on(async {
        let known =
            tokio::time::timeout(Duration::from_secs(30), fixture.ask_sums("a", &[1, 9, 4]));
        known.await.expect("it waits for nothing").unwrap();
        let (model, principal) = (fixture.sums(), fixture.server.tenants.of(&peer("a").principal));
        let shapes = vec![vec![1, 8, 4]];
        let new = fixture.server.variant(
            &model,
            &principal,
            shapes,
            Instant::now(),
            Some(Duration::from_millis(50)),
        );
        let said = refused(new.await);
        assert!(
            said.starts_with("timed out after 50ms while preparing the model for these shapes"),
            "{said}"
        );
        drop(release);
        for busy in busy {
            busy.await.unwrap().unwrap();
        }
        fixture.ask_sums("a", &[1, 8, 4]).await.unwrap();
    });
}

/// A file may declare other sizes of an output than it has. Here it says none, and the network is
/// one for images.
#[test]
fn answers_have_the_sizes_that_are_computed() {
    let of = |name: &str, nodes: Vec<u8>, sizes: &[&str]| {
        let graph = [nodes, port(11, "x", sizes), port(12, "y", &[])];
        let (fixture, loaded) = open_file(name, &file(17, &graph), "", |_| ());
        loaded.unwrap();
        let model = fixture.sums();
        [&model.inputs, &model.outputs].map(|infos| infos.each[0].shape.clone())
    };
    let pooled = node("GlobalAveragePool", &["x"], "y", &[]);
    assert_eq!(of("pooled", pooled, &["1", "3", "2", "2"]), [vec![1, 3, 2, 2], vec![1, 3, 1, 1]]);
    let flat = [
        node("GlobalAveragePool", &["x"], "means", &[]),
        node("Flatten", &["means"], "y", &[int("axis", 4)]),
    ];
    let made = of("flat", flat.concat(), &["1", "3", "2", "2"]);
    assert_eq!(made, [vec![1, 3, 2, 2], vec![3, 1]]);
}
