//! Operations that are made of several, and products with packed matrices.

use super::*;
use crate::kernels::tensor::products::layers;
use reef_op::tensor::{Finished, RowMap, RowTerm};

/// `op` with a formula behind its sums: a number for each column, a residual, and the largest of
/// that and zero.
fn finished(op: TensorOp) -> TensorOp {
    let Kind::Contract(contract) = op.kind else { panic!("a contraction") };
    let last = op.output.dims.last().copied().unwrap_or(1);
    let bias = spec(Element::F32, &[last]);
    let terms = vec![
        Term::Input(0),
        Term::Input(1),
        Term::Binary(Binary::Add, 0, 1),
        Term::Input(2),
        Term::Binary(Binary::Sub, 3, 2),
        Term::Scalar(Scalar::Whole(0)),
        Term::Binary(Binary::Max, 4, 5),
    ];
    let kind = Kind::Finished(Finished { contract, formula: Formula(terms) });
    let inputs = [&op.inputs[..], &[bias, op.output.clone()]].concat();
    TensorOp { kind, inputs, output: op.output }
}

#[test]
fn formulas_behind_sums_are_those_of_the_definition() {
    for op in products().into_iter().chain(sums()) {
        let op = finished(op);
        op.check().unwrap();
        assert!(has_joined(&op), "{op:?}");
        agrees(op, 0.0);
    }
}

#[test]
fn a_formula_behind_sums_without_vectors_is_left_to_others() {
    let mut op = finished(products().remove(0));
    let Kind::Finished(Finished { formula, .. }) = &mut op.kind else { panic!("finished") };
    formula.0.push(Term::Unary(Unary::Sin, 0));
    assert!(!has_joined(&op));
    agrees(op, 64.0);
}

#[test]
fn rows_by_vectors_are_those_of_the_definition() {
    use RowTerm::{Element as Each, Fold as All};
    let dims: [&[usize]; 4] = [&[3, 5, 70], &[70], &[5, 1], &[]];
    let inputs: Vec<Spec> = dims.map(|dims| spec(Element::F32, dims)).into();
    let scalar = |number| Each(Term::Scalar(Scalar::Real(number)));
    let folds =
        [FoldKind::Sum, FoldKind::SumAbs, FoldKind::SumSquares, FoldKind::Max, FoldKind::Min];
    for fold in folds {
        for of in 0..4 {
            let terms = vec![
                Each(Term::Input(0)),
                Each(Term::Input(1)),
                Each(Term::Input(2)),
                Each(Term::Input(3)),
                All(fold, of),
                scalar(0.5),
                Each(Term::Binary(Binary::Mul, 4, 5)),
                Each(Term::Binary(Binary::Less, 2, 6)),
                Each(Term::Select(7, 6, 0)),
                Each(Term::Binary(Binary::Sub, 1, 8)),
            ];
            let op = TensorOp {
                kind: Kind::RowMap(RowMap { width: 70, terms }),
                inputs: inputs.clone(),
                output: spec(Element::F32, dims[0]),
            };
            op.check().unwrap();
            assert!(has_joined(&op), "{op:?}");
            agrees(op, 0.0);
        }
    }
}

/// Rows times a matrix, either of which comes first, and the matrix turned or not.
fn layers() -> Vec<TensorOp> {
    vec![
        contract(&[2, 21, 96], [&[21 * 70, 70, 0], &[0, 0, 1]], &[70], [&[1], &[96]]),
        contract(&[33, 120], [&[0, 300], &[300, 0]], &[300], [&[1], &[1]]),
        contract(&[40, 64], [&[512, 0], &[0, 512]], &[512], [&[1], &[1]]),
    ]
}

/// Binds `op` with the input that has a packed form in it.
fn with_packed(
    op: &Arc<TensorOp>,
    inputs: &[OperandMemory],
    output: &OperandMemory,
) -> Result<(Kernel, u32)> {
    let packed = packed_input(op).expect("a matrix that is packed");
    let values = values(&op.inputs[packed.input], packed.input);
    let Array::F32(singles) = values else { panic!("singles") };
    let buffer = layers::pack(&packed, &singles)?;
    assert_eq!(buffer.bytes(), packed.bytes);
    let mut inputs = inputs.to_vec();
    inputs[packed.input] = OperandMemory { buffer, offset: 0 };
    bind(op, &BoundOperands { inputs: &inputs, output, packed: true }, 2)
}

#[test]
fn products_with_packed_matrices_are_those_of_the_definition() {
    for op in layers() {
        agrees_by(op.clone(), 0.0, with_packed);
        agrees_by(finished(op), 0.0, with_packed);
    }
}

#[test]
fn wrongly_packed_operand_is_refused() {
    let op = Arc::new(layers().remove(0));
    let packed = packed_input(&op).unwrap();
    assert!(layers::pack(&packed, &[0.0; 7]).is_err(), "too few values");
    let place = |bytes| OperandMemory { buffer: Buffer::zeroed(bytes).unwrap(), offset: 0 };
    let all = [op.inputs[0].bytes(), packed.bytes, op.output.bytes()];
    let said = |[rows, matrix, output]: [usize; 3]| {
        let inputs = [place(rows), place(matrix)];
        bind(&op, &BoundOperands { inputs: &inputs, output: &place(output), packed: true }, 2).err()
    };
    assert_eq!(said(all), None);
    for k in 0..3 {
        let mut short = all;
        short[k] -= 4;
        assert!(said(short).is_some(), "operand {k}");
    }
    let same = place(packed.bytes.max(all[2]));
    let inputs = [place(all[0]), same.clone()];
    let over = bind(&op, &BoundOperands { inputs: &inputs, output: &same, packed: true }, 2);
    assert_eq!(over.unwrap_err().to_string(), "output: cannot overlap what is read");
    let other = Arc::new(products().remove(0));
    let inputs = [0, 1].map(|k| place(other.inputs[k].bytes()));
    let output = place(other.output.bytes());
    assert!(
        bind(&other, &BoundOperands { inputs: &inputs, output: &output, packed: true }, 2).is_err()
    );
}

#[test]
fn standardised_rows_are_those_of_the_definition() {
    use RowTerm::{Element as Each, Fold as All};
    for width in [5usize, 70, 300] {
        let real = |number| Each(Term::Scalar(Scalar::Real(number)));
        let of = |kind, a, b| Each(Term::Binary(kind, a, b));
        let terms = vec![
            Each(Term::Input(0)),
            All(FoldKind::Sum, 0),
            real(width as f64),
            of(Binary::Div, 1, 2),
            of(Binary::Sub, 0, 3),
            All(FoldKind::SumSquares, 4),
            of(Binary::Div, 5, 2),
            real(1e-5),
            of(Binary::Add, 6, 7),
            Each(Term::Unary(Unary::Sqrt, 8)),
            real(1.0),
            of(Binary::Div, 10, 9),
            of(Binary::Mul, 4, 11),
            Each(Term::Input(1)),
            of(Binary::Mul, 12, 13),
        ];
        let output = spec(Element::F32, &[40, width]);
        let op = TensorOp {
            kind: Kind::RowMap(RowMap { width, terms }),
            inputs: vec![output.clone(), spec(Element::F32, &[width])],
            output,
        };
        op.check().unwrap();
        assert!(has_joined(&op));
        agrees(op, 64.0);
    }
}

#[test]
fn a_gelu_is_that_of_the_definition() {
    let real = |number| Term::Scalar(Scalar::Real(number));
    let terms = vec![
        Term::Input(0),
        real(std::f64::consts::SQRT_2),
        Term::Binary(Binary::Div, 0, 1),
        Term::Unary(Unary::Erf, 2),
        real(1.0),
        Term::Binary(Binary::Add, 3, 4),
        Term::Binary(Binary::Mul, 0, 5),
        real(0.5),
        Term::Binary(Binary::Mul, 6, 7),
    ];
    // Far below zero, 1 + erf(x / √2) has few digits in either.
    let x = Array::F32((-3000..3000).map(|k| k as f32 / 1000.0).collect());
    let row = spec(Element::F32, &[6000]);
    let kind = Kind::Map(Map { formula: Formula(terms), domain: Domain::F32 });
    let op = Arc::new(TensorOp { kind, inputs: vec![row.clone()], output: row });
    let want = op.compute(&[x.values()], 0..6000, &|| false).unwrap().unwrap();
    let (place, output) = (stored(&x), stored(&x));
    let (kernel, blocks) = plain(&op, &[place], &output).unwrap();
    (0..blocks).for_each(|index| assert_eq!(run(&kernel, index), Outcome::Done));
    let (Array::F32(want), have) = (want, content(&output, &op.output)) else { panic!("singles") };
    for (have, want) in have.as_chunks::<4>().0.iter().zip(want) {
        let have = f32::from_le_bytes(*have);
        assert!((have - want).abs() <= 5e-7, "{have}, not {want}");
    }
}
