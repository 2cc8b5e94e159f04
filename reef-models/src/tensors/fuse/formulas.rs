//! Takes formulas into their readers.

use crate::model::ports::Port;
use crate::tensors::step::TensorStep;
use reef_op::tensor::{Binary, Domain, Element, Formula, Kind, Map, Spec, TensorOp, Term, Unary};
use std::sync::Arc;

/// Most terms of a formula that is made of several: devices hold all of them at once.
pub(in crate::tensors) const TERMS: usize = 32;
/// Most inputs of such a formula.
const INPUTS: usize = 8;

/// Takes formulas into their readers. What is in `outputs` stays.
pub(in crate::tensors) fn fuse(steps: Vec<TensorStep>, outputs: &[Port]) -> Vec<TensorStep> {
    let touched = steps.iter().flat_map(|step| step.reads.iter().chain([&step.writes])).copied();
    let storages =
        touched.chain(outputs.iter().map(|port| port.storage)).max().map_or(0, |k| k + 1);
    let mut readers = Readers(vec![0; storages]);
    outputs.iter().for_each(|port| readers.add(&[port.storage]));
    steps.iter().for_each(|step| readers.add(&step.reads));
    let mut makers: Vec<Option<TensorStep>> = vec![None; storages];
    let mut order = Vec::with_capacity(steps.len());
    for mut step in steps {
        while let Some((storage, joined)) = join_one(&step, &makers, &readers) {
            let maker = makers[storage].take();
            maker.iter().chain([&step]).for_each(|gone| readers.remove(&gone.reads));
            readers.add(&joined.reads);
            step = joined;
        }
        order.push(step.writes);
        let at = step.writes;
        makers[at] = Some(step);
    }
    order.into_iter().filter_map(|storage| makers[storage].take()).collect()
}

/// Number of reads of each storage.
struct Readers(Vec<usize>);

impl Readers {
    fn add(&mut self, reads: &[usize]) {
        reads.iter().for_each(|&read| self.0[read] += 1);
    }

    fn remove(&mut self, reads: &[usize]) {
        reads.iter().for_each(|&read| self.0[read] -= 1);
    }

    /// Returns whether `step` has all reads of `storage`.
    fn are(&self, step: &TensorStep, storage: usize) -> bool {
        self.0[storage] == step.reads.iter().filter(|&&read| read == storage).count()
    }
}

/// The first storage that `step` reads whose maker can be taken into it, and what becomes of the
/// two.
fn join_one(
    step: &TensorStep,
    makers: &[Option<TensorStep>],
    readers: &Readers,
) -> Option<(usize, TensorStep)> {
    step.reads.iter().find_map(|&storage| {
        let maker = makers[storage].as_ref().filter(|_| readers.are(step, storage))?;
        Some((storage, join(maker, step)?))
    })
}

/// `reader` after `maker`, as one formula.
fn join(maker: &TensorStep, reader: &TensorStep) -> Option<TensorStep> {
    let (Kind::Map(first), Kind::Map(second)) = (&maker.op.kind, &reader.op.kind) else {
        return None;
    };
    let fits = first.domain == second.domain
        && maker.op.output.elements() == reader.op.output.elements()
        && is_exact(first, maker.op.output.element)
        && computed(first) + computed(second) <= TERMS;
    if !fits {
        return None;
    }
    let (mut joined, seen_as) = (Joined::of([first, second]), seen_as(maker, reader)?);
    let made = joined.append(&first.formula, |joined, input| {
        let spec = reshaped_input(&maker.op.inputs[input], &maker.op.output.dims, &seen_as)?;
        Some(joined.input(maker.reads[input], spec))
    })?;
    let last = joined.append(&second.formula, |joined, input| match reader.reads[input] {
        storage if storage == maker.writes => Some(made),
        storage => Some(joined.input(storage, reader.op.inputs[input].clone())),
    })?;
    let Joined { formula, reads, inputs } = joined;
    if last + 1 != formula.0.len() || formula.0.len() > TERMS || inputs.len() > INPUTS {
        return None;
    }
    let kind = Kind::Map(Map { formula, domain: first.domain });
    let op = TensorOp { kind, inputs, output: reader.op.output.clone() };
    op.check().ok()?;
    Some(TensorStep { name: reader.name.clone(), op: Arc::new(op), reads, writes: reader.writes })
}

/// Terms that stay when inputs are shared.
fn computed(map: &Map) -> usize {
    map.formula.0.iter().filter(|term| !matches!(term, Term::Input(_))).count()
}

/// Returns whether a formula's results are stored without being rounded.
fn is_exact(map: &Map, stored: Element) -> bool {
    use Binary::{Equal, Less, LessOrEqual};
    let truth = matches!(
        map.formula.0.last(),
        Some(
            Term::Binary(Less | LessOrEqual | Equal, ..)
                | Term::Unary(Unary::Not | Unary::IsNan | Unary::IsInf, _)
        )
    );
    match (map.domain, stored) {
        (_, Element::Bool) => truth,
        (Domain::F32, Element::F32) | (Domain::F64, Element::F64) => true,
        (Domain::I64, Element::I64) | (Domain::U64, Element::U64) => true,
        _ => false,
    }
}

/// The sizes as which `reader` sees what `maker` makes, if they are the same wherever it does.
fn seen_as(maker: &TensorStep, reader: &TensorStep) -> Option<Vec<usize>> {
    let reads = reader.reads.iter().zip(&reader.op.inputs);
    let mut seen = reads.filter(|(read, _)| **read == maker.writes).map(|(_, spec)| &spec.dims);
    let first = seen.next()?;
    seen.all(|dims| dims == first).then(|| first.clone())
}

/// An input of a formula whose output has the sizes `made` and is read as `seen_as`.
fn reshaped_input(input: &Spec, made: &[usize], seen_as: &[usize]) -> Option<Spec> {
    let dims = match () {
        () if made == seen_as => input.dims.clone(),
        () if input.dims == made => seen_as.to_vec(),
        () if input.elements() == 1 => Vec::new(),
        () => return None,
    };
    Some(Spec { element: input.element, dims })
}

/// A formula that is put together, and what it reads.
struct Joined {
    formula: Formula,
    reads: Vec<usize>,
    inputs: Vec<Spec>,
}

impl Joined {
    /// An empty one, with room for both of `maps`.
    fn of(maps: [&Map; 2]) -> Self {
        let terms = maps.iter().map(|map| map.formula.0.len()).sum();
        let formula = Formula(Vec::with_capacity(terms));
        Self { formula, reads: Vec::with_capacity(INPUTS), inputs: Vec::with_capacity(INPUTS) }
    }

    /// The term that is this input.
    fn input(&mut self, storage: usize, spec: Spec) -> usize {
        let known =
            self.reads.iter().zip(&self.inputs).position(|known| known == (&storage, &spec));
        let input = known.unwrap_or_else(|| {
            self.reads.push(storage);
            self.inputs.push(spec);
            self.reads.len() - 1
        });
        let there = self.formula.0.iter().position(|term| *term == Term::Input(input));
        there.unwrap_or_else(|| self.formula.push(Term::Input(input)))
    }

    /// Appends the terms of `formula`; `input` gives the term for each of its inputs. The number of
    /// the result.
    fn append(
        &mut self,
        formula: &Formula,
        mut input: impl FnMut(&mut Self, usize) -> Option<usize>,
    ) -> Option<usize> {
        let mut at: Vec<usize> = Vec::with_capacity(formula.0.len());
        for term in &formula.0 {
            let number = match *term {
                Term::Input(k) => input(self, k)?,
                other => self.formula.push(other.renumbered(|k| at[k])),
            };
            at.push(number);
        }
        at.last().copied()
    }
}
