use super::*;
use crate::tensor::{Array, Kind, TensorOp};

fn placed(dims: &[usize]) -> Placed {
    Placed { first: 0, view: View::dense(dims) }
}

/// Two rows that see three keys of two elements, with values of one, and a bias for each score.
fn op() -> TensorOp {
    let attention = Attention {
        queries: placed(&[2, 2]),
        keys: Placed { first: 0, view: View { dims: vec![2, 3, 2], strides: vec![0, 2, 1] } },
        values: Placed { first: 1, view: View { dims: vec![2, 3, 1], strides: vec![0, 1, 1] } },
        scores: vec![ScoreStep::Scale(0.5), ScoreStep::Add(View::dense(&[2, 3]))],
        none_is_zero: false,
    };
    let spec = |elements| Spec { element: Element::F32, dims: vec![elements] };
    let inputs = [4, 6, 4, 6].map(spec).into();
    TensorOp { kind: Kind::Attention(attention), inputs, output: spec(2) }
}

#[test]
fn weights_are_the_softmax_of_scores() {
    let given = [
        Array::F32(vec![1.0, 0.0, 0.0, 2.0]),
        Array::F32(vec![2.0, 0.0, 0.0, 1.0, 4.0, 2.0]),
        Array::F32(vec![99.0, 1.0, 10.0, 100.0]),
        Array::F32(vec![0.0, 1.0, f32::NEG_INFINITY, 0.0, 0.0, 0.0]),
    ];
    let values: Vec<_> = given.iter().map(Array::values).collect();
    // Scores: 1, 0 + 1, never; 0, 1, 2.
    let [one, e, square] = [1.0, std::f32::consts::E, std::f32::consts::E.powi(2)];
    let want = [5.5, (one + 10.0 * e + 100.0 * square) / (one + e + square)];
    let Ok(Some(Array::F32(all))) = op().compute(&values, 0..2, &|| false) else {
        panic!("singles")
    };
    assert!(
        all.iter().zip(want).all(|(have, want)| (have - want).abs() < 1e-4),
        "{all:?} {want:?}"
    );
    let Ok(Some(Array::F32(second))) = op().compute(&values, 1..2, &|| false) else {
        panic!("singles")
    };
    assert_eq!(second, all[1..], "rows don't depend on the range");
    assert_eq!(op().compute(&values, 0..2, &|| true), Ok(None));
}

#[test]
fn invalid_attention_is_refused() {
    type Spoil = fn(&mut Attention, &mut Vec<Spec>);
    let spoils: [Spoil; 8] = [
        |op, _| op.values.first = 2,
        |op, _| op.keys.view.strides[1] = 3,
        |op, _| op.keys.view.dims[1] = 2,
        |op, _| op.queries.view.dims[0] = 1,
        |op, _| op.queries = Placed::default(),
        |op, _| op.scores.push(ScoreStep::Add(View::dense(&[2, 3]))),
        |_, inputs| inputs[3].element = Element::Bool,
        |_, inputs| inputs[0].element = Element::F64,
    ];
    op().check().unwrap();
    for (k, spoil) in spoils.into_iter().enumerate() {
        let mut op = op();
        let Kind::Attention(attention) = &mut op.kind else { panic!("attention") };
        spoil(attention, &mut op.inputs);
        assert!(op.check().is_err(), "{k}: {op:?}");
    }
}
