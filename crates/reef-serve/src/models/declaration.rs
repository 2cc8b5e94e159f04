//! Declared tensors of a model, with the sizes that a request may choose.

use crate::error::{Error, Result};
use crate::tensor::TensorInfos;
use reef::did_you_mean;
use reef::models::onnx::{Declared, DeclaredPort, DeclaredSize};
use reef::tensor::{Array, Element, Truth};
use std::collections::BTreeMap;

/// Sizes of each input, in the model's order. If values of inputs decide about shapes, a list of
/// these follows.
pub(crate) type Shapes = Vec<Vec<usize>>;

/// Values of inputs with their sizes, by their names.
pub(crate) type Values = BTreeMap<String, (Vec<usize>, Array)>;

/// Maximum number of values of an input that may decide about shapes.
const MAX_VALUES: usize = 16;

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
    /// Inputs whose values decide about shapes, in the model's order.
    value_inputs: Vec<ValueInput>,
    /// Each of their values in the default network.
    usual_value: usize,
}

/// An input whose values decide about shapes, such as a truth value that says whether a decoder has
/// a cache. Each request chooses them, as it chooses open sizes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ValueInput {
    /// Index among the inputs.
    pub(crate) index: usize,
    name: String,
    element: Element,
    dims: Vec<usize>,
}

/// A tensor in the declaration of a model's source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeclaredTensor {
    pub(crate) name: String,
    /// `None` if the source does not declare them.
    sizes: Option<Vec<DeclaredSize>>,
    /// `None` if the source does not declare it.
    element: Option<Element>,
}

/// Values of open sizes, by their names.
type ChosenSizes = BTreeMap<String, usize>;

impl Declaration {
    /// Converts the declaration of a file; `None` if it leaves the rank of an input open, and none
    /// of these shapes has it, or if it has sequences, whose tensors have names of their own.
    pub(crate) fn of(declared: Declared, shapes: &[BTreeMap<String, Vec<usize>>]) -> Option<Self> {
        if declared.inputs.iter().chain(&declared.outputs).any(|port| port.is_sequence) {
            return None;
        }
        let of = |ports: Vec<DeclaredPort>| ports.into_iter().map(DeclaredTensor::of).collect();
        let Declared { inputs, outputs } = declared;
        let mut declaration = Self::with(of(inputs), of(outputs));
        for input in declaration.inputs.iter_mut().filter(|input| input.sizes.is_none()) {
            let given = shapes.iter().find_map(|shapes| shapes.get(&input.name));
            input.sizes = given.map(|sizes| vec![DeclaredSize::Open(String::new()); sizes.len()]);
        }
        declaration.inputs.iter().all(|input| input.sizes.is_some()).then_some(declaration)
    }

    /// Declares tensors with these names and sizes. A word names an open size; -1 is one without a
    /// name.
    pub(crate) fn new(inputs: &[(&str, &[&str])], outputs: &[(&str, &[&str])]) -> Self {
        let of = |each: &[(&str, &[&str])]| each.iter().map(DeclaredTensor::new).collect();
        Self::with(of(inputs), of(outputs))
    }

    fn with(inputs: Vec<DeclaredTensor>, outputs: Vec<DeclaredTensor>) -> Self {
        Self { inputs, outputs, value_inputs: Vec::new(), usual_value: 0 }
    }

    /// True if a request chooses any size, or values that decide about shapes.
    pub(crate) fn is_open(&self) -> bool {
        !self.value_inputs.is_empty() || self.inputs.iter().any(DeclaredTensor::is_open)
    }

    /// Returns the inputs whose values decide about shapes.
    pub(crate) fn value_inputs(&self) -> &[ValueInput] {
        &self.value_inputs
    }

    /// True if values of any input could be chosen by requests.
    pub(crate) fn may_choose_values(&self) -> bool {
        (0..self.inputs.len()).any(|index| self.value_input(index).is_some())
    }

    /// Leaves the values of these inputs to requests. Returns `false` if requests cannot choose
    /// those of any of them, or do so already.
    pub(crate) fn choose_values(&mut self, names: &[String]) -> bool {
        for name in names {
            let index = self.inputs.iter().position(|input| input.name == *name);
            let Some(input) = index.and_then(|index| self.value_input(index)) else { return false };
            if self.value_inputs.contains(&input) {
                return false;
            }
            self.value_inputs.push(input);
        }
        self.value_inputs.sort_by_key(|input| input.index);
        !names.is_empty()
    }

    /// Leaves no values to requests, and sets that of the default network.
    pub(crate) fn reset_values(&mut self, usual: usize) {
        self.value_inputs.clear();
        self.usual_value = usual;
    }

    /// Returns the input at this index, if it has few numbers or truth values and a fixed shape.
    fn value_input(&self, index: usize) -> Option<ValueInput> {
        let input = &self.inputs[index];
        let element = input.element?;
        let is_read = matches!(element, Element::Bool | Element::I32 | Element::I64 | Element::F32);
        let fixed = |size: &DeclaredSize| match size {
            DeclaredSize::Fixed(size) => Some(*size),
            DeclaredSize::Open(_) => None,
        };
        let dims = input.sizes.as_ref()?.iter().map(fixed).collect::<Option<Vec<_>>>()?;
        let count = dims.iter().fold(1, |count: usize, &size| count.saturating_mul(size));
        let fits = is_read && (1..=MAX_VALUES).contains(&count);
        fits.then(|| ValueInput { index, name: input.name.clone(), element, dims })
    }

    /// Adds the default network's values to its shapes, if values decide about shapes.
    pub(crate) fn with_usual_values(&self, mut shapes: Shapes) -> Shapes {
        if !self.value_inputs.is_empty() {
            let usual = self.value_inputs.iter().flat_map(|input| input.all(self.usual_value));
            shapes.push(usual.collect());
        }
        shapes
    }

    /// Returns the values that shapes have, or else those of the default network.
    pub(crate) fn values(&self, shapes: Option<&Shapes>) -> Values {
        let chosen = shapes.and_then(|shapes| shapes.get(self.inputs.len()));
        let mut values = Values::new();
        let mut begin = 0;
        for input in &self.value_inputs {
            let end = begin + input.count();
            let own = chosen.and_then(|chosen| chosen.get(begin..end));
            let own = own.map_or_else(|| input.all(self.usual_value), <[usize]>::to_vec);
            values.insert(input.name.clone(), (input.dims.clone(), input.array(&own)));
            begin = end;
        }
        values
    }

    /// Fixes open sizes: the first one of inputs, the second of two (`tokens`), rows and columns of
    /// four.
    ///
    /// # Errors
    ///
    /// `Invalid` for a batch, or a size of images, that no input has then.
    pub(crate) fn fix(
        &mut self,
        tokens: Option<usize>,
        size: Option<usize>,
        batch: Option<usize>,
    ) -> Result<()> {
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
        self.check_fixed(size.filter(|_| tokens.is_none()), batch)
    }

    /// Refuses a size of images and a batch that no input has.
    fn check_fixed(&self, size: Option<usize>, batch: Option<usize>) -> Result<()> {
        let is_image = |sizes: &[DeclaredSize], size: usize| {
            sizes.len() == 4 && sizes[2..].iter().all(|side| *side == DeclaredSize::Fixed(size))
        };
        let has_batch = |sizes: &[DeclaredSize], batch: usize| {
            sizes.first() == Some(&DeclaredSize::Fixed(batch))
        };
        let inputs = || self.inputs.iter().filter_map(|input| input.sizes.as_deref());
        if let Some(batch) = batch.filter(|&batch| !inputs().any(|of| has_batch(of, batch))) {
            let text = format!("batch: no input leaves its first size open for {batch}");
            return Err(Error::Invalid(text));
        }
        if let Some(size) = size.filter(|&size| !inputs().any(|of| is_image(of, size))) {
            let text = format!("size: no input leaves rows and columns open for {size}");
            return Err(Error::Invalid(text));
        }
        Ok(())
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
        Ok(self.with_usual_values(self.inputs.iter().map(full).collect()))
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
        let mut each: Vec<_> =
            each.map(|(input, sizes)| format!("{} {sizes:?}", input.name)).collect();
        if let Some(values) = shapes.get(self.inputs.len()) {
            let names: Vec<_> = self.value_inputs.iter().map(|input| input.name.as_str()).collect();
            let inputs = self.value_inputs.iter();
            let inputs = inputs.flat_map(|input| std::iter::repeat_n(input, input.count()));
            let values: Vec<_> = inputs.zip(values).map(|(input, &x)| input.show(x)).collect();
            each.push(format!("values [{}] of {}", values.join(", "), names.join(", ")));
        }
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

impl ValueInput {
    fn count(&self) -> usize {
        self.dims.iter().product()
    }

    /// Returns this number for each of the values.
    fn all(&self, number: usize) -> Vec<usize> {
        let value = match self.element {
            Element::F32 => (number as f32).to_bits() as usize,
            _ => number,
        };
        vec![value; self.count()]
    }

    /// Formats one of the values.
    fn show(&self, value: usize) -> String {
        match self.element {
            Element::F32 => f32::from_bits(value as u32).to_string(),
            _ => (value as i64).to_string(),
        }
    }

    /// Returns the values that these bytes hold, each extended to the size of an address. Of floats
    /// these are the bits.
    pub(crate) fn decode(&self, bytes: &[u8]) -> Vec<usize> {
        let wide = |bytes: &[u8]| {
            let mut wide = [0; 8];
            wide[..bytes.len()].copy_from_slice(bytes);
            match self.element {
                Element::Bool => usize::from(bytes[0] != 0),
                Element::I32 => i64::from(i64::from_le_bytes(wide) as i32) as usize,
                _ => i64::from_le_bytes(wide) as usize,
            }
        };
        bytes.chunks_exact(self.element.bytes()).map(wide).collect()
    }

    fn array(&self, values: &[usize]) -> Array {
        let values = values.iter();
        match self.element {
            Element::Bool => Array::Bool(values.map(|&x| Truth(u8::from(x != 0))).collect()),
            Element::I32 => Array::I32(values.map(|&x| x as i32).collect()),
            Element::F32 => Array::F32(values.map(|&x| f32::from_bits(x as u32)).collect()),
            _ => Array::I64(values.map(|&x| x as i64).collect()),
        }
    }
}

impl DeclaredTensor {
    fn of(port: DeclaredPort) -> Self {
        Self { name: port.name, sizes: port.sizes, element: port.element }
    }

    fn new(&(name, sizes): &(&str, &[&str])) -> Self {
        let size = |text: &&str| match text.parse() {
            Ok(size) => DeclaredSize::Fixed(size),
            Err(_) => DeclaredSize::Open((*text).to_owned()),
        };
        Self { name: name.into(), sizes: Some(sizes.iter().map(size).collect()), element: None }
    }

    fn is_open(&self) -> bool {
        let open = |size: &DeclaredSize| matches!(size, DeclaredSize::Open(_));
        self.sizes.as_ref().is_none_or(|sizes| sizes.iter().any(open))
    }

    /// Adds the sizes that `given` chooses. A name that the tensor has twice may be two sizes:
    /// exporters are told one name for all open sizes, and no other runtime minds.
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
        for (axis, (size, &given)) in sizes.iter().zip(given).enumerate() {
            match size {
                DeclaredSize::Fixed(size) if *size != given => return Err(wrong("")),
                DeclaredSize::Open(name) if !name.is_empty() && !sizes[..axis].contains(size) => {
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
    fn name_that_a_tensor_has_twice_may_be_two_sizes() {
        let image: &[&str] = &["open", "3", "open", "open"];
        let declaration = Declaration::new(&[("image", image), ("count", &["open"])], &[]);
        declaration.check(&vec![vec![2, 3, 32, 48], vec![2]]).unwrap();
        let said = declaration.check(&vec![vec![2, 3, 32, 48], vec![1]]).unwrap_err().to_string();
        assert!(said.ends_with("with open of 2 as elsewhere, got [1]"), "{said}");
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
    fn values_follow_the_shapes_of_a_request() {
        let mut declaration = text();
        declaration.inputs.push(DeclaredTensor {
            name: "count".into(),
            sizes: Some(vec![DeclaredSize::Fixed(2)]),
            element: Some(Element::I32),
        });
        let names = |name: &str| [name.to_owned()];
        assert!(declaration.may_choose_values() && declaration.choose_values(&names("count")));
        assert!(!declaration.choose_values(&names("count")), "requests do so already");
        assert!(!declaration.choose_values(&names("ids")), "its sizes are open");
        let bytes = [(-3i32).to_le_bytes(), 7i32.to_le_bytes()].concat();
        let values = declaration.value_inputs()[0].decode(&bytes);
        let shapes = vec![vec![1, 2], vec![1, 2], vec![2], values];
        let chosen = declaration.values(Some(&shapes));
        assert_eq!(chosen["count"], (vec![2], Array::I32(vec![-3, 7])));
        let said = "ids [1, 2], mask [1, 2], count [2], values [-3, 7] of count";
        assert_eq!(declaration.show(&shapes), said);
        assert_eq!(declaration.values(None)["count"].1, Array::I32(vec![0, 0]));
        assert_eq!(declaration.with_usual_values(Vec::new()), [[0, 0]]);
    }

    #[test]
    fn values_of_floats_are_their_bits() {
        let mut declaration = text();
        declaration.inputs.push(DeclaredTensor {
            name: "area".into(),
            sizes: Some(vec![DeclaredSize::Fixed(2)]),
            element: Some(Element::F32),
        });
        assert!(declaration.choose_values(&["area".to_owned()]));
        let bytes = [(-1.5f32).to_le_bytes(), 750f32.to_le_bytes()].concat();
        let values = declaration.value_inputs()[0].decode(&bytes);
        let shapes = vec![vec![1, 2], vec![1, 2], vec![2], values];
        let chosen = declaration.values(Some(&shapes));
        assert_eq!(chosen["area"], (vec![2], Array::F32(vec![-1.5, 750.0])));
        assert!(declaration.show(&shapes).ends_with("values [-1.5, 750] of area"));
        declaration.reset_values(1);
        assert!(declaration.choose_values(&["area".to_owned()]));
        assert_eq!(declaration.values(None)["area"].1, Array::F32(vec![1.0, 1.0]));
        let usual = declaration.with_usual_values(Vec::new());
        assert_eq!(
            declaration.values(Some(&[vec![vec![]; 3], usual].concat())),
            declaration.values(None)
        );
    }

    #[test]
    fn fixed_size_cannot_be_chosen() {
        let mut declaration = text();
        declaration.fix(None, None, Some(4)).unwrap();
        assert!(declaration.check(&vec![vec![4, 7], vec![4, 7]]).is_ok());
        assert!(declaration.check(&vec![vec![2, 7], vec![2, 7]]).is_err());
        assert_eq!((text().without_rows(), declaration.without_rows()), (None, Some("ids")));
    }

    #[test]
    fn sizes_that_no_input_leaves_open_are_refused() {
        let image: &[&str] = &["1", "3", "h", "w"];
        let made = || Declaration::new(&[("x", image)], &[("y", &["1", "10"])]);
        let said = |size, batch| made().fix(None, size, batch).map_err(|error| error.to_string());
        assert_eq!((said(Some(32), None), said(None, Some(1))), (Ok(()), Ok(())));
        let why = "batch: no input leaves its first size open for 4";
        assert_eq!(said(Some(32), Some(4)), Err(why.into()));
        let said = text().fix(None, Some(32), None).unwrap_err().to_string();
        assert_eq!(said, "size: no input leaves rows and columns open for 32");
        text().fix(Some(16), Some(16), Some(2)).unwrap();
    }
}
