//! A damaged `model.json` is refused or describes a network that runs: no panic, nothing out of
//! bounds.

use proptest::prelude::*;
use reef_models::kinds::{ImageModel, reference};
use reef_models::{Model, Seeded, arena};

/// A small network's text, and where its numbers and words are.
fn text() -> (String, Vec<(usize, usize)>) {
    let model = Model::open("resnet18").input_size(32).read().unwrap();
    let text = model.image().unwrap().0.to_json().unwrap();
    let mut places = Vec::new();
    let mut begin = None;
    for (at, byte) in text.bytes().enumerate() {
        match (begin, byte.is_ascii_alphanumeric()) {
            (None, true) => begin = Some(at),
            (Some(from), false) => {
                places.push((from, at));
                begin = None;
            }
            _ => {}
        }
    }
    (text, places)
}

/// Values that sizes, indices and flags don't expect.
const VALUES: [&str; 12] = [
    "0",
    "1",
    "2",
    "3",
    "64",
    "65536",
    "2147483648",
    "18446744073709551615",
    "-1",
    "true",
    "null",
    "x",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn changed_values_are_survived(
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0..VALUES.len()), 1..4),
    ) {
        let (mut text, places) = text();
        let mut changes: Vec<_> = changes.iter().map(|(at, to)| (at.get(&places), VALUES[*to])).collect();
        changes.sort_by_key(|(place, _)| std::cmp::Reverse(place.0));
        changes.dedup_by_key(|(place, _)| place.0);
        for ((from, to), value) in changes {
            text.replace_range(*from..*to, value);
        }
        let Ok(model) = ImageModel::from_json(&text, "damaged") else { return Ok(()) };
        prop_assert!(model.tensors().iter().all(|tensor| tensor.elements < 1 << 31));
        arena::plan(model.graph());
        let small = model.tensors().iter().all(|tensor| tensor.elements < 1 << 22);
        if small && model.graph().bytes() < 1 << 22 {
            let input = Seeded(1).input(model.input().elements());
            reference::execute(&model, &Seeded(1), &input).unwrap();
        }
    }

    #[test]
    fn cuts_are_refused(cut: prop::sample::Index) {
        let (text, _) = text();
        let cut = cut.index(text.len() - 2); // the last line feed is not missed
        prop_assert!(ImageModel::from_json(&text[..cut], "cut").is_err());
    }
}
