//! Networks.

use crate::entry::args::{array_bytes, give, optional_text, place, text};
use crate::entry::record;
use crate::entry::types::{reef_device, reef_network, reef_network_info, reef_network_options};
use crate::fault::{Fault, Result};
use crate::guard::answer;
use crate::handles;
use crate::status::{REEF_UNSUPPORTED, reef_status};
use reef::models::{Model, Scales};
use reef::op::Tensor;
use reef_any::{Device, Network, Turn};
use std::ffi::c_char;
use std::{ptr, slice};

/// Loads a network onto a device: one of `reef_networks()`, an .onnx file, a folder of
/// `reef model import`, or a .safetensors file whose name begins with one of `reef_networks()`.
/// NULL options: the usual. Sizes that an .onnx file leaves open are 1, or another that works.
///
/// A network that is built by name has made-up weights unless the options name a file. Any thread.
///
/// REEF_FILE: a file can't be read, or isn't what it should be. REEF_UNSUPPORTED: an .onnx file has
/// something that the library does not read, or the device has no kernel for it.
///
/// # Safety
///
/// `what` is null or a string that ends with a zero byte; `options` is null or as large as its
/// `struct_size`, and its `weights` and `scales` as `what`; `network` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reef_network_load(
    device: *const reef_device,
    what: *const c_char,
    options: *const reef_network_options,
    network: *mut *mut reef_network,
) -> reef_status {
    answer(|| {
        place("network", network)?;
        let device = handles::get::<Device>(device.addr())?;
        // SAFETY: `what` is null or a string that ends with a zero byte, and `options` null or as
        // large as its `struct_size`: reef.h demands it of the program.
        let (what, options) = unsafe { (text("what", what)?, record::read(options)?) };
        // SAFETY: `weights` is null or a string that ends with a zero byte: reef.h demands it of
        // the program.
        let weights = unsafe { optional_text("weights", options.weights) }?;
        // SAFETY: `scales` is null or a string that ends with a zero byte: reef.h demands it of the
        // program.
        let scales = unsafe { optional_text("scales", options.scales) }?;
        let scales = scales.map(Scales::load).transpose()?;
        let model = opened(what, weights, scales.as_ref(), &options)?;
        let loaded = device.load(&model)?;
        // SAFETY: `network` is not null, as `place` has checked, and can be written: reef.h demands
        // it of the program.
        unsafe { give(loaded, network) }
    })
}

fn opened(
    what: &str,
    weights: Option<&str>,
    scales: Option<&Scales>,
    options: &reef_network_options,
) -> Result<Model> {
    record::unused("reef_network_options", options.reserved)?;
    let some = |number: u32| (number > 0).then_some(number as usize);
    let (size, batch) = (some(options.input_size), some(options.batch));
    let model = Model::open(what).input_size(size).batch(batch).seed(options.seed).scales(scales);
    let model = match weights {
        Some(file) => model.weights(file).read()?,
        None => model.read()?,
    };
    refuse_texts(&model)?;
    Ok(model)
}

/// Refuses a network whose inputs or outputs are texts: C has their places alone.
fn refuse_texts(model: &Model) -> Result<()> {
    let (inputs, outputs) = (model.inputs(), model.outputs());
    let mut ports = inputs.iter().chain(outputs.iter());
    let Some((_, port)) = ports.find(|(_, port)| port.texts.is_some()) else { return Ok(()) };
    let text = format!("{}: {} is of texts: C has numbers alone", model.name(), port.name);
    Err(Fault::new(REEF_UNSUPPORTED, text))
}

/// Makes another instance of the network: the same weights, memory of its own, so that a request of
/// each can be on its way. Any thread.
///
/// # Safety
///
/// `instance` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reef_network_new_instance(
    network: *const reef_network,
    instance: *mut *mut reef_network,
) -> reef_status {
    answer(|| {
        place("instance", instance)?;
        let made = handles::get::<Network>(network.addr())?.instance()?;
        // SAFETY: `instance` is not null, as `place` has checked, and can be written: reef.h
        // demands it of the program.
        unsafe { give(made, instance) }
    })
}

/// Frees the handle; NULL does nothing. A request that is on its way goes on. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn reef_network_free(network: *mut reef_network) -> reef_status {
    answer(|| {
        if network.is_null() {
            return Ok(());
        }
        handles::close::<Network>(network.addr()).map(drop)
    })
}

/// The shapes of a network for images. REEF_INVALID: it is one of tensors, as
/// `reef_network_get_tensor` describes them. Any thread.
///
/// # Safety
///
/// `info` is null or as large as its `struct_size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reef_network_get_info(
    network: *const reef_network,
    info: *mut reef_network_info,
) -> reef_status {
    answer(|| {
        let network = handles::get::<Network>(network.addr())?;
        let shapes = shapes(&network)?;
        // SAFETY: `info` is null or as large as its `struct_size`: reef.h demands it of the
        // program.
        unsafe { record::write(shapes, info) }
    })
}

/// Shapes of input and output, which C sees as images.
pub(crate) fn images(network: &Network) -> Result<[Tensor; 2]> {
    network.images().ok_or_else(|| {
        Fault::invalid("the network is not one of images: use reef_network_get_tensor")
    })
}

fn shapes(network: &Network) -> Result<reef_network_info> {
    let [input, output] = images(network)?;
    let number = |number: usize| {
        u32::try_from(number).map_err(|_| Fault::invalid(format!("a network with {number} rows")))
    };
    Ok(reef_network_info {
        struct_size: 0,
        batch: number(input.batch)?,
        channels: number(input.channels)?,
        height: number(input.height)?,
        width: number(input.width)?,
        reserved: 0,
        inputs: input.elements() as u64,
        outputs: output.elements() as u64,
    })
}

/// Writes the input of a network for images: all of its values. REEF_BUSY: a request is on its way.
///
/// Any thread; calls for one network wait for each other.
///
/// # Safety
///
/// `count` values at `values` can be read, or it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reef_network_write_input(
    network: *const reef_network,
    values: *const f32,
    count: usize,
) -> reef_status {
    answer(|| {
        let network = handles::get::<Network>(network.addr())?;
        // SAFETY: `count` values at `values` can be read, or it is null: reef.h demands it of the
        // program.
        unsafe { write_input(&mut Turn::wait(&network)?, values, count) }
    })
}

/// Reads the output of a network for images, of the last request that finished: all of its values.
/// REEF_BUSY: a request is on its way.
///
/// Any thread; calls for one network wait for each other.
///
/// # Safety
///
/// `count` values at `values` can be written, or it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reef_network_read_output(
    network: *const reef_network,
    values: *mut f32,
    count: usize,
) -> reef_status {
    answer(|| {
        let network = handles::get::<Network>(network.addr())?;
        // SAFETY: `count` values at `values` can be written, or it is null: reef.h demands it of
        // the program.
        unsafe { read_output(&Turn::wait(&network)?, values, count) }
    })
}

/// # Safety
///
/// Like [`reef_network_write_input`].
pub(crate) unsafe fn write_input(
    turn: &mut Turn<'_>,
    values: *const f32,
    count: usize,
) -> Result<()> {
    let bytes = array_bytes("input", values, count, images(turn.network())?[0].elements())?;
    // SAFETY: `array_bytes` has refused null, so `count` values can be read, which are `bytes`
    // bytes: `write_input` demands it. Bytes are always aligned, and any are valid.
    Ok(turn.write(0, unsafe { slice::from_raw_parts(values.cast(), bytes) })?)
}

/// # Safety
///
/// Like [`reef_network_read_output`].
pub(crate) unsafe fn read_output(turn: &Turn<'_>, values: *mut f32, count: usize) -> Result<()> {
    let bytes = array_bytes("output", values, count, images(turn.network())?[1].elements())?;
    let mut read = vec![0; bytes]; // so that C's place is left alone if it fails
    turn.read(0, &mut read)?;
    // SAFETY: `array_bytes` has refused null, so `count` values can be written, which are `bytes`
    // bytes: `read_output` demands it. `read` is as long, and memory of its own.
    unsafe { ptr::copy_nonoverlapping(read.as_ptr(), values.cast(), bytes) };
    Ok(())
}
