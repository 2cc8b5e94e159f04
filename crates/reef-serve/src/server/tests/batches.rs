//! Requests that run together.

use super::shapes::handmade::{file, ints, node, ones};
use super::shapes::{asking, open, open_file, peer, port};
use super::*;
use std::task::Poll;

/// The made-up network of images, in rows.
fn images(test: &str, more: &str) -> Fixture {
    let fixture = Fixture::new(test, |config| config.models.load.clear());
    let text = format!("network = \"resnet18\"\nsize = 32\nseed = 1\n{more}");
    std::fs::write(fixture.folder.join("tiny/model.toml"), text).unwrap();
    fixture.server.registry.load(&ModelName::new("tiny").unwrap()).unwrap();
    fixture
}

impl Fixture {
    /// A request with an image of its own.
    fn image(&self, seed: u64, priority: u64) -> Inference {
        let inference = self.inference(priority);
        let input = Seeded(seed).input(inference.variant.inputs.each[0].elements());
        let input = Input::Bytes(to_bytes(&input).into());
        Inference { inputs: vec![BoundInput { index: 0, offset: 0, input }], ..inference }
    }

    fn executions(&self, name: &str) -> u64 {
        self.server.registry.get(name, "").unwrap().executions()
    }
}

/// Answers of all of these, asked at once.
pub(super) fn all_at_once<T>(futures: Vec<impl Future<Output = T>>) -> Vec<T> {
    let mut futures: Vec<_> = futures.into_iter().map(Box::pin).collect();
    let mut answers: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    block_on(std::future::poll_fn(|cx| {
        for (future, answer) in futures.iter_mut().zip(&mut answers) {
            if answer.is_none()
                && let Poll::Ready(ready) = future.as_mut().poll(cx)
            {
                *answer = Some(ready);
            }
        }
        if answers.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    }));
    answers.into_iter().flatten().collect()
}

/// Four different images in one run give what each gives alone, bit by bit.
#[test]
fn batched_results_equal_single_results() {
    let alone = images("alone", "");
    let fixture = images("together", "max_batch = 4\nmax_delay_us = 1_000_000\n");
    let model = fixture.server.registry.get("tiny", "").unwrap();
    assert_eq!(model.inputs.each[0].shape, [-1, 3, 32, 32]);
    assert_eq!(model.variants.len(), 3, "for 1, 2 and 4 rows");
    let want = |seed| block_on(alone.server.infer(alone.image(seed, 2))).unwrap();
    let wanted: Vec<_> = (1..=4).map(want).collect();
    let begun = Instant::now();
    let mut asked = 0;
    while fixture.executions("tiny") == asked {
        assert!(begun.elapsed() < Duration::from_secs(60), "{asked} requests, each by itself");
        let ask = |seed| fixture.server.infer(fixture.image(seed, 2));
        for (answer, want) in all_at_once((1..=4).map(ask).collect()).into_iter().zip(&wanted) {
            assert!(answer.unwrap() == *want, "an image in a batch differs from the same alone");
        }
        asked += 4;
    }
    assert_eq!(model.numbers().success.count, asked);
}

/// Real-time requests don't wait for others unless the model allows it.
#[test]
fn real_time_requests_run_by_themselves() {
    let fixture = images("rt-alone", "max_batch = 4\nmax_delay_us = 1_000_000\n");
    let answers = all_at_once((1..=4).map(|n| fixture.server.infer(fixture.image(n, 1))).collect());
    answers.into_iter().for_each(|answer| drop(answer.unwrap()));
    assert_eq!(fixture.executions("tiny"), 4);
}

/// A batch is charged to one account, so requests of clients with their own accounts run alone.
#[test]
fn real_time_requests_run_with_those_of_their_account() {
    let fixture = images("accounts", "max_batch = 4\nmax_delay_us = 20_000\nbatch_rt = true\n");
    let ask = |number| {
        let client = ClientId { number, ..Peer::UNKNOWN.id };
        let account = Some(Account::new(None));
        fixture.server.infer(Inference { client, account, ..fixture.image(1, 1) })
    };
    all_at_once((1..=4).map(ask).collect()).into_iter().for_each(|answer| drop(answer.unwrap()));
    assert_eq!(fixture.executions("tiny"), 4);
}

/// With one account and `batch_rt`, they wait for each other.
#[test]
fn real_time_requests_run_together_if_the_model_says_so() {
    let fixture =
        images("rt-together", "max_batch = 4\nmax_delay_us = 1_000_000\nbatch_rt = true\n");
    let (begun, mut asked) = (Instant::now(), 0);
    while fixture.executions("tiny") == asked {
        assert!(begun.elapsed() < Duration::from_secs(60), "{asked} requests, each by itself");
        let ask = |n| fixture.server.infer(fixture.image(n, 1));
        let answers = all_at_once((1..=4).map(ask).collect());
        answers.into_iter().for_each(|answer| drop(answer.unwrap()));
        asked += 4;
    }
}

/// There are networks of several rows for the shapes that the model names, and for no others.
#[test]
fn a_request_that_nothing_can_run_with_does_not_wait() {
    let text = "max_batch = 4\nmax_delay_us = 1_000_000\nshapes = [{ x = [1, 5, 4] }]\n";
    let fixture = open("in-vain", text, |_| ());
    block_on(async {
        let all = async {
            for _ in 0..40 {
                fixture.ask_sums("a", &[1, 2, 4]).await.unwrap();
            }
        };
        let end = tokio::time::timeout(Duration::from_secs(20), all).await;
        end.expect("each of 40 requests waited for others that could not run with it");
    });
    let widest = |tokens| fixture.sums().variants.widest(&vec![vec![1, tokens, 4]]);
    assert_eq!([widest(5), widest(2), widest(3)], [4, 1, 0]);
}

/// One goes away, one is too late, the others get theirs.
#[test]
fn each_request_of_a_batch_ends_by_itself() {
    let fixture = images("ends", "max_batch = 8\nmax_delay_us = 200_000\n");
    let want = block_on(fixture.server.infer(fixture.image(1, 2))).unwrap();
    let ask = |timeout| {
        let inference = Inference { timeout, ..fixture.image(1, 2) };
        fixture.server.infer(inference)
    };
    let mut gone = Box::pin(ask(None));
    let late = ask(Some(Duration::from_nanos(1)));
    let mut others = vec![late];
    others.extend((0..3).map(|_| ask(None)));
    block_on(std::future::poll_fn(|cx| {
        let _ = gone.as_mut().poll(cx); // it is queued
        Poll::Ready(())
    }));
    drop(gone);
    let answers = all_at_once(others);
    assert!(matches!(answers[0], Err(Error::Deadline(_))), "{:?}", answers[0]);
    assert!(answers[1..].iter().all(|answer| answer.as_ref() == Ok(&want)));
}

/// Rows of several requests, and requests of several rows, by the names and shapes of a file.
#[test]
fn rows_of_tensors_go_to_their_requests() {
    let text =
        "max_batch = 4\nmax_delay_us = 100_000\nbatch_rt = true\nshapes = [{ x = [1, 5, 4] }]\n";
    let fixture = open("rows", text, |_| ());
    assert_eq!(fixture.sums().variants.len(), 3);
    let asked = [(1, 5), (2, 5), (1, 5), (3, 2)];
    let answers = all_at_once(
        asked
            .iter()
            .map(|&(rows, tokens)| {
                let fixture = &fixture;
                async move { fixture.ask_sums("a", &[rows, tokens, 4]).await }
            })
            .collect(),
    );
    for ((rows, tokens), answer) in asked.into_iter().zip(answers) {
        let answer = answer.unwrap();
        let (info, output) = answer.tensors().next().unwrap();
        assert_eq!(info.shape, [rows, tokens, 3]);
        let want = (0..rows * tokens).flat_map(|row| [(16 * row + 6) as f32; 3]);
        assert_eq!(to_floats(&output.bytes).collect::<Vec<_>>(), want.collect::<Vec<_>>());
    }
}

#[test]
fn networks_without_rows_are_not_batched() {
    let fixture = images("no-rows", "");
    let text = "network = \"resnet18\"\nsize = 32\nseed = 1\nbatch = 2\nmax_batch = 4\n";
    std::fs::write(fixture.folder.join("tiny/model.toml"), text).unwrap();
    let said = fixture.server.registry.load(&ModelName::new("tiny").unwrap()).unwrap_err();
    let want = "model tiny/1: max_batch: the first size of all tensors must be open, but that of input is fixed";
    assert_eq!(said.to_string(), want);
    assert!(fixture.server.registry.get("tiny", "").is_ok(), "as it was");
}

/// Sums of the rows of two inputs, each with a number of rows of its own.
fn pairs() -> Vec<u8> {
    let products = ["x", "y"].map(|x| node("MatMul", &[x, "ones"], &format!("sum_{x}"), &[]));
    let inputs = [port(11, "x", &["n", "4"]), port(11, "y", &["m", "4"])];
    let outputs = [port(12, "sum_x", &["n", "3"]), port(12, "sum_y", &["m", "3"])];
    file(17, &[products.concat(), ones("ones", &[4, 3]), inputs.concat(), outputs.concat()])
}

/// Rows of one request never lie on another's.
#[test]
fn inputs_of_different_rows_do_not_run_with_others() {
    let text = "max_batch = 4\nmax_delay_us = 50_000\n";
    let (fixture, loaded) = open_file("pairs", &pairs(), text, |_| ());
    loaded.unwrap();
    let asked = [(1, 3), (1, 1), (1, 3), (1, 1)];
    let ask = |(rows_x, rows_y): (i64, i64)| {
        let request = asking(&[("x", &[rows_x, 4]), ("y", &[rows_y, 4])]);
        let fixture = &fixture;
        async move { fixture.server.answer(&peer("a"), request).await }
    };
    for (rows, answer) in asked.into_iter().zip(all_at_once(asked.map(ask).into())) {
        let answer = answer.unwrap();
        for ((info, output), rows) in answer.tensors().zip([rows.0, rows.1]) {
            let want = (0..rows).flat_map(|row| [(16 * row + 6) as f32; 3]);
            let got: Vec<f32> = to_floats(&output.bytes).collect();
            assert_eq!(got, want.collect::<Vec<_>>(), "{} of {rows} rows", info.name);
        }
    }
}

#[test]
fn outputs_without_a_row_per_input_row_are_not_batched() {
    let swapped = node("Transpose", &["x"], "y", &[ints("perm", &[1, 0, 2])]);
    let ports = [port(11, "x", &["n", "t", "4"]), port(12, "y", &["t", "n", "4"])];
    let model = file(17, &[swapped, ports.concat()]);
    let (_fixture, loaded) = open_file("swapped", &model, "max_batch = 4\n", |_| ());
    let want = "model sums/1: max_batch: output y must have 2 rows for 2 rows of input, got shape [1, 2, 4]";
    assert_eq!(loaded.unwrap_err().to_string(), want);
}

/// A version that can't be loaded leaves nothing of the others.
#[test]
fn versions_are_loaded_together_or_not_at_all() {
    let (fixture, loaded) = open_file("versions", &pairs(), "versions = \"all\"\n", |_| ());
    loaded.unwrap();
    let name = ModelName::new("sums").unwrap();
    fixture.server.registry.unload(&name).unwrap();
    std::fs::create_dir_all(fixture.folder.join("sums/2")).unwrap();
    std::fs::write(fixture.folder.join("sums/2/model.onnx"), "broken").unwrap();
    fixture.server.registry.load(&name).unwrap_err();
    assert_eq!(fixture.server.registry.budget().used(), 0, "of version 1");
}
