//! Composes networks: a [`Builder`] appends one layer after the other and keeps track of shapes.
//!
//! Concatenation costs nothing: a [`Concat`] is a storage of its own, and each branch writes into
//! its range of channels. Normalisation, residual and activation go into the convolution before
//! them.

use super::image_model::{ImageModel, Layer};
use super::tensor::{Constants, Norm};
use crate::graph::schedule::{ScheduleGraph, Step, Storage, Work};
use reef_op::{Conv2d, Function, Layout, Linear, Op, Pool2d, PoolKind, ScaleShift, Tensor, Window};

/// A tensor and the storage it lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Value {
    storage: usize,
    pub(crate) tensor: Tensor,
}

impl Value {
    pub(crate) fn channels(&self) -> usize {
        self.tensor.channels
    }

    /// Rows and columns that `window` makes of this.
    pub(crate) fn under(&self, window: Window) -> [usize; 2] {
        window.over([self.tensor.height, self.tensor.width])
    }

    /// Returns whether it fills its storage.
    #[cfg(feature = "onnx")]
    pub(crate) fn is_whole(&self) -> bool {
        self.tensor.channels == self.tensor.of
    }

    #[cfg(feature = "onnx")]
    pub(crate) fn is_in_storage_of(&self, other: &Self) -> bool {
        self.storage == other.storage
    }

    /// Some of its channels.
    pub(crate) fn part(&self, first: usize, channels: usize) -> Self {
        let tensor = self.tensor.channels(self.tensor.first + first, channels, self.tensor.of);
        Self { tensor, ..*self }
    }
}

/// A storage that several layers fill, one range of channels after the other.
#[derive(Debug)]
pub(crate) struct Concat {
    whole: Value,
    filled: usize,
}

impl Concat {
    /// The next `channels`, to be written by the next layer.
    pub(crate) fn next(&mut self, channels: usize) -> Value {
        self.filled += channels;
        self.whole.part(self.filled - channels, channels)
    }

    /// All channels handed out so far.
    pub(crate) fn filled(&self) -> Value {
        self.whole.part(0, self.filled)
    }
}

/// A square window.
pub(crate) fn square(size: usize, stride: usize, padding: usize) -> Window {
    Window { size: [size; 2], stride: [stride; 2], padding: [padding; 2] }
}

/// A convolution, to be completed by what follows it.
#[derive(Debug)]
pub(crate) struct Conv {
    name: String,
    channels: usize,
    window: Window,
    groups: usize,
    norm: Option<Norm>,
    biased: bool,
    residual: Option<Value>,
    relu: bool,
    function: Option<Function>,
}

impl Conv {
    pub(crate) fn new(name: impl Into<String>, channels: usize, window: Window) -> Self {
        let (norm, residual, function) = (None, None, None);
        let (groups, biased, relu) = (1, false, false);
        Self { name: name.into(), channels, window, groups, norm, biased, residual, relu, function }
    }

    /// Sets the number of groups of channels. Groups don't see each other.
    pub(crate) fn groups(self, groups: usize) -> Self {
        Self { groups, ..self }
    }

    pub(crate) fn norm(self, norm: Norm) -> Self {
        Self { norm: Some(norm), ..self }
    }

    /// With a bias, which goes instead of a normalisation.
    pub(crate) fn biased(self) -> Self {
        Self { biased: true, ..self }
    }

    pub(crate) fn add(self, residual: Value) -> Self {
        Self { residual: Some(residual), ..self }
    }

    pub(crate) fn relu(self) -> Self {
        Self { relu: true, ..self }
    }

    /// With this function of each value in the end.
    pub(crate) fn then(self, function: Function) -> Self {
        Self { function: Some(function), ..self }
    }
}

/// A network under construction.
#[derive(Debug)]
pub(crate) struct Builder {
    graph: ScheduleGraph,
    layers: Vec<Layer>,
    batch: usize,
}

impl Builder {
    pub(crate) fn new(name: &str, batch: usize) -> Self {
        Self::with_room(name, batch, 0)
    }

    /// A builder with room for about `steps` steps.
    pub(crate) fn with_room(name: &str, batch: usize, steps: usize) -> Self {
        let graph = ScheduleGraph {
            name: name.into(),
            storages: Vec::with_capacity(steps),
            steps: Vec::with_capacity(steps),
            given: Vec::new(),
        };
        Self { graph, layers: Vec::with_capacity(steps), batch }
    }

    /// The image: three channels, `size` rows and columns.
    pub(crate) fn input(&mut self, size: usize) -> Value {
        self.add_input(3, [size; 2])
    }

    /// Adds the input of the network.
    pub(crate) fn add_input(&mut self, channels: usize, size: [usize; 2]) -> Value {
        let value = self.storage("data", Layout::Nchw, channels, size);
        self.graph.given.push(value.storage);
        value
    }

    /// Returns whether the last step writes the storage called `output`.
    #[cfg(feature = "onnx")]
    pub(crate) fn ends_with_output(&self) -> bool {
        let output = self.graph.storage("output");
        self.graph.steps.last().is_some_and(|step| Some(step.writes) == output)
    }

    /// The network, whose last step wrote the storage called `output`.
    pub(crate) fn done(self) -> ImageModel {
        ImageModel::new(self.graph, self.layers)
    }

    pub(crate) fn concat(&mut self, name: &str, channels: usize, size: [usize; 2]) -> Concat {
        Concat { whole: self.storage(name, Layout::Native, channels, size), filled: 0 }
    }

    pub(crate) fn conv(&mut self, input: Value, conv: Conv) -> Value {
        let size = input.under(conv.window);
        let output = self.storage(&conv.name, Layout::Native, conv.channels, size);
        self.conv_into(input, conv, output)
    }

    pub(crate) fn conv_into(&mut self, input: Value, conv: Conv, output: Value) -> Value {
        let Conv { name, window, groups, norm, biased, residual, relu, function, .. } = conv;
        let op = Conv2d {
            input: input.tensor,
            output: output.tensor,
            window,
            groups,
            residual: residual.is_some(),
            relu,
            function,
        };
        let constants = if biased {
            Constants::Biased { name: name.clone() }
        } else {
            Constants::Conv { name: name.clone(), norm }
        };
        let reads: Vec<Value> = [input].into_iter().chain(residual).collect();
        self.step(name, &reads, output, Op::Conv2d(op), constants)
    }

    pub(crate) fn pool(
        &mut self,
        name: &str,
        input: Value,
        kind: PoolKind,
        window: Window,
    ) -> Value {
        let output = self.storage(name, Layout::Native, input.channels(), input.under(window));
        self.pool_into(name, input, kind, window, output)
    }

    pub(crate) fn pool_into(
        &mut self,
        name: &str,
        input: Value,
        kind: PoolKind,
        window: Window,
        output: Value,
    ) -> Value {
        let op = Pool2d { kind, input: input.tensor, output: output.tensor, window };
        self.step(name.into(), &[input], output, Op::Pool2d(op), Constants::None)
    }

    /// The mean of each channel.
    pub(crate) fn global_average(&mut self, name: &str, input: Value) -> Value {
        let size = [input.tensor.height, input.tensor.width];
        let window = Window { size, stride: [1; 2], padding: [0; 2] };
        self.pool(name, input, PoolKind::Average, window)
    }

    /// A normalisation that no convolution precedes, and ReLU.
    pub(crate) fn norm_relu(&mut self, input: Value, norm: Norm) -> Value {
        let size = [input.tensor.height, input.tensor.width];
        let output = self.storage(&norm.name, Layout::Native, input.channels(), size);
        let op = ScaleShift { input: input.tensor, output: output.tensor, relu: true };
        let name = norm.name.clone();
        self.step(name, &[input], output, Op::ScaleShift(op), Constants::Norm(norm))
    }

    /// A fully connected layer and ReLU.
    pub(crate) fn linear(&mut self, name: &str, input: Value, outputs: usize) -> Value {
        let output = self.storage(name, Layout::Native, outputs, [1; 2]);
        let op = Linear { input: input.tensor, output: output.tensor, relu: true, function: None };
        let constants = Constants::Biased { name: name.into() };
        self.step(name.into(), &[input], output, Op::Linear(op), constants)
    }

    /// The fully connected layer that ends the network.
    pub(crate) fn classify(mut self, name: &str, input: Value, classes: usize) -> ImageModel {
        let output = self.storage("output", Layout::Nchw, classes, [1; 2]);
        let op = Linear { input: input.tensor, output: output.tensor, relu: false, function: None };
        let constants = Constants::Biased { name: name.into() };
        self.step(name.into(), &[input], output, Op::Linear(op), constants);
        self.done()
    }

    /// A storage and the tensor that fills it.
    pub(crate) fn storage(
        &mut self,
        name: &str,
        layout: Layout,
        channels: usize,
        size: [usize; 2],
    ) -> Value {
        let tensor = Tensor::new(layout, [self.batch, channels, size[0], size[1]]);
        self.graph.storages.push(Storage::floats(name, tensor.elements()));
        Value { storage: self.graph.storages.len() - 1, tensor }
    }

    /// Appends `op`, which reads these values.
    pub(crate) fn step(
        &mut self,
        name: String,
        reads: &[Value],
        output: Value,
        op: Op,
        constants: Constants,
    ) -> Value {
        let reads = reads.iter().map(|value| value.storage).collect();
        self.graph.steps.push(Step { name, work: Work::Op(op), reads, writes: output.storage });
        self.layers.push(Layer { op, constants });
        output
    }
}
