//! The constants of networks on a device.

use crate::errors::error::{Error, Result};
use crate::model::image_model::{ImageModel, Layer};
use crate::model::tensor::Source;
use crate::tensors::model::TensorModel;
use crate::tensors::step::TensorStep;
use reef_op::tensor::{Array, Eight, Kind};
use reef_op::{Conv2d, Op, Operators, PackedInput};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

/// The constants of a network, packed for a device; any number of instances share them.
#[derive(Debug)]
pub(crate) struct PackedWeights<D: Operators> {
    /// For each step, unless it has none.
    pub(super) constants: Vec<Option<D::Buffer>>,
}

impl<D: Operators> PackedWeights<D> {
    /// Brings all weights of `model` onto the device, one step at a time.
    ///
    /// # Errors
    ///
    /// Returns the errors of `source` and of [`Operators::pack`].
    pub(crate) fn pack(device: &D, model: &ImageModel, source: &impl Source) -> Result<Arc<Self>> {
        let pack = |layer: &Layer| {
            if layer.op.constants() == [0, 0] {
                return Ok(None);
            }
            let (weights, bias) = layer.fold(source)?;
            Ok(Some(device.pack(&layer.op, &weights, &bias)?))
        };
        let constants = model.layers().iter().map(pack).collect::<Result<_>>()?;
        Ok(Arc::new(Self { constants }))
    }
}

/// The constants of a network of tensors on a device; any number of instances share them.
#[derive(Debug)]
pub(crate) struct TensorWeights<D: Operators> {
    /// By the number of their storage, which grows.
    kept: Vec<DeviceConstant<D>>,
    /// Bytes of those that no other network has.
    own: usize,
}

/// A constant, in the forms that its readers want.
#[derive(Debug)]
struct DeviceConstant<D: Operators> {
    storage: usize,
    bytes: usize,
    digest: u64,
    plain: Option<D::Buffer>,
    packed: Vec<(PackedInput, D::Buffer)>,
    eights: Vec<PackedEight<D>>,
}

/// Weights and bias of a convolution between numbers of 8 bits, packed.
#[derive(Debug)]
struct PackedEight<D: Operators> {
    form: EightForm,
    /// Number of the bytes of the other constants, and a digest of them.
    bytes: usize,
    digest: u64,
    buffer: D::Buffer,
}

/// A convolution between numbers of 8 bits that takes weights with a bias.
#[derive(Debug, Clone, PartialEq)]
struct EightForm {
    /// Over one window: packed weights serve images of all sizes.
    eight: Eight,
    /// Storages of the bias and of factors, as the operation has them.
    others: Vec<usize>,
}

impl EightForm {
    /// Of the convolution that a step is, if it is one.
    fn of(step: &TensorStep) -> Option<Self> {
        let Kind::Eight(eight) = &step.op.kind else { return None };
        let ([_, channels, ..], [outputs, ..], [rows, columns]) =
            (eight.shape, eight.over, eight.size);
        let (shape, over) = ([1, channels, rows, columns], [outputs, 1, 1]);
        let eight = Eight { shape, over, stride: [1; 2], padding: [0; 2], ..*eight };
        Some(Self { eight, others: step.reads[2..].to_vec() })
    }
}

impl<D: Operators> TensorWeights<D> {
    /// Brings all constants of `model` onto the device, but those that `base` has already: the same
    /// network for other shapes differs in few.
    ///
    /// # Errors
    ///
    /// Returns an error of the device.
    pub(crate) fn upload(
        device: &D,
        model: &TensorModel,
        base: Option<&Self>,
    ) -> Result<Arc<Self>> {
        let forms = forms(device, model);
        let mut weights = Self { kept: Vec::with_capacity(model.constants.len()), own: 0 };
        for (storage, constant) in &model.constants {
            let plain = Form { plain: true, ..Form::default() };
            let form = forms.get(storage).unwrap_or(&plain);
            let array = constant.array();
            let mut kept = weights.bring(device, &array, form, base)?;
            for form in &form.eights {
                let there = base.and_then(|base| base.alike(&kept));
                let others = form.others.iter().map(|&storage| constant_of(model, storage));
                let others = others.collect::<Result<Vec<_>>>()?;
                let constants: Vec<&Array> = [&*array].into_iter().chain(&others).collect();
                kept.eights.push(weights.bring_eight(device, &constants, form, there)?);
            }
            weights.kept.push(DeviceConstant { storage: *storage, ..kept });
        }
        Ok(Arc::new(weights))
    }

    /// Brings a constant onto the device, in some forms.
    fn bring(
        &mut self,
        device: &D,
        array: &Array,
        form: &Form,
        base: Option<&Self>,
    ) -> Result<DeviceConstant<D>> {
        let values = array.to_le_bytes();
        let (bytes, digest) = (values.len(), digest(&values));
        let (packed, eights) = (Vec::new(), Vec::new());
        let mut made = DeviceConstant { storage: 0, bytes, digest, plain: None, packed, eights };
        let there = base.and_then(|base| base.alike(&made));
        if form.plain {
            made.plain = match there.and_then(|kept| kept.plain.as_ref()) {
                Some(there) if read(device, there, bytes)? == values => Some(there.clone()),
                _ => {
                    self.own += bytes;
                    let buffer = device.alloc(bytes.max(1))?;
                    device.write(&buffer, 0, &values)?;
                    Some(buffer)
                }
            };
        }
        for packed in &form.packed {
            let Array::F32(singles) = array else { continue }; // what is packed is of singles
            let mut buffer = device.pack_input(packed, singles)?;
            self.own += packed.bytes;
            let there = there.and_then(|kept| kept.packed(packed));
            if let Some(there) = there
                && read(device, there, packed.bytes)? == read(device, &buffer, packed.bytes)?
            {
                self.own -= packed.bytes;
                buffer = there.clone();
            }
            made.packed.push((*packed, buffer));
        }
        Ok(made)
    }

    /// Brings weights and a bias onto the device, as its kernels of 8 bits take them.
    fn bring_eight(
        &mut self,
        device: &D,
        constants: &[&Array],
        form: &EightForm,
        there: Option<&DeviceConstant<D>>,
    ) -> Result<PackedEight<D>> {
        let others: Vec<u8> = constants[1..].iter().flat_map(|array| array.to_le_bytes()).collect();
        let (form, bytes, digest) = (form.clone(), others.len(), digest(&others));
        let alike = |known: &&PackedEight<D>| {
            known.form.eight == form.eight && (known.bytes, known.digest) == (bytes, digest)
        };
        // Its bytes are the device's own, and so is their number: digests have to do.
        if let Some(there) = there.and_then(|there| there.eights.iter().find(alike)) {
            let buffer = there.buffer.clone();
            return Ok(PackedEight { form, bytes, digest, buffer });
        }
        let values = form.eight.values(constants).zip(Conv2d::of_eight(&form.eight));
        let Some(([weights, bias], conv)) = values else {
            let why = format!("constants: cannot be those of {:?}", form.eight);
            return Err(Error::Tensor { why });
        };
        let moved = form.eight.moved_bias(&weights, &bias);
        let buffer = device.pack(&Op::Conv2d(conv), &weights, &moved)?;
        self.own += weights.len() + 2 * moved.len() * size_of::<f32>();
        Ok(PackedEight { form, bytes, digest, buffer })
    }

    /// The constant with the same bytes, if there is one.
    fn alike(&self, other: &DeviceConstant<D>) -> Option<&DeviceConstant<D>> {
        let is =
            |kept: &&DeviceConstant<D>| (kept.bytes, kept.digest) == (other.bytes, other.digest);
        self.kept.iter().find(is)
    }

    /// Bytes that were allocated for it alone.
    pub(crate) fn own_bytes(&self) -> usize {
        self.own
    }

    fn find(&self, storage: usize) -> Option<&DeviceConstant<D>> {
        let at = self.kept.binary_search_by_key(&storage, |kept| kept.storage);
        at.ok().map(|at| &self.kept[at])
    }

    /// The memory of a storage, if it is a constant.
    pub(super) fn buffer(&self, storage: usize) -> Option<&D::Buffer> {
        self.find(storage)?.plain.as_ref()
    }

    /// The packed form of weights with their bias, if a step convolves numbers of 8 bits.
    pub(super) fn eight(&self, step: &TensorStep) -> Option<&D::Buffer> {
        let form = EightForm::of(step)?;
        let known = self.find(step.reads[1])?.eights.iter().find(|known| known.form == form)?;
        Some(&known.buffer)
    }

    /// The packed form of a storage, if it is a constant.
    pub(super) fn packed(&self, storage: usize, packed: &PackedInput) -> Option<&D::Buffer> {
        self.find(storage)?.packed(packed)
    }
}

impl<D: Operators> DeviceConstant<D> {
    fn packed(&self, packed: &PackedInput) -> Option<&D::Buffer> {
        self.packed.iter().find(|(known, _)| known == packed).map(|(_, buffer)| buffer)
    }
}

/// Forms in which the readers of a constant take it.
#[derive(Default)]
struct Form {
    plain: bool,
    packed: Vec<PackedInput>,
    eights: Vec<EightForm>,
}

/// Forms in which the steps of `model` on a device take constants.
fn forms<D: Operators>(device: &D, model: &TensorModel) -> HashMap<usize, Form> {
    let mut forms: HashMap<usize, Form> = HashMap::new();
    for step in model.steps_on(device) {
        let packed = device.packed_input(&step.op);
        for (k, &read) in step.reads.iter().enumerate() {
            let form = forms.entry(read).or_default();
            match (EightForm::of(&step), packed.filter(|packed| packed.input == k)) {
                (Some(own), _) if k == 1 => {
                    if !form.eights.contains(&own) {
                        form.eights.push(own);
                    }
                }
                (_, Some(packed)) if form.packed.contains(&packed) => {}
                (_, Some(packed)) => form.packed.push(packed),
                (_, None) => form.plain = true,
            }
        }
    }
    forms
}

/// Values of a constant.
fn constant_of(model: &TensorModel, storage: usize) -> Result<Array> {
    match model.constants.binary_search_by_key(&storage, |(at, _)| *at) {
        Ok(at) => Ok(model.constants[at].1.array().into_owned()),
        Err(_) => Err(Error::Tensor { why: format!("storage {storage}: must be a constant") }),
    }
}

/// Content of a buffer.
fn read<D: Operators>(device: &D, buffer: &D::Buffer, bytes: usize) -> Result<Vec<u8>> {
    let mut there = vec![0; bytes];
    device.read(buffer, 0, &mut there)?;
    Ok(there)
}

fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}
