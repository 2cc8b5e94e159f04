//! The constants of networks on a device.

use crate::errors::error::Result;
use crate::model::image_model::{ImageModel, Layer};
use crate::model::tensor::Source;
use crate::tensors::model::TensorModel;
use reef_op::tensor::Array;
use reef_op::{Operators, PackedInput};
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
            let plain = Form { plain: true, packed: Vec::new() };
            let form = forms.get(storage).unwrap_or(&plain);
            let kept = weights.bring(device, &constant.array(), form, base)?;
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
        let alike = |kept: &&DeviceConstant<D>| (kept.bytes, kept.digest) == (bytes, digest);
        let there = base.and_then(|base| base.kept.iter().find(alike));
        let mut made =
            DeviceConstant { storage: 0, bytes, digest, plain: None, packed: Vec::new() };
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
struct Form {
    plain: bool,
    packed: Vec<PackedInput>,
}

/// Forms in which the steps of `model` on a device take constants.
fn forms<D: Operators>(device: &D, model: &TensorModel) -> HashMap<usize, Form> {
    let mut forms: HashMap<usize, Form> = HashMap::new();
    for step in model.steps_on(device) {
        let packed = device.packed_input(&step.op);
        for (k, &read) in step.reads.iter().enumerate() {
            let empty = || Form { plain: false, packed: Vec::new() };
            let form = forms.entry(read).or_insert_with(empty);
            match packed.filter(|packed| packed.input == k) {
                Some(packed) if form.packed.contains(&packed) => {}
                Some(packed) => form.packed.push(packed),
                None => form.plain = true,
            }
        }
    }
    forms
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
