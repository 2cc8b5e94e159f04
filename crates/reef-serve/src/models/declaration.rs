//! Declared tensors of a model, with the sizes that a request may choose.

use crate::error::{Error, Result};
use crate::tensor::TensorInfos;
use reef::did_you_mean;
use reef::models::onnx::{Declared, DeclaredPort, DeclaredSize};
use std::collections::BTreeMap;

/// Sizes of each input, in the model's order.
pub(crate) type Shapes = Vec<Vec<usize>>;

/// Returns the first size of all inputs, if they share it and it is not 0.
pub(crate) fn rows_of(shapes: &Shapes) -> Option<usize> {
    let rows = *shapes.first()?.first().filter(|&&rows| rows > 0)?;
    shapes.iter().all(|sizes| sizes.first() == Some(&rows)).then_some(rows)
}

/// Tensors with their names, and with sizes that may be open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Declaration {
    pub(crate) inputs: Vec<DeclaredTensor>,
    outputs: Vec<DeclaredTensor>,
}

/// A tensor in the declaration of a model's source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeclaredTensor {
    pub(crate) name: String,
    /// `None` if the source does not declare them.
    sizes: Option<Vec<DeclaredSize>>,
}

/// Values of open sizes, by their names.
type ChosenSizes = BTreeMap<String, usize>;

impl Declaration {
    /// Converts the declaration of a file; `None` if it leaves the rank of an input open.
    pub(crate) fn of(declared: Declared) -> Option<Self> {
        let of = |ports: Vec<DeclaredPort>| ports.into_iter().map(DeclaredTensor::of).collect();
        let Declared { inputs, outputs } = declared;
        let declaration = Self { inputs: of(inputs), outputs: of(outputs) };
        declaration.inputs.iter().all(|input| input.sizes.is_some()).then_some(declaration)
    }

    /// Declares tensors with these names and sizes. A word names an open size; -1 is one without a
    /// name.
    pub(crate) fn new(inputs: &[(&str, &[&str])], outputs: &[(&str, &[&str])]) -> Self {
        let of = |each: &[(&str, &[&str])]| each.iter().map(DeclaredTensor::new).collect();
        Self { inputs: of(inputs), outputs: of(outputs) }
    }

    /// True if a request chooses any size.
    pub(crate) fn is_open(&self) -> bool {
        self.inputs.iter().any(DeclaredTensor::is_open)
    }

    /// Fixes open sizes: the first one of inputs, the second of two (`tokens`), rows and columns of
    /// four.
    pub(crate) fn fix(&mut self, tokens: Option<usize>, size: Option<usize>, batch: Option<usize>) {
        let mut fixed = ChosenSizes::new();
        for input in &mut self.inputs {
            let sizes = input.sizes.as_mut().expect("of an input");
            let rank = sizes.len();
            for (axis, declared) in sizes.iter_mut().enumerate() {
                let usual = match (axis, rank) {
                    (0, _) => batch,
                    (1, 2) => tokens,
                    (2 | 3, 4) => size,
                    _ => None,
                };
                if let (DeclaredSize::Open(name), Some(usual)) = (&*declared, usual) {
                    fixed.insert(name.clone(), usual);
                    *declared = DeclaredSize::Fixed(usual);
                }
            }
        }
        fixed.remove("");
        let all = self.inputs.iter_mut().chain(&mut self.outputs);
        all.filter_map(|tensor| tensor.sizes.as_mut()).flatten().for_each(|declared| {
            if let DeclaredSize::Open(name) = declared
                && let Some(&size) = fixed.get(name)
            {
                *declared = DeclaredSize::Fixed(size);
            }
        });
    }

    /// Completes the given shapes; sizes that they leave open are 1.
    ///
    /// # Errors
    ///
    /// `Invalid` if one is given for an unknown input, or contradicts the declaration.
    pub(crate) fn complete(&self, given: &BTreeMap<String, Vec<usize>>) -> Result<Shapes> {
        let mut names = given.keys();
        if let Some(name) = names.find(|name| self.inputs.iter().all(|i| i.name != **name)) {
            let have: Vec<_> = self.inputs.iter().map(|input| input.name.as_str()).collect();
            let meant = did_you_mean(name, have.iter().copied());
            let have = have.join(", ");
            return Err(Error::Invalid(format!("unknown input {name:?} (have: {have}){meant}")));
        }
        let mut chosen = ChosenSizes::new();
        for input in &self.inputs {
            given.get(&input.name).map_or(Ok(()), |sizes| input.choose(sizes, &mut chosen))?;
        }
        let full = |input: &DeclaredTensor| match given.get(&input.name) {
            Some(sizes) => sizes.clone(),
            None => input.filled(&chosen),
        };
        Ok(self.inputs.iter().map(full).collect())
    }

    /// Refuses shapes, one for each input, that the model cannot have.
    ///
    /// # Errors
    ///
    /// `Invalid`, with the tensor and both shapes or sizes.
    pub(crate) fn check(&self, shapes: &Shapes) -> Result<()> {
        let mut chosen = ChosenSizes::new();
        self.inputs
            .iter()
            .zip(shapes)
            .try_for_each(|(input, sizes)| input.choose(sizes, &mut chosen))
    }

    /// Gives the tensors of a variant the names of the source, and the inputs these shapes if they
    /// were chosen.
    pub(crate) fn name_variant(
        &self,
        infos: &mut (TensorInfos, TensorInfos),
        shapes: Option<&Shapes>,
    ) {
        for (at, (info, declared)) in infos.0.each.iter_mut().zip(&self.inputs).enumerate() {
            info.name.clone_from(&declared.name);
            if let Some(sizes) = shapes.and_then(|shapes| shapes.get(at)) {
                info.shape = sizes.iter().map(|&size| size as i64).collect();
            }
        }
        for (info, declared) in infos.1.each.iter_mut().zip(&self.outputs) {
            info.name.clone_from(&declared.name);
        }
    }

    /// Returns tensors for metadata: those of `base`, with -1 for open sizes.
    pub(crate) fn metadata(
        &self,
        base: (&TensorInfos, &TensorInfos),
    ) -> (TensorInfos, TensorInfos) {
        let is_open = self.is_open();
        let of = |infos: &TensorInfos, declared: &[DeclaredTensor]| {
            let mut infos = infos.clone();
            for (info, declared) in infos.each.iter_mut().zip(declared) {
                info.shape = declared.metadata(&info.shape, is_open);
            }
            infos
        };
        (of(base.0, &self.inputs), of(base.1, &self.outputs))
    }

    /// Formats shapes with their names, for people.
    pub(crate) fn show(&self, shapes: &Shapes) -> String {
        let each = self.inputs.iter().zip(shapes);
        let each: Vec<_> = each.map(|(input, sizes)| format!("{} {sizes:?}", input.name)).collect();
        each.join(", ")
    }

    /// Returns a tensor whose first size is fixed, if there is one: such a model cannot be batched.
    pub(crate) fn without_rows(&self) -> Option<&str> {
        let first = |tensor: &DeclaredTensor| {
            let first = tensor.sizes.as_ref().and_then(|sizes| sizes.first());
            matches!(first, Some(DeclaredSize::Open(_)))
        };
        let mut all = self.inputs.iter().chain(&self.outputs);
        all.find(|tensor| !first(tensor)).map(|tensor| tensor.name.as_str())
    }
}

impl DeclaredTensor {
    fn of(port: DeclaredPort) -> Self {
        Self { name: port.name, sizes: port.sizes }
    }

    fn new(&(name, sizes): &(&str, &[&str])) -> Self {
        let size = |text: &&str| match text.parse() {
            Ok(size) => DeclaredSize::Fixed(size),
            Err(_) => DeclaredSize::Open((*text).to_owned()),
        };
        Self { name: name.into(), sizes: Some(sizes.iter().map(size).collect()) }
    }

    fn is_open(&self) -> bool {
        let open = |size: &DeclaredSize| matches!(size, DeclaredSize::Open(_));
        self.sizes.as_ref().is_none_or(|sizes| sizes.iter().any(open))
    }

    /// Adds the sizes that `given` chooses.
    fn choose(&self, given: &[usize], chosen: &mut ChosenSizes) -> Result<()> {
        let sizes = self.sizes.as_ref().expect("of an input");
        let wrong = |why: &str| {
            let (name, shown) = (&self.name, &given[..given.len().min(8)]);
            Error::Invalid(format!(
                "tensor {name}: shape must be {}{why}, got {shown:?}",
                self.text()
            ))
        };
        if sizes.len() != given.len() {
            return Err(wrong(""));
        }
        for (size, &given) in sizes.iter().zip(given) {
            match size {
                DeclaredSize::Fixed(size) if *size != given => return Err(wrong("")),
                DeclaredSize::Open(name) if !name.is_empty() => {
                    let before = *chosen.entry(name.clone()).or_insert(given);
                    if before != given {
                        return Err(wrong(&format!(" with {name} of {before} as elsewhere")));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn filled(&self, chosen: &ChosenSizes) -> Vec<usize> {
        let fill = |size: &DeclaredSize| match size {
            DeclaredSize::Fixed(size) => *size,
            DeclaredSize::Open(name) => chosen.get(name).copied().unwrap_or(1),
        };
        self.sizes.iter().flatten().map(fill).collect()
    }

    fn text(&self) -> String {
        let size = |size: &DeclaredSize| match size {
            DeclaredSize::Fixed(size) => size.to_string(),
            DeclaredSize::Open(name) if name.is_empty() => "-1".into(),
            DeclaredSize::Open(name) => format!("-1 ({})", crate::tensor::short(name)),
        };
        let sizes: Vec<_> = self.sizes.iter().flatten().map(size).collect();
        format!("[{}]", sizes.join(", "))
    }

    fn metadata(&self, base: &[i64], is_open: bool) -> Vec<i64> {
        match self.sizes.as_ref().filter(|sizes| sizes.len() == base.len()) {
            Some(sizes) => {
                let of = |(size, &base): (&DeclaredSize, &i64)| match size {
                    DeclaredSize::Open(_) if is_open => -1,
                    _ => base,
                };
                sizes.iter().zip(base).map(of).collect()
            }
            None if is_open => vec![-1; base.len()],
            None => base.to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text() -> Declaration {
        let ids: &[&str] = &["batch", "tokens"];
        Declaration::new(&[("ids", ids), ("mask", ids)], &[("logits", &["batch", "2"])])
    }

    fn refused(shapes: Shapes) -> String {
        text().check(&shapes).unwrap_err().to_string()
    }

    #[test]
    fn sizes_with_one_name_must_be_equal() {
        text().check(&vec![vec![2, 7], vec![2, 7]]).unwrap();
        let said = refused(vec![vec![2, 7], vec![2, 8]]);
        let want = "tensor mask: shape must be [-1 (batch), -1 (tokens)] with tokens of 7 as elsewhere, got [2, 8]";
        assert_eq!(said, want);
        let want = "tensor ids: shape must be [-1 (batch), -1 (tokens)], got [2]";
        assert_eq!(refused(vec![vec![2], vec![2, 7]]), want);
        text().check(&vec![vec![2, 0], vec![2, 0]]).unwrap();
        let said = refused(vec![vec![2, 0], vec![2, 7]]);
        assert!(said.ends_with(" with tokens of 0 as elsewhere, got [2, 7]"), "{said}");
    }

    #[test]
    fn missing_shapes_follow_from_given_ones() {
        let given = BTreeMap::from([("mask".to_owned(), vec![3, 9])]);
        assert_eq!(text().complete(&given).unwrap(), [[3, 9], [3, 9]]);
        assert_eq!(text().complete(&BTreeMap::new()).unwrap(), [[1, 1], [1, 1]]);
        let unknown = BTreeMap::from([("tokens".to_owned(), vec![3])]);
        let said = text().complete(&unknown).unwrap_err().to_string();
        assert_eq!(said, "unknown input \"tokens\" (have: ids, mask)");
    }

    #[test]
    fn fixed_size_cannot_be_chosen() {
        let mut declaration = text();
        declaration.fix(None, None, Some(4));
        assert!(declaration.check(&vec![vec![4, 7], vec![4, 7]]).is_ok());
        assert!(declaration.check(&vec![vec![2, 7], vec![2, 7]]).is_err());
        assert_eq!((text().without_rows(), declaration.without_rows()), (None, Some("ids")));
    }
}
