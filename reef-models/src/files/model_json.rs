//! Networks as files: `model.json`.
//!
//! The file has the form of REEF's `MODEL.json` (`storage`, `kernels`, `args`, `shared_memory`),
//! but a kernel has an operation instead of a geometry, and names the tensors of its constants:
//!
//! ```json
//! {"name": "conv1", "op": {"conv2d": {…}}, "args": [0, 1],
//!  "constants": {"conv": {"name": "conv1",
//!                         "norm": {"name": "bn1", "epsilon": 1e-5, "ends_branch": false}}}}
//! ```
//!
//! `ports` has the names of the image and the logits, if they aren't `input` and `logits`, and
//! `sizes` what a file has in place of batch, channels, rows and columns, and of batch and classes.
//!
//! The arguments are the input, the residual or factor if there is one, and the storage that is
//! written.

use super::json;
use super::op_json::OpEntry;
use super::schedule_json::{File, KernelEntry, StorageEntry};
use crate::errors::error::{Error, Result};
use crate::graph::problem::{Fault, Problem};
use crate::graph::schedule::{ScheduleGraph, Storage, Work};
use crate::model::image_model::{ImageModel, Layer};
use crate::model::tensor::Constants;

impl ImageModel {
    /// The text that [`from_json`](Self::from_json) reads, a line for each storage and each kernel.
    ///
    /// # Errors
    ///
    /// None that a network can cause.
    pub fn to_json(&self) -> Result<String> {
        let graph = self.graph();
        let storages = graph.storages.iter().map(storage_entry);
        let kernels = graph.steps.iter().zip(self.layers()).map(|(step, layer)| KernelEntry {
            name: step.name.clone(),
            launch_params: None,
            op: Some(OpEntry(layer.op)),
            constants: Some(layer.constants.clone()).filter(|c| *c != Constants::None),
            args: step.touches().collect(),
        });
        let (storages, kernels) = (lines(storages)?, lines(kernels)?);
        let args = text(&graph.given)?;
        let mut ports = match self.file_ports() {
            Some(ports) => {
                format!("\"ports\": {},\n", text(&ports.each_ref().map(|name| &**name))?)
            }
            None => String::new(),
        };
        if let Some(sizes) = self.file_sizes() {
            ports += &format!("\"sizes\": {},\n", text(sizes)?);
        }
        Ok(format!(
            "{{\n{ports}\"storage\": [\n{storages}\n],\n\"kernels\": [\n{kernels}\n],\n\"args\": {args},\n\
             \"shared_memory\": {{}}\n}}\n"
        ))
    }

    /// Parses the text of a `model.json` and checks that it describes a network; `name` names the
    /// network and the file.
    ///
    /// # Errors
    ///
    /// `Json` if it can't be parsed, `Graph` if it is not a network.
    pub fn from_json(text: &str, name: &str) -> Result<Self> {
        let fault = |(at, problem)| Error::Graph { file: name.into(), at, problem };
        let mut file = json::parse::<File>(text, name)?;
        let (constants, ports, sizes) =
            (file.take_constants(), file.ports.take(), file.sizes.take());
        let graph = file.graph(name).map_err(fault)?;
        graph.validate().map_err(fault)?;
        let model = Self::of(graph, constants).map_err(fault)?;
        model.check().map_err(fault)?;
        let model = match ports {
            Some(ports) => model.with_ports(ports.map(Into::into)),
            None => model,
        };
        let Some(sizes) = sizes else { return Ok(model) };
        let wanted = [model.input().elements(), model.output().elements()];
        let product = |sizes: &Vec<usize>| {
            sizes.iter().try_fold(1usize, |product, &size| product.checked_mul(size))
        };
        if sizes.each_ref().map(product) != wanted.map(Some) {
            let why = format!("sizes {sizes:?} of {wanted:?} elements");
            return Err(Error::Json { file: name.into(), why });
        }
        Ok(model.with_sizes(sizes))
    }

    /// A layer for each step, which must all be operations.
    fn of(graph: ScheduleGraph, constants: Vec<Option<Constants>>) -> Result<Self, Fault> {
        let layer = |(k, constants): (usize, Option<Constants>)| match graph.steps[k].work {
            Work::Op(op) => {
                let constants = constants.unwrap_or(Constants::None);
                let wants = op.has_constants(); // its shapes are not checked yet
                let layer = Layer { op, constants };
                if wants == (layer.constants != Constants::None) && layer.constants.fit(&op) {
                    Ok(layer)
                } else {
                    Err((format!("kernels[{k}].constants"), Problem::Constants))
                }
            }
            Work::Kernel(_) => Err((format!("kernels[{k}].op"), Problem::NoOp)),
        };
        let layers = constants.into_iter().enumerate().map(layer).collect::<Result<_, _>>()?;
        Ok(Self::new(graph, layers))
    }
}

impl Constants {
    /// Returns whether `op` can take them.
    fn fit(&self, op: &reef_op::Op) -> bool {
        use reef_op::Op;
        match self {
            Self::None | Self::Biased { .. } => true,
            Self::Conv { .. } => matches!(op, Op::Conv2d(_)),
            Self::Norm(_) => matches!(op, Op::ScaleShift(_)),
        }
    }
}

fn storage_entry(storage: &Storage) -> StorageEntry {
    StorageEntry {
        name: storage.name.clone(),
        size: storage.elements,
        stype: storage.element.name().into(),
    }
}

fn lines(entries: impl Iterator<Item = impl serde::Serialize>) -> Result<String> {
    Ok(entries.map(|entry| text(&entry)).collect::<Result<Vec<_>>>()?.join(",\n"))
}

fn text(entry: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(entry)
        .map_err(|error| Error::Json { file: "model".into(), why: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zoo::by_name::{NAMES, build};

    #[test]
    fn every_network_comes_back_from_its_text() {
        for name in NAMES {
            let model = build(name, None, 2).unwrap();
            let text = model.to_json().unwrap();
            assert_eq!(ImageModel::from_json(&text, name).unwrap(), model);
            assert_eq!(ScheduleGraph::from_json(&text, name).unwrap(), *model.graph());
        }
    }

    #[test]
    fn sizes_of_ports_come_back_and_have_all_elements() {
        let model = build("resnet18", Some(32), 1).unwrap();
        let model = model.with_sizes([vec![1, 3, 32, 32], vec![1000]]);
        let text = model.to_json().unwrap();
        let read = ImageModel::from_json(&text, "resnet18").unwrap();
        assert_eq!(read.output_port().spec.dims, [1000]);
        assert_eq!(read.input_port().spec.dims, [1, 3, 32, 32]);
        for wrong in ["[999]", "[0]", "[18446744073709551615,18446744073709551615]"] {
            let bad = text.replacen("[1000]]", &format!("{wrong}]"), 1);
            let said = ImageModel::from_json(&bad, "bad.json").unwrap_err().to_string();
            assert!(said.contains("of [3072, 1000] elements"), "{said}");
        }
    }

    #[test]
    fn a_network_that_contradicts_itself_is_refused() {
        let text = build("resnet18", Some(32), 1).unwrap().to_json().unwrap();
        let say = |from: &str, to: &str| {
            assert!(text.contains(from), "{from}");
            ImageModel::from_json(&text.replacen(from, to, 1), "bad.json").unwrap_err().to_string()
        };
        let at = "bad.json: kernels[0].op: ";
        let error = say("\"stride\":[2,2]", "\"stride\":[0,2]");
        assert!(
            error.starts_with(&format!("{at}Window {{ size: [7, 7], stride: [0, 2]")),
            "{error}"
        );
        let error = say("\"stride\":[2,2]", "\"stride\":[1,1]");
        assert_eq!(error, format!("{at}[16, 16] rows and columns, the window gives [32, 32]"));
        let error = say("\"groups\":1", "\"groups\":2");
        assert_eq!(error, format!("{at}3 and 64 channels in 2 groups"));
        let error = say("\"residual\":true", "\"residual\":false");
        assert!(error.ends_with(".op: 2 storages are read"), "{error}");
        let error = say("\"first\":0", "\"first\":1");
        assert!(error.contains("is out of range"), "{error}");
        let error = say("\"layout\":\"nchw\"", "\"layout\":\"native\"");
        assert_eq!(error, format!("{at}the first step reads the whole input, which is row-major"));
        let error = say("\"pool2d\"", "\"pool3d\"");
        assert!(error.contains("kernels[1].op: unknown variant `pool3d`"), "{error}");
        let error = say("{\"linear\":", "{\"scale_shift\":");
        assert!(error.ends_with("channels become 1000"), "{error}");
        let error = say("\"epsilon\":", "\"epsilon\":-");
        let epsilon = "epsilon must be a finite number of at least 0, got -0.00001";
        assert_eq!(error, format!("bad.json: kernels[0].constants: {epsilon}"));
        let error = say("\"biased\":{\"name\":\"fc\"}", "\"conv\":{\"name\":\"fc\",\"norm\":null}");
        assert!(error.ends_with("constants: are of another kind of operation"), "{error}");
    }
}
