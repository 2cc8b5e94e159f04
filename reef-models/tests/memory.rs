//! No file makes its reader take more memory than it was given: files that are small and ask for a
//! lot.

#![cfg(feature = "onnx")]
#![allow(unsafe_code)] // an allocator that counts

mod handmade;

use handmade::{bytes, file, ints, node, number, ones, value};
use reef_models::{
    Budget, Error, Model,
    param::{Params, Problem},
    safetensors,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Bytes of the budget; a reader may take that and [`UNCHARGED`].
const BUDGET: u64 = 64 << 20;
/// Bytes that a reader takes uncharged: errors, a few names.
const UNCHARGED: u64 = 1 << 20;

/// Counts what each thread has allocated, so that tests that run at the same time don't mix.
struct Counting;

thread_local! {
    static LIVE: Cell<i64> = const { Cell::new(0) };
    static PEAK: Cell<i64> = const { Cell::new(0) };
}

fn count(bytes: i64) {
    let live = LIVE.get() + bytes;
    LIVE.set(live);
    PEAK.set(PEAK.get().max(live));
}

// SAFETY: each call goes to the system's allocator as it came; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: `GlobalAlloc::alloc` demands a size that is not 0, and `layout` goes on as it
        // came.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: `GlobalAlloc::alloc_zeroed` demands a size that is not 0, and `layout` goes on as
        // it came.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: `at` came from `System`, as all memory here does, with this layout:
        // `GlobalAlloc::dealloc` demands it.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as i64); // both may be there for a moment
        count(-(layout.size() as i64));
        // SAFETY: `at` came from `System` with this layout, and `size` is a valid one that is not
        // 0: `GlobalAlloc::realloc` demands it.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Result of `read` within the budget, and the most bytes that it held at a time.
fn measured<T>(read: impl FnOnce(&Budget) -> T) -> (T, u64) {
    measured_in(BUDGET, read)
}

fn measured_in<T>(bytes: u64, read: impl FnOnce(&Budget) -> T) -> (T, u64) {
    let before = LIVE.get();
    PEAK.set(before);
    let result = read(&Budget::new(bytes));
    (result, (PEAK.get() - before) as u64)
}

/// The file is refused for its memory, and its reader stays within the budget.
fn refused<T>(what: &str, read: impl FnOnce(&Budget) -> Result<T, Error>) -> String {
    let (result, peak) = measured(read);
    println!("{what}: at most {} KiB", peak >> 10);
    assert!(peak <= BUDGET + UNCHARGED, "{what}: {peak} bytes of {BUDGET}");
    match result {
        Err(error @ Error::Memory { .. }) => error.to_string(),
        Err(other) => panic!("{what}: {other}"),
        Ok(_) => panic!("{what}: read, in {peak} bytes"),
    }
}

/// An ONNX file of these parts of a graph, from `x` of this shape to `y`.
fn graph(shape: &[i64], parts: &[Vec<u8>]) -> Vec<u8> {
    let ends = [value(11, "x", shape), value(12, "y", &[])];
    file(17, &[&ends, parts].concat())
}

fn refused_onnx(what: &str, file: &[u8]) -> String {
    refused(what, |budget| Model::from_onnx(file, "bomb.onnx").images_only().budget(budget).read())
}

/// A tensor of integers.
fn numbers(name: &str, values: impl IntoIterator<Item = i64>) -> Vec<u8> {
    let raw: Vec<u8> = values.into_iter().flat_map(i64::to_le_bytes).collect();
    let size = number(1, raw.len() as i64 / 8);
    bytes(5, [size, number(2, 7), bytes(8, name), bytes(9, raw)].concat())
}

/// `count` nodes, each of the one before.
fn chain(op: &str, count: usize, more: &[&str]) -> Vec<Vec<u8>> {
    let name = |i: usize| if i == 0 { "x".to_owned() } else { format!("v{i}") };
    let node = |i: usize| {
        let before = name(i);
        let operands = [&[before.as_str()], more].concat();
        node(op, &operands, &name(i + 1), &[])
    };
    (0..count).map(node).chain([handmade::node("Relu", &[&name(count)], "y", &[])]).collect()
}

/// A constant that is eight times as long after each node.
fn doubling() -> Vec<Vec<u8>> {
    let mut parts = vec![numbers("c0", 0..8)];
    for i in 0..12 {
        let before = format!("c{i}");
        let along = [handmade::int("axis", 0)];
        parts.push(node("Concat", &[before.as_str(); 8], &format!("c{}", i + 1), &along));
    }
    parts
}

#[test]
fn a_constant_that_doubles_itself() {
    let file = graph(&[1, 1, 1, 1], &doubling());
    assert!(file.len() < 1200, "{}", file.len());
    let error = refused_onnx("Concat of constants", &file);
    assert!(error.starts_with("bomb.onnx: node \"c7\" (Concat): "), "{error}");
    assert!(error.contains(" bytes of memory wanted, "), "{error}");
}

#[test]
fn sums_of_a_tensor_of_a_million_channels() {
    let parts = chain("Add", 1500, &["x"]);
    refused_onnx("a chain of Add", &graph(&[1, 1 << 20, 1, 1], &parts));
}

#[test]
fn channels_that_are_picked_again_and_again() {
    let gather = |i: usize| {
        let (from, to) = (format!("v{i}"), format!("v{}", i + 1));
        node("Gather", &[&from, "all"], &to, &[handmade::int("axis", 1)])
    };
    let mut parts = vec![numbers("all", (0..1024).rev()), node("Relu", &["x"], "v0", &[])];
    parts.extend((0..2000).map(gather));
    parts.push(node("Relu", &["v2000"], "y", &[]));
    refused_onnx("a chain of Gather", &graph(&[1, 1024, 1, 1], &parts));
}

#[test]
fn padding_on_one_side_that_fills_weights_with_zeros() {
    let conv = node("Conv", &["x", "w"], "c", &[ints("pads", &[0, 0, 63, 63])]);
    let parts = [ones("w", &[256, 1024, 1, 1]), conv, node("GlobalAveragePool", &["c"], "y", &[])];
    let file = graph(&[1, 1024, 1, 1], &parts);
    assert!(file.len() < 1 << 21);
    refused_onnx("pads of one side", &file);
}

#[test]
fn a_constant_under_many_names_is_there_once() {
    let mut parts = vec![ones("w", &[1024, 1024, 1, 1]), node("Identity", &["w"], "i0", &[])];
    let identity = |i: usize| node("Identity", &[&format!("i{i}")], &format!("i{}", i + 1), &[]);
    parts.extend((0..1500).map(identity));
    parts.push(node("Conv", &["x", "i1500"], "y", &[]));
    let file = graph(&[1, 1024, 1, 1], &parts);
    let (result, peak) =
        measured(|budget| Model::from_onnx(&file, "names").images_only().budget(budget).read());
    let model = result.unwrap();
    let (image, tensors) = model.image().unwrap();
    assert_eq!(image.params(tensors).unwrap().tensors["y.weight"].len(), 1024 * 1024);
    assert!(peak < 14 << 20, "{peak}: the weights, a copy that is changed, names");
}

#[test]
fn convolutions_that_share_a_weight() {
    let parts = [vec![ones("w", &[704, 704, 1, 1])], chain("Conv", 2000, &["w"])].concat();
    refused_onnx("2,000 convolutions", &graph(&[1, 704, 1, 1], &parts));
}

#[test]
fn nodes_of_a_few_bytes() {
    let empty = bytes(7, bytes(1, []).repeat(2_000_000));
    refused_onnx("empty nodes", &[bytes(8, number(2, 17)), empty].concat());
    let inputs = bytes(7, bytes(1, bytes(1, []).repeat(3_000_000)));
    refused_onnx("operands without names", &[bytes(8, number(2, 17)), inputs].concat());
}

#[test]
fn concatenations_of_many_parts() {
    let relu = node("Relu", &["x"], "r", &[]);
    let concat = node("Concat", &vec!["r"; 100_000], "c", &[handmade::int("axis", 1)]);
    let parts = [relu, concat, node("Relu", &["c"], "y", &[])];
    refused_onnx("parts of a concatenation", &graph(&[1, 2, 1, 1], &parts));
}

#[test]
fn long_names_and_lists_are_not_repeated_in_errors() {
    let say = |parts: &[Vec<u8>]| {
        let file = graph(&[1, 2, 4, 4], parts);
        let (result, peak) =
            measured(|budget| Model::from_onnx(&file, "long").images_only().budget(budget).read());
        assert!(peak <= 8 * file.len() as u64 + UNCHARGED, "{peak} for {}", file.len());
        result.unwrap_err().to_string()
    };
    let name = "n".repeat(1 << 20);
    let error = say(&[node("Relu", &["x"], &name, &[])]);
    assert_eq!(error, "long: no ONNX file: text of 1048576 bytes, most is 4096");
    let kernel = ints("kernel_shape", &vec![1; 1 << 20]);
    let error = say(&[node("MaxPool", &["x"], "p", &[kernel])]);
    assert!(
        error.ends_with("must have 2 sizes, got [1, 1, 1, 1, 1, 1, 1, 1], … (1048576)"),
        "{error}"
    );
}

#[test]
fn entries_of_safetensors_on_one_range() {
    let entry = |i| {
        format!(
            r#""t{i}": {{"dtype": "F32", "shape": [1024, 1024], "data_offsets": [0, 4194304]}}"#
        )
    };
    let entries: Vec<String> = (0..3000).map(entry).collect();
    let header = format!("{{{}}}", entries.join(", "));
    let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0; 4 << 20]].concat();
    assert!(file.len() < 4_700_000);
    let error = refused("3,000 entries", |budget| {
        safetensors::from_bytes(&file, "bomb.safetensors", budget)
    });
    assert!(error.starts_with("bomb.safetensors: \"t"), "{error}");
}

#[test]
fn a_header_of_lists() {
    let shape = "1,".repeat(20 << 20);
    let header =
        format!(r#"{{"t": {{"shape": [{shape}1], "data_offsets": [0, 4], "dtype": "F32"}}}}"#);
    let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0; 4]].concat();
    refused("a shape", |budget| safetensors::from_bytes(&file, "bomb", budget));
}

#[test]
fn parameters_of_one_number() {
    let entry = |i: u32| [i.to_string().as_bytes(), &[0], &1u64.to_le_bytes(), &[0; 4]].concat();
    let entries: Vec<u8> = (0..1_000_000).flat_map(entry).collect();
    let file = [b"TVM_MODEL_PARAMS\0", &1_000_000u64.to_le_bytes()[..], &entries].concat();
    let (result, peak) = measured(|budget| Params::from_bytes(&file, budget));
    assert!(matches!(result, Err(Problem::Memory(_))) && peak <= BUDGET + UNCHARGED, "{peak}");
}

#[test]
fn files_that_are_larger_than_the_budget_are_not_read() {
    let folder = std::env::temp_dir().join(format!("reef-memory-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let large = |name: &str| {
        let file = std::fs::File::create(folder.join(name)).unwrap();
        file.set_len(5 << 30).unwrap(); // holes take no room
        folder.join(name)
    };
    let onnx = large("a.onnx");
    refused("an ONNX file", |budget| Model::open(&onnx).images_only().budget(budget).read());
    let param = large("model.param");
    refused("a parameter file", |budget| Params::load(&param, budget));
    large("model.json");
    refused("a folder", |budget| Model::open(&folder).budget(budget).read());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_schedule_of_lists() {
    let args = "0,".repeat(8 << 20);
    let text = format!(
        r#"{{"storage": [], "kernels": [{{"name": "k", "args": [{args}0]}}], "args": []}}"#
    );
    let folder = std::env::temp_dir().join(format!("reef-memory-json-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("model.json"), text).unwrap();
    refused("a schedule", |budget| Model::open(&folder).budget(budget).read());
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Checks that the reader stays within any budget, whether it reads or refuses, and at any byte.
fn within_each_budget<T>(what: &str, read: impl Fn(&Budget) -> Result<T, Error>) {
    let mut fine = 0;
    for kib in (0..17).map(|power| 1 << power) {
        let (result, peak) = measured_in(kib << 10, &read);
        assert!(peak <= (kib << 10) + UNCHARGED, "{what}: {peak} bytes of {kib} KiB");
        fine += usize::from(!matches!(result, Err(Error::Memory { .. })));
    }
    println!("{what}: not refused at {fine} of 17 budgets");
    assert!(fine > 0, "{what} is never read");
}

#[test]
fn networks_stay_within_each_budget() {
    let mut networks = 0;
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/onnx")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "onnx") {
            let read = |budget: &Budget| Model::open(&path).images_only().budget(budget).read();
            within_each_budget(&path.file_name().unwrap().to_string_lossy(), read);
            networks += 1;
        }
    }
    assert_eq!(networks, 17);
}

#[test]
fn steps_of_long_names_stay_within_each_budget() {
    let long = |i: usize| format!("{i}{}", "n".repeat(1000));
    let mut parts = vec![ones("w", &[2, 2, 1, 1]), node("Relu", &["x"], &long(0), &[])];
    for i in 0..1000 {
        let op = ["Relu", "HardSwish", "Conv", "Add"][i % 4];
        let before = long(i);
        let second = ["", "", "w", &before][i % 4];
        parts.push(node(op, &[&before, second], &long(i + 1), &[]));
    }
    let all: Vec<String> = (0..1000).map(long).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    parts.push(node("Concat", &all, "y", &[handmade::int("axis", 1)]));
    let file = graph(&[1, 2, 1, 1], &parts);
    let read =
        |budget: &Budget| Model::from_onnx(&file, "long").images_only().budget(budget).read();
    within_each_budget("long names", read);
}

#[test]
fn json_stays_within_each_budget() {
    let folder = std::env::temp_dir().join(format!("reef-memory-each-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let zeros = "0,".repeat(200_000);
    let storage = r#"{"name":"","size":1,"stype":"float"},"#.repeat(10_000);
    let storage = storage.trim_end_matches(',');
    let relu = r#"{"name":"k","args":[0,1],"op":{"linear":{}}},"#.repeat(10_000);
    let model = Model::open("densenet201").input_size(32).read().unwrap();
    let network = model.image().unwrap().0.to_json().unwrap();
    for text in [
        format!(
            r#"{{"storage": [], "kernels": [{{"name": "k", "args": [{zeros}0]}}], "args": []}}"#
        ),
        format!(r#"{{"storage": [], "kernels": [], "args": [{zeros}0]}}"#),
        format!(r#"{{"storage": [{storage}], "kernels": [], "args": [0]}}"#),
        format!(
            r#"{{"storage": [{storage}], "kernels": [{}], "args": [0]}}"#,
            relu.trim_end_matches(',')
        ),
        "[".repeat(100_000),
        format!(r#"{{"storage": "{zeros}"}}"#),
        network,
    ] {
        std::fs::write(folder.join("model.json"), &text).unwrap();
        within_each_budget(&text[..40], |budget| Model::open(&folder).budget(budget).read());
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn headers_stay_within_each_budget() {
    let ones = "1,".repeat(100_000);
    let entry = |i: u32| format!(r#""{i}":{{"dtype":"","shape":[],"data_offsets":[0,0]}},"#);
    let entries: String = (0..10_000).map(entry).collect();
    for header in [
        format!(r#"{{"t": {{"shape": [{ones}1], "data_offsets": [0, 4], "dtype": "F32"}}}}"#),
        format!(r#"{{"t": {{"shape": "{ones}", "data_offsets": [0, 4], "dtype": "F32"}}}}"#),
        format!(r#"{{{}}}"#, entries.trim_end_matches(',')),
        format!(r#"{{"__metadata__": {{"a": "{ones}"}}}}"#),
        format!(r#"{{"{ones}": {{"shape": 3}}}}"#),
    ] {
        let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0; 4]].concat();
        let read = |budget: &Budget| safetensors::from_bytes(&file, "each", budget);
        within_each_budget(&header[..40], read);
    }
}

/// Files with some bytes exchanged, repeated or cut, always the same ones: what `fuzz/` does at
/// random.
#[test]
fn damaged_files_stay_within_the_budget() {
    let mut state = 1u64;
    let mut below = |n: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % n.max(1)
    };
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/onnx");
    let mut files = vec![graph(&[1, 1, 1, 1], &doubling())];
    for name in ["skip-17", "odd-21", "inception-13", "mobilenet3-18"] {
        files.push(std::fs::read(format!("{folder}/{name}.onnx")).unwrap());
    }
    for round in 0..1500 {
        let mut file = files[round % files.len()].clone();
        for _ in 0..=below(4) {
            let (at, len) = (below(file.len()), below(64));
            let part = file[at..(at + len).min(file.len())].to_vec();
            match below(4) {
                0 => file[at] = below(256) as u8,
                1 => file[at] |= 0x80,
                2 => drop(file.splice(at..at, part.repeat(below(8)))),
                _ => drop(file.drain(at..at + part.len())),
            }
        }
        let bytes = 2 << 20;
        let read = |budget: &Budget| {
            Model::from_onnx(&file, "damaged").images_only().budget(budget).read()
        };
        let (_, peak) = measured_in(bytes, read);
        assert!(peak <= bytes + UNCHARGED, "round {round}: {peak} bytes");
    }
}

/// Networks of tensors: the places of an axis are as many numbers as it is long, and no file has to
/// hold those.
#[test]
fn long_axes_are_refused_before_their_places_are_made() {
    let read = |what: &str, parts: &[Vec<u8>]| {
        let file = graph(&[1, 1 << 24, 1], parts);
        refused(what, |budget| {
            Model::from_onnx(&file, "axes").tensors_only().budget(budget).read()
        });
    };
    let sizes = |name: &str, list: &[i64]| node("Constant", &[], name, &[ints("value_ints", list)]);
    read("an order", &[node("Transpose", &["x"], "y", &[ints("perm", &[1, 0, 2])])]);
    let wide = sizes("two", &[1, 1, 2]);
    read("a broadcast", &[wide, node("Expand", &["x", "two"], "y", &[])]);
    let [from, to] = [sizes("from", &[1]), sizes("to", &[1 << 24])];
    let at = sizes("at", &[1]);
    read("a part", &[from, to, at, node("Slice", &["x", "from", "to", "at"], "y", &[])]);
    let twice = sizes("twice", &[1, 2, 1]);
    read("copies", &[twice, node("Tile", &["x", "twice"], "y", &[])]);
    let less = sizes("less", &[1, (1 << 24) - 2, 1]);
    read("the middle", &[less, node("CenterCropPad", &["x", "less"], "y", &[])]);
    let new = value(11, "new", &[1, 1, 1]);
    read("a cache", &[new, node("TensorScatter", &["x", "new"], "y", &[])]);
    read("an output", &[node("Identity", &["x"], "y", &[])]);
    read("all of it", &[node("Split", &["x"], "y", &[handmade::int("axis", 1)])]);
    read("what is not 0", &[node("NonZero", &["x"], "y", &[])]);
    read("the largest", &[node("Hardmax", &["x"], "y", &[handmade::int("axis", 1)])]);
    let window = ints("kernel_shape", &[1]);
    read("places of a pool", &[handmade::node_of("MaxPool", &["x"], &["most", "y"], &[window])]);
    let wide = sizes("wide", &[1, 1 << 25, 1]);
    read("a resolution", &[wide, node("Resize", &["x", "", "", "wide"], "y", &[])]);
    let parts = node("SplitToSequence", &["x"], "parts", &[handmade::int("axis", 1)]);
    read("a sequence", &[parts, node("SequenceLength", &["parts"], "y", &[])]);
}

/// Each of the axes alone would fit, and a tensor of all of them is too large.
#[test]
fn long_axes_are_refused_before_the_first_one_is_padded() {
    let long = 3 << 20;
    let read = |what: &str, parts: &[Vec<u8>]| {
        let file = graph(&[1; 5], parts);
        let read =
            |budget: &Budget| Model::from_onnx(&file, "axes").tensors_only().budget(budget).read();
        let (result, peak) = measured(read);
        let error = result.map(drop).unwrap_err().to_string();
        assert!(error.contains("is out of range"), "{what}: {error}");
        assert!(peak <= BUDGET + UNCHARGED, "{what}: {peak} bytes of {BUDGET}");
    };
    let pads = || numbers("pads", [[0; 5], [2 * long; 5]].concat());
    read("zeros", &[pads(), node("Pad", &["x", "pads"], "y", &[])]);
    let edges = [handmade::text("mode", "edge")];
    read("edges", &[pads(), node("Pad", &["x", "pads"], "y", &edges)]);
    let spread = node("ConvTranspose", &["x", "w"], "y", &[ints("pads", &[-long; 6])]);
    read("a transposed convolution", &[ones("w", &[1; 5]), spread]);
}

/// Networks of tensors: a number for each batch or token is charged before there is any.
#[test]
fn numbers_of_many_batches_are_charged_before_they_are_made() {
    let many = 1 << 24;
    let read = |what: &str, shape: &[i64], parts: &[Vec<u8>]| {
        let file = graph(shape, parts);
        refused(what, |budget| {
            Model::from_onnx(&file, "batches").tensors_only().budget(budget).read()
        });
    };
    let new = value(11, "new", &[many, 1, 1]);
    read("caches", &[many, 1, 1], &[new, node("TensorScatter", &["x", "new"], "y", &[])]);
    let microsoft = |op: &str, inputs: &[&str], attributes: &[Vec<u8>]| {
        handmade::node_in("com.microsoft", op, inputs, &["y"], attributes)
    };
    let heads = ["num_heads", "kv_num_heads"].map(|name| handmade::int(name, 1));
    let grouped = microsoft("GroupQueryAttention", &["x", "x", "x", "", "", "", "total"], &heads);
    read("first prompts", &[many, 1, 1], &[numbers("total", [1]), grouped]);
    let inputs = ["x", "", "w", "w", "w", "scale", "scale", "", "place"];
    let embedded = microsoft("EmbedLayerNormalization", &inputs, &[]);
    let constants = [ones("w", &[1, 1]), ones("scale", &[1]), numbers("place", [0])];
    read("segments", &[1, many], &[&constants[..], &[embedded]].concat());
    let inputs = ["x", "k", "k", "", "", "", "lengths"];
    let causal = node("Attention", &inputs, "y", &[handmade::int("is_causal", 1)]);
    let constants = [ones("k", &[1; 4]), numbers("lengths", [1])];
    read("ends of queries", &[1, 1, many, 1], &[&constants[..], &[causal]].concat());
}

#[test]
fn triangle_of_a_matrix_is_charged_before_it_is_made() {
    let file = graph(&[1 << 14, 1 << 14], &[node("Trilu", &["x"], "y", &[])]);
    refused("a triangle", |budget| {
        Model::from_onnx(&file, "triangle").tensors_only().budget(budget).read()
    });
}

#[test]
fn part_of_an_empty_scan_is_charged_before_it_is_made() {
    let size = 1 << 27;
    let body = [value(11, "row", &[size]), node("Identity", &["row"], "part", &[])];
    let body = handmade::graph("body", &[&body[..], &[value(12, "part", &[size])]].concat());
    let scan = node("Scan", &["x"], "y", &[body, handmade::int("num_scan_inputs", 1)]);
    let file = graph(&[0, size], &[scan]);
    refused("an empty scan", |budget| {
        Model::from_onnx(&file, "scan").tensors_only().budget(budget).read()
    });
}

#[test]
fn a_sequence_under_many_names() {
    let mut parts = vec![node("SequenceConstruct", &vec!["x"; 3000], "s0", &[])];
    let identity = |i: usize| node("Identity", &[&format!("s{i}")], &format!("s{}", i + 1), &[]);
    parts.extend((0..3000).map(identity));
    parts.push(node("SequenceLength", &["s0"], "y", &[]));
    let file = graph(&[1], &parts);
    refused("copies of a sequence", |budget| {
        Model::from_onnx(&file, "sequences").tensors_only().budget(budget).read()
    });
}

#[test]
fn a_sequence_of_many_operands_and_results() {
    const MANY: usize = 3000;
    let read = |what: &str, more: &[Vec<u8>], functions: &[u8]| {
        let list = node("SequenceConstruct", &vec!["x"; MANY], "s", &[]);
        let one = node("Constant", &[], "one", &[ints("value_ints", &[1])]);
        let file = graph(&[1], &[&[list, one], more].concat());
        let file = [&file[..], functions].concat();
        refused(what, |budget| {
            Model::from_onnx(&file, "sequences").tensors_only().budget(budget).read()
        });
    };
    let ports: Vec<u8> = (0..MANY).flat_map(|k| bytes(4, format!("s{k}"))).collect();
    let function = [bytes(1, "Taking"), ports, bytes(5, "b"), bytes(10, "own")].concat();
    let call = handmade::node_in("own", "Taking", &vec!["s"; MANY], &["y"], &[]);
    read("operands of a function", &[call], &bytes(25, function));
    let outputs = vec![value(12, "s", &[]); MANY];
    let branches = ["then_branch", "else_branch"].map(|name| handmade::graph(name, &outputs));
    read("results of a branch", &[node("If", &["one"], "y", &branches)], &[]);
    let inputs = [vec!["one", ""], vec!["s"; MANY]].concat();
    let body = [handmade::graph("body", &[])];
    read("state of a loop", &[node("Loop", &inputs, "y", &body)], &[]);
}

/// Two calls in each of 14 functions are 32,767 calls.
#[test]
fn calls_without_results_are_charged() {
    let call = |level: usize| handmade::node_of(&format!("F{level}"), &[], &[], &[]);
    let function = |level: usize| {
        // A node is field 1 of a graph, and field 7 of a function.
        let next = [&[(7 << 3) | 2][..], &call(level + 1)[1..]].concat();
        bytes(25, [bytes(1, format!("F{level}")), next.repeat(2)].concat())
    };
    let functions: Vec<u8> = (0..14).flat_map(function).collect();
    let last = bytes(25, bytes(1, "F14"));
    let file = [graph(&[1], &[call(0), node("Relu", &["x"], "y", &[])]), functions, last].concat();
    let read =
        |budget: &Budget| Model::from_onnx(&file, "calls").tensors_only().budget(budget).read();
    let (result, _) = measured_in(1 << 20, read);
    let error = result.map(drop).unwrap_err();
    assert!(matches!(error, Error::Memory { .. }), "{error}");
}

#[test]
fn texts_of_a_file() {
    let read = |what: &str, part: Vec<u8>| {
        let file = graph(&[1], &[part, node("Relu", &["x"], "y", &[])]);
        refused(what, |budget| {
            Model::from_onnx(&file, "texts").tensors_only().budget(budget).read()
        });
    };
    let names: Vec<String> = (0..500_000).map(|number: u32| number.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    read("stored texts", handmade::stored_texts("w", &[names.len() as i64], &names));
    let one = handmade::texts("value_strings", &vec![""; 1_000_000]);
    read("one text of a node, many times", node("Constant", &[], "w", &[one]));
}

#[test]
fn pairs_of_classes_are_counted_before_they_are_made() {
    let attributes = [
        ints("classlabels_ints", &[0; 20_000]),
        ints("vectors_per_class", &[1]),
        handmade::floats("support_vectors", &[1.0]),
        handmade::floats("coefficients", &[1.0]),
        handmade::floats("rho", &[1.0]),
    ];
    let classes =
        handmade::node_in("ai.onnx.ml", "SVMClassifier", &["x"], &["l", "y"], &attributes);
    let file = graph(&[1, 1], &[classes]);
    let (result, peak) =
        measured(|budget| Model::from_onnx(&file, "pairs").tensors_only().budget(budget).read());
    let error = result.map(drop).unwrap_err().to_string();
    assert!(error.contains("coefficients for 20000 classes"), "{error}");
    assert!(peak <= BUDGET + UNCHARGED, "{peak}");
}
