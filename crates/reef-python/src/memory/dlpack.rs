//! Memory that libraries of the process share: DLPack, in both directions.
//!
//! *In*: capsules of other libraries. *Out*: capsules for them. *Invariant*: what a capsule keeps
//! is released once, by its last owner: the capsule until it is consumed, then the consumer.
//!
//! The structures are those of `dlpack.h`, versions 0.8 and 1.

use pyo3::ffi;
use pyo3::prelude::*;
use reef::tensor::Element;
use reef_any::MemoryLocation;
use std::any::Any;
use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

const NAME: &CStr = c"dltensor";
const USED: &CStr = c"used_dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
const USED_VERSIONED: &CStr = c"used_dltensor_versioned";

/// Version of the structures that have one. Later ones of the same major number fit.
const VERSION: [u32; 2] = [1, 0];

/// `kDLCPU`
pub(crate) const HOST: i32 = 1;
/// `kDLCUDA`
const CUDA: i32 = 2;
/// `kDLCUDAHost`
const CUDA_HOST: i32 = 3;
/// `kDLROCMHost`
const HIP_HOST: i32 = 11;

/// `DLDevice`
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Device {
    kind: i32,
    ordinal: i32,
}

impl Device {
    pub(crate) fn new(kind: i32, ordinal: i32) -> Self {
        Self { kind, ordinal }
    }

    /// `None`: no other library can use memory there.
    pub(crate) fn of(place: MemoryLocation) -> Option<Self> {
        match place {
            MemoryLocation::Host => Some(Self::new(HOST, 0)),
            MemoryLocation::Cuda(ordinal) => Some(Self::new(CUDA, ordinal.try_into().ok()?)),
            _ => None,
        }
    }

    /// As `__dlpack_device__` returns it.
    pub(crate) fn parts(self) -> (i32, i32) {
        (self.kind, self.ordinal)
    }

    /// Returns whether the host reads it as its own: pinned memory of either vendor, too.
    pub(crate) fn is_host(self) -> bool {
        matches!(self.kind, HOST | CUDA_HOST | HIP_HOST)
    }

    /// Its name for people.
    pub(crate) fn name(self) -> String {
        let kind = match self.kind {
            HOST => return "the host".into(),
            CUDA => "cuda",
            CUDA_HOST => "pinned memory of cuda",
            8 => "metal",
            10 => "hip",
            HIP_HOST => "pinned memory of hip",
            13 => "managed memory of cuda",
            14 => "oneapi",
            other => return format!("DLPack device {other}:{}", self.ordinal),
        };
        format!("{kind}:{}", self.ordinal)
    }
}

/// `DLDataType`
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

impl DataType {
    fn of(element: Element) -> Self {
        use Element::*;
        let code = match element {
            I64 | I32 | I16 | I8 => 0,
            U64 | U32 | U16 | U8 => 1,
            F64 | F32 | F16 => 2,
            BF16 => 4,
            Bool => 6,
        };
        Self { code, bits: 8 * element.bytes() as u8, lanes: 1 }
    }

    fn name(self) -> String {
        let kind = match self.code {
            0 => "int",
            1 => "uint",
            2 => "float",
            4 => "bfloat",
            5 => "complex",
            6 => return "bool".into(),
            other => return format!("DLPack type {other} of {} bits", self.bits),
        };
        let lanes = if self.lanes == 1 { String::new() } else { format!("x{}", self.lanes) };
        format!("{kind}{}{lanes}", self.bits)
    }
}

/// `DLTensor`
#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device: Device,
    ndim: i32,
    dtype: DataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// `DLManagedTensor`
#[repr(C)]
struct Managed {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

/// `DLManagedTensorVersioned`
#[repr(C)]
struct Versioned {
    version: [u32; 2],
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    tensor: Tensor,
}

/// Memory of another library, until it is dropped.
pub(crate) struct Borrowed(Owner);

enum Owner {
    Plain(NonNull<Managed>),
    Versioned(NonNull<Versioned>),
}

// SAFETY: DLPack lets any thread call a deleter, and the rest is plain values.
unsafe impl Send for Borrowed {}
// SAFETY: nothing changes them.
unsafe impl Sync for Borrowed {}

impl Borrowed {
    /// Takes what a capsule has, which is then used up.
    ///
    /// # Errors
    ///
    /// A sentence: it is not such a capsule, was used, or has a later version.
    pub(crate) fn take(capsule: &Bound<'_, PyAny>) -> Result<Self, String> {
        let raw = capsule.as_ptr();
        // SAFETY: a capsule's pointer is what its name says, by DLPack's rule for these names; the
        // new name makes this the owner.
        unsafe {
            if ffi::PyCapsule_IsValid(raw, VERSIONED.as_ptr()) != 0 {
                let found: *mut Versioned =
                    ffi::PyCapsule_GetPointer(raw, VERSIONED.as_ptr()).cast();
                let found = NonNull::new(found).ok_or("an empty capsule")?;
                let [major, minor] = (*found.as_ptr()).version;
                if major != VERSION[0] {
                    return Err(format!("DLPack must be of version 1, got {major}.{minor}"));
                }
                ffi::PyCapsule_SetName(raw, USED_VERSIONED.as_ptr());
                return Ok(Self(Owner::Versioned(found)));
            }
            if ffi::PyCapsule_IsValid(raw, NAME.as_ptr()) != 0 {
                let found: *mut Managed = ffi::PyCapsule_GetPointer(raw, NAME.as_ptr()).cast();
                let found = NonNull::new(found).ok_or("an empty capsule")?;
                ffi::PyCapsule_SetName(raw, USED.as_ptr());
                return Ok(Self(Owner::Plain(found)));
            }
        }
        let kind = capsule.get_type().name().map_or_else(|_| "?".into(), |name| name.to_string());
        Err(format!("__dlpack__ must return a capsule that was not used, got {kind}"))
    }

    fn tensor(&self) -> &Tensor {
        // SAFETY: it is there until the deleter is called, when `self` is dropped.
        unsafe {
            match self.0 {
                Owner::Plain(managed) => &(*managed.as_ptr()).tensor,
                Owner::Versioned(managed) => &(*managed.as_ptr()).tensor,
            }
        }
    }

    pub(crate) fn device(&self) -> Device {
        self.tensor().device
    }

    /// Address of its first byte.
    pub(crate) fn address(&self) -> u64 {
        (self.tensor().data as u64).wrapping_add(self.tensor().byte_offset)
    }

    /// Type and shape for people, if they are others than these. A bfloat16 may come as its bits.
    pub(crate) fn differs(&self, element: Element, dims: &[usize]) -> Option<String> {
        let (tensor, want) = (self.tensor(), DataType::of(element));
        let is_bits = element == Element::BF16 && tensor.dtype == DataType::of(Element::U16);
        let shape = self.shape();
        let is_same = shape.len() == dims.len()
            && shape.iter().zip(dims).all(|(&size, &want)| usize::try_from(size) == Ok(want));
        let fits = (tensor.dtype == want || is_bits) && is_same;
        (!fits).then(|| format!("{} {}", tensor.dtype.name(), tuple(shape)))
    }

    fn shape(&self) -> &[i64] {
        let tensor = self.tensor();
        // SAFETY: the structure has `ndim` sizes.
        unsafe { numbers(tensor.shape, tensor.ndim) }
    }

    /// Returns whether its values lie one after the other, the last dimension first.
    pub(crate) fn is_contiguous(&self) -> bool {
        let (tensor, shape) = (self.tensor(), self.shape());
        if tensor.strides.is_null() || shape.contains(&0) {
            return true;
        }
        // SAFETY: the structure has `ndim` strides, or none.
        let strides = unsafe { numbers(tensor.strides, tensor.ndim) };
        let mut want = 1;
        for (&size, &stride) in shape.iter().zip(strides).rev() {
            if size != 1 && stride != want {
                return false;
            }
            want = want.wrapping_mul(size); // the shape is compared later
        }
        true
    }
}

/// # Safety
///
/// There are `count` numbers, or `count` is not more than 0.
unsafe fn numbers<'a>(first: *const i64, count: i32) -> &'a [i64] {
    match usize::try_from(count) {
        // SAFETY: there are `count` numbers, as `numbers` demands, and the structure that has them
        // outlives the slice.
        Ok(count) if count > 0 && !first.is_null() => unsafe {
            std::slice::from_raw_parts(first, count)
        },
        _ => &[],
    }
}

/// As Python writes it.
pub(crate) fn tuple<T: ToString>(values: &[T]) -> String {
    let texts: Vec<_> = values.iter().map(T::to_string).collect();
    let end = if texts.len() == 1 { "," } else { "" };
    format!("({}{end})", texts.join(", "))
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        // SAFETY: this is the owner since `take`, and calls the deleter once.
        unsafe {
            match self.0 {
                Owner::Plain(managed) => {
                    if let Some(delete) = (*managed.as_ptr()).deleter {
                        delete(managed.as_ptr());
                    }
                }
                Owner::Versioned(managed) => {
                    if let Some(delete) = (*managed.as_ptr()).deleter {
                        delete(managed.as_ptr());
                    }
                }
            }
        }
    }
}

/// Array of this process for others.
pub(crate) struct Shared<'a> {
    pub(crate) address: u64,
    pub(crate) device: Device,
    pub(crate) element: Element,
    pub(crate) dims: &'a [usize],
    /// Owner of the memory.
    pub(crate) keep: Box<dyn Any + Send>,
}

/// Structure that a capsule points to, and what that points to.
#[repr(C)]
struct Lent<M> {
    /// First, so that its address is that of the whole.
    managed: M,
    _sizes: Box<[i64]>,
    _keep: Box<dyn Any + Send>,
}

/// Returns a capsule, which others consume once.
pub(crate) fn capsule<'py>(
    py: Python<'py>,
    shared: Shared<'_>,
    is_versioned: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let Shared { address, device, element, dims, keep } = shared;
    let mut sizes: Vec<i64> = dims.iter().map(|&size| size as i64).collect();
    let mut stride = 1;
    let strides: Vec<i64> = dims
        .iter()
        .rev()
        .map(|&size| {
            let this = stride;
            stride *= size.max(1) as i64;
            this
        })
        .collect();
    sizes.extend(strides.into_iter().rev());
    let mut sizes = sizes.into_boxed_slice();
    let shape = sizes.as_mut_ptr();
    let tensor = Tensor {
        data: address as *mut c_void,
        device,
        ndim: dims.len() as i32,
        dtype: DataType::of(element),
        shape,
        // SAFETY: there are twice as many numbers.
        strides: unsafe { shape.add(dims.len()) },
        byte_offset: 0,
    };
    if is_versioned {
        let (context, deleter) = (std::ptr::null_mut(), Some(delete_versioned as _));
        let managed = Versioned { version: VERSION, context, deleter, flags: 0, tensor };
        let lent = Box::new(Lent { managed, _sizes: sizes, _keep: keep });
        new_capsule(py, Box::into_raw(lent), VERSIONED, destroy_versioned)
    } else {
        let managed =
            Managed { tensor, context: std::ptr::null_mut(), deleter: Some(delete_plain as _) };
        let lent = Box::new(Lent { managed, _sizes: sizes, _keep: keep });
        new_capsule(py, Box::into_raw(lent), NAME, destroy_plain)
    }
}

fn new_capsule<'py, M>(
    py: Python<'py>,
    lent: *mut Lent<M>,
    name: &'static CStr,
    destroy: unsafe extern "C" fn(*mut ffi::PyObject),
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the name is static; the destructor frees what the capsule has, unless it was used. If
    // there is no capsule, it is freed here.
    unsafe {
        let capsule = ffi::PyCapsule_New(lent.cast(), name.as_ptr(), Some(destroy));
        if capsule.is_null() {
            drop(Box::from_raw(lent));
        }
        Bound::from_owned_ptr_or_err(py, capsule)
    }
}

unsafe extern "C" fn delete_plain(managed: *mut Managed) {
    // SAFETY: the consumer calls it once, with what `capsule` made.
    drop(unsafe { Box::from_raw(managed.cast::<Lent<Managed>>()) });
}

unsafe extern "C" fn delete_versioned(managed: *mut Versioned) {
    // SAFETY: the consumer calls it once, with what `capsule` made of the versioned kind.
    drop(unsafe { Box::from_raw(managed.cast::<Lent<Versioned>>()) });
}

unsafe extern "C" fn destroy_plain(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls it once, with the capsule; under its first name it was not consumed.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, NAME.as_ptr()) != 0 {
            delete_plain(ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr()).cast());
        }
    }
}

unsafe extern "C" fn destroy_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls it once, with the capsule; under its first name it was not consumed.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) != 0 {
            delete_versioned(ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast());
        }
    }
}
