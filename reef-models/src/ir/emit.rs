//! Makes a schedule of a network whose operations have been fused.
//!
//! Devices take the input as it comes (plane after plane) in dense convolutions alone, and want the
//! residual of a convolution laid out like its output. Where a network wants something else, a copy
//! is put in between: a mean over windows of one pixel.

use super::place::Homes;
use super::value::{Affine, Conv, Id, MAX_NAME_LEN, Make, Net, POINT, Value};
use crate::memory::budget::Exhausted;
use crate::memory::ledger::Ledger;
use crate::memory::list::List;
use crate::model::builder::{self, Builder};
use crate::model::image_model::ImageModel;
use crate::model::params::Params;
use crate::model::tensor::Constants;
use reef_op::{
    Activate, Conv2d, Function, Layout, Linear, Multiply, Op, Pool2d, PoolKind, ScaleShift, Window,
};
use std::borrow::Cow;
use std::collections::HashMap;

/// Names with another meaning in storages and in REEF's files.
const RESERVED: [&str; 5] = ["data", "output", "null", "temp", "temp_arg"];

impl Net {
    /// The schedule up to `output`, which has one row and one column, and the weights of its steps.
    pub(crate) fn emit(
        mut self,
        name: &str,
        output: Id,
        ledger: &Ledger,
    ) -> Result<(ImageModel, Params), Exhausted> {
        let homes = self.homes(output);
        let weights = self.take_weights();
        let batch = self.values[output].shape[0];
        let mut emitter = Emitter {
            builder: Builder::with_room(name, batch, output + 1),
            net: &self,
            ledger,
            weights,
            output,
            homes,
            storages: HashMap::new(),
            made: Vec::with_capacity(output + 1),
            native: HashMap::new(),
            whole: HashMap::new(),
            names: HashMap::with_capacity(output + 1 + RESERVED.len()),
            params: Vec::with_capacity(2 * (output + 1)),
        };
        emitter.names.extend(RESERVED.map(|name| (name.into(), 1)));
        for id in 0..=output {
            let made = emitter.value(id)?;
            emitter.made.push(made);
        }
        Ok(emitter.finish())
    }
}

impl Net {
    /// Weights and bias of each value, empty if it is not a convolution.
    fn take_weights(&mut self) -> Vec<[List<f32>; 2]> {
        let take = |value: &mut Value| match &mut value.make {
            Make::Conv(conv) => [&mut conv.weights, &mut conv.bias].map(std::mem::take),
            _ => Default::default(),
        };
        self.values.iter_mut().map(take).collect()
    }
}

struct Emitter<'a> {
    builder: Builder,
    net: &'a Net,
    ledger: &'a Ledger,
    /// Of convolutions that have not been emitted yet: weights go over into the parameters without
    /// a copy.
    weights: Vec<[List<f32>; 2]>,
    output: Id,
    homes: Homes,
    /// Of concatenations.
    storages: HashMap<Id, builder::Value>,
    /// Place of each value that has been made so far.
    made: Vec<builder::Value>,
    /// Copies of the input in the native layout.
    native: HashMap<Id, builder::Value>,
    /// Copies of values that are part of a wider storage.
    whole: HashMap<Id, builder::Value>,
    /// Names that are taken, and how often each was wanted.
    names: HashMap<Cow<'a, str>, usize>,
    /// Tensors by name, in the order of the steps: where that is the order of names, to sort them
    /// takes no time.
    params: Vec<(String, Vec<f32>)>,
}

impl<'a> Emitter<'a> {
    fn value(&mut self, id: Id) -> Result<builder::Value, Exhausted> {
        let net = self.net;
        Ok(match &net.values[id].make {
            Make::Input => {
                let [_, channels, height, width] = net.values[id].shape;
                self.builder.add_input(channels, [height, width])
            }
            Make::Conv(conv) => self.conv(id, conv)?,
            Make::Affine(affine) => self.affine(id, affine)?,
            Make::Pool { x, kind, window } => {
                let (input, name) = (self.native(*x)?, self.name(&*net.values[id].name));
                let output = self.target(id, &name);
                self.pool(name, input, *kind, *window, output)
            }
            Make::Concat { parts } => self.concat(id, parts)?,
            Make::Activate { x, function } => self.activate(id, *x, *function)?,
            Make::Multiply { x, factor } => self.multiply(id, *x, *factor)?,
            Make::Relu { .. } | Make::Add { .. } => unreachable!("fused before"),
        })
    }

    fn conv(&mut self, id: Id, conv: &Conv) -> Result<builder::Value, Exhausted> {
        let input = if conv.groups == 1 { self.made[conv.x] } else { self.native(conv.x)? };
        let residual = conv.residual.map(|id| self.whole(id)).transpose()?;
        let name = self.name(&*self.net.values[id].name);
        let output = self.target(id, &name);
        let (from, to) = (input.tensor, output.tensor);
        let one_pixel = [from.height, from.width] == [1, 1] && conv.window == POINT;
        let op = if one_pixel && conv.groups == 1 && residual.is_none() {
            Op::Linear(Linear { input: from, output: to, relu: conv.relu, function: conv.function })
        } else {
            Op::Conv2d(Conv2d {
                input: from,
                output: to,
                window: conv.window,
                groups: conv.groups,
                residual: residual.is_some(),
                relu: conv.relu,
                function: conv.function,
            })
        };
        let [weights, bias] = std::mem::take(&mut self.weights[id]);
        let constants = self.keep(&name, weights, bias);
        let reads: Vec<_> = [input].into_iter().chain(residual).collect();
        Ok(self.builder.step(name, &reads, output, op, constants))
    }

    fn affine(&mut self, id: Id, affine: &Affine) -> Result<builder::Value, Exhausted> {
        let (input, name) = (self.native(affine.x)?, self.name(&*self.net.values[id].name));
        let output = self.target(id, &name);
        let op = ScaleShift { input: input.tensor, output: output.tensor, relu: affine.relu };
        let floats = |values: &[f64]| {
            let values = values.iter().map(|&value| value as f32);
            List::of(values.len(), values, self.ledger)
        };
        let (scale, shift) = (floats(&affine.scale)?, floats(&affine.shift)?);
        let constants = self.keep(&name, scale, shift);
        Ok(self.builder.step(name, &[input], output, Op::ScaleShift(op), constants))
    }

    fn activate(&mut self, id: Id, x: Id, function: Function) -> Result<builder::Value, Exhausted> {
        let (input, name) = (self.native(x)?, self.name(&*self.net.values[id].name));
        let output = self.target(id, &name);
        let op = Activate { input: input.tensor, output: output.tensor, function };
        Ok(self.builder.step(name, &[input], output, Op::Activate(op), Constants::None))
    }

    fn multiply(&mut self, id: Id, x: Id, factor: Id) -> Result<builder::Value, Exhausted> {
        let (input, factor) = (self.native(x)?, self.native(factor)?);
        let name = self.name(&*self.net.values[id].name);
        let output = self.target(id, &name);
        let op = Multiply { input: input.tensor, factor: factor.tensor, output: output.tensor };
        Ok(self.builder.step(name, &[input, factor], output, Op::Multiply(op), Constants::None))
    }

    /// Copies those parts that are not where this concatenation wants them.
    fn concat(&mut self, id: Id, parts: &[Id]) -> Result<builder::Value, Exhausted> {
        let net = self.net;
        let at = self.home(id);
        let mut first = 0;
        for &part in parts {
            let Value { name, shape: [_, channels, ..], .. } = &net.values[part];
            let wanted = at.part(first, *channels);
            if self.made[part] != wanted {
                let is_in_place = self.made[part].is_in_storage_of(&wanted);
                let input = if is_in_place { self.whole(part)? } else { self.native(part)? };
                self.copy(format!("{name}/copy"), input, wanted);
            }
            first += channels;
        }
        Ok(at)
    }

    /// Place in which value `id` belongs.
    fn target(&mut self, id: Id, name: &str) -> builder::Value {
        let [_, channels, height, width] = self.net.values[id].shape;
        if self.homes[id].is_some() {
            return self.home(id);
        }
        if self.is_output_itself(id) {
            return self.builder.storage("output", Layout::Nchw, channels, [height, width]);
        }
        self.builder.storage(name, Layout::Native, channels, [height, width])
    }

    /// The place of `id` in the storage of a concatenation.
    fn home(&mut self, id: Id) -> builder::Value {
        let net = self.net;
        let Some(home) = self.homes[id] else { unreachable!("asked for values that have one") };
        let storage = match self.storages.get(&home.concat) {
            Some(storage) => *storage,
            None => {
                let Value { name, shape: [_, channels, height, width], .. } =
                    &net.values[home.concat];
                let name = self.name(&**name);
                let size = [*height, *width];
                let storage = self.builder.storage(&name, Layout::Native, *channels, size);
                self.storages.insert(home.concat, storage);
                storage
            }
        };
        storage.part(home.first, net.values[id].shape[1])
    }

    /// Returns whether the step that makes `id` can write the output. A residual would have to be
    /// laid out like it.
    fn is_output_itself(&self, id: Id) -> bool {
        let has_residual =
            matches!(&self.net.values[id].make, Make::Conv(conv) if conv.residual.is_some());
        id == self.output && !has_residual
    }

    /// Value `id`, pixel after pixel if it has several.
    fn native(&mut self, id: Id) -> Result<builder::Value, Exhausted> {
        let value = self.made[id];
        let [_, channels, height, width] = self.net.values[id].shape;
        if value.tensor.layout == Layout::Native || height * width == 1 {
            return Ok(value);
        }
        if let Some(&native) = self.native.get(&id) {
            return Ok(native);
        }
        let name = self.name("data/native");
        let to = self.builder.storage(&name, Layout::Native, channels, [height, width]);
        let same = Conv::identity(id, channels, self.ledger)?;
        let Conv { weights, bias, window, groups, .. } = same;
        let (input, output) = (value.tensor, to.tensor);
        let (residual, relu, function) = (false, false, None);
        let op = Conv2d { input, output, window, groups, residual, relu, function };
        let constants = self.keep(&name, weights, bias);
        self.builder.step(name, &[value], to, Op::Conv2d(op), constants);
        self.native.insert(id, to);
        Ok(to)
    }

    /// Value `id` in a native storage of its own.
    fn whole(&mut self, id: Id) -> Result<builder::Value, Exhausted> {
        let value = self.native(id)?;
        if value.is_whole() && value.tensor.layout == Layout::Native {
            return Ok(value);
        }
        if let Some(&whole) = self.whole.get(&id) {
            return Ok(whole);
        }
        let Value { name, shape: [_, channels, height, width], .. } = &self.net.values[id];
        let storage = self.name(format!("{name}/whole"));
        let to = self.builder.storage(&storage, Layout::Native, *channels, [*height, *width]);
        self.copy(format!("{name}/copy"), value, to);
        self.whole.insert(id, to);
        Ok(to)
    }

    fn copy(
        &mut self,
        name: impl Into<Cow<'a, str>>,
        from: builder::Value,
        to: builder::Value,
    ) -> builder::Value {
        let name = self.name(name);
        self.pool(name, from, PoolKind::Average, POINT, to)
    }

    fn pool(
        &mut self,
        name: String,
        from: builder::Value,
        kind: PoolKind,
        window: Window,
        to: builder::Value,
    ) -> builder::Value {
        let op = Pool2d { kind, input: from.tensor, output: to.tensor, window };
        self.builder.step(name, &[from], to, Op::Pool2d(op), Constants::None)
    }

    /// Keeps the constants of step `name`.
    fn keep(&mut self, name: &str, weights: List<f32>, bias: List<f32>) -> Constants {
        self.params.push((format!("{name}.bias"), bias.into_vec()));
        self.params.push((format!("{name}.weight"), weights.into_vec()));
        Constants::Biased { name: name.into() }
    }

    /// A name like `wanted` that nothing else has.
    fn name(&mut self, wanted: impl Into<Cow<'a, str>>) -> String {
        let wanted = valid(wanted.into());
        let Some(mut times) = self.names.get(&wanted).copied() else {
            let name = wanted.clone().into_owned();
            self.names.insert(wanted, 1);
            return name;
        };
        let name = loop {
            times += 1;
            let name = format!("{wanted}#{times}");
            if !self.names.contains_key(name.as_str()) {
                break name;
            }
        };
        self.names.insert(wanted, times);
        self.names.insert(name.clone().into(), 1);
        name
    }

    fn finish(mut self) -> (ImageModel, Params) {
        let made = self.made[self.output];
        if !self.builder.ends_with_output() {
            let [_, channels, ..] = self.net.values[self.output].shape;
            let to = self.builder.storage("output", Layout::Nchw, channels, [1; 2]);
            self.copy("output/copy", made, to);
        }
        (self.builder.done(), Params { tensors: self.params.into_iter().collect() })
    }
}

/// `wanted` as names may be: not empty, not too long, without zeros.
fn valid(wanted: Cow<'_, str>) -> Cow<'_, str> {
    if wanted.is_empty() {
        return "step".into();
    }
    if wanted.len() <= MAX_NAME_LEN && !wanted.contains('\0') {
        return wanted;
    }
    wanted[..wanted.floor_char_boundary(MAX_NAME_LEN)].replace('\0', "0").into()
}
