//! Objects with memory of their own: memory handles, pools, modules, limits of contexts, graphs.

use super::declare::{hooks, ptsz_variants, with_copy, write_through};
use crate::actions::context_memory::{create, set_limit};
use crate::actions::copy::on_device;
use crate::actions::ipc;
use crate::actions::memory::free;
use crate::actions::memory_handles::{self, AllocationProperties};
use crate::actions::memory_request::or_ask_on;
use crate::actions::modules::{load, load_file, unload_library};
use crate::actions::pools;
use crate::driver::calls::Stream;
use crate::graph_gates::backing::{backed, trim};
use crate::kernel_variants::{images, kernels};
use crate::limit::charges::Kind;
use crate::limit::exporters::IpcHandle;
use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;

hooks! {
    cuMemCreate(
        handle: usize, bytes: usize, properties: usize, flags: u64,
    ) |real(handle, properties)| write_through(handle as *mut u64, |handle| {
        with_copy(properties as *const Words, |properties| {
            let real = || real(handle as usize, properties as usize);
            let properties = properties.cast::<AllocationProperties>();
            memory_handles::create(handle, bytes, properties, || {
                or_ask_on(|| memory_handles::device_of(properties), bytes as u64, real)
            })
        })
    });
    cuMemRelease(handle: u64) |real| memory_handles::release(handle, real);
    cuMemMap(
        at: u64, bytes: usize, offset: usize, handle: u64, flags: u64,
    ) |real| memory_handles::map(at, bytes, handle, real);
    cuMemUnmap(at: u64, bytes: usize) |real| memory_handles::unmap(at, bytes, real);
    cuMemRetainAllocationHandle(
        handle: usize, at: u64,
    ) |real(handle)| write_through(handle as *mut u64, |handle| {
        memory_handles::retain(handle, at, || real(handle as usize))
    });
    cuMemExportToShareableHandle(
        to: *mut c_void, handle: u64, kind: u32, flags: u64,
    ) |real| memory_handles::export_to(to, kind, handle, real);
    cuMemImportFromShareableHandle(
        handle: usize, from: usize, kind: u32,
    ) |real(handle)| write_through(handle as *mut u64, |handle| {
        memory_handles::import(handle, from, kind, || real(handle as usize))
    });
    cuMemGetHandleForAddressRange(
        to: *mut c_void, at: u64, bytes: usize, kind: u32, flags: u64,
    ) |real| memory_handles::export_at(at, real);
    cuLogicalEndpointBindMem(
        endpoint: u32, device: i32, at: u64, handle: u64, from: u64, bytes: u64, flags: u64,
    ) |real| memory_handles::export(handle, real);
    cuLogicalEndpointBindAddr(
        endpoint: u32, device: i32, at: u64, from: u64, bytes: u64, flags: u64,
    ) |real| memory_handles::export_at(from, real);
    cuMulticastCreate(
        handle: usize, of: *const c_void,
    ) |real(handle)| write_through(handle as *mut u64, |handle| {
        memory_handles::create_multicast(handle, || real(handle as usize))
    });
    cuMulticastBindMem(
        object: u64, at: usize, handle: u64, from: usize, bytes: usize, flags: u64,
    ) |real| memory_handles::bind(object, None, at, bytes, Ok(handle), real);
    cuMulticastBindMem_v2(
        object: u64, device: i32, at: usize, handle: u64, from: usize, bytes: usize, flags: u64,
    ) |real| memory_handles::bind(object, Some(device), at, bytes, Ok(handle), real);
    cuMulticastBindAddr(
        object: u64, at: usize, from: u64, bytes: usize, flags: u64,
    ) |real| memory_handles::bind(object, None, at, bytes, Err(from), real);
    cuMulticastBindAddr_v2(
        object: u64, device: i32, at: usize, from: u64, bytes: usize, flags: u64,
    ) |real| memory_handles::bind(object, Some(device), at, bytes, Err(from), real);
    cuMulticastUnbind(
        object: u64, device: i32, at: usize, bytes: usize,
    ) |real| memory_handles::unbind(object, device, at, bytes, real);
}

hooks! {
    cuIpcGetMemHandle(handle: *mut IpcHandle, at: usize) |real| ipc::get(handle, at, real);
    cuIpcOpenMemHandle / cuIpcOpenMemHandle_v2(
        at: usize, handle: IpcHandle, flags: u32,
    ) |real(at)| write_through(at as *mut usize, |at| ipc::open(at, &handle, || real(at as usize)));
    cuIpcCloseMemHandle(at: usize) |real| ipc::close(at, real);
}

hooks! {
    cuMemPoolTrimTo(pool: usize, keep: usize) |real| pools::trim(pool, real);
    cuMemPoolGetAttribute / cuMemPoolSetAttribute(
        pool: usize, attribute: u32, value: *mut c_void,
    ) |real| pools::attribute(real);
    cuMemPoolCreate(
        pool: usize, properties: usize,
    ) |real(pool, properties)| write_through(pool as *mut usize, |pool| {
        with_copy(properties as *const PoolWords, |properties| {
            let real = || real(pool as usize, properties as usize);
            pools::create_pool(pool, properties.cast::<AllocationProperties>(), real)
        })
    });
    cuDeviceGetMemPool / cuDeviceGetDefaultMemPool(
        pool: usize, device: i32,
    ) |real(pool)| write_through(pool as *mut usize, |pool| {
        pools::own_pool(pool, device, || real(pool as usize))
    });
    cuMemGetMemPool / cuMemGetDefaultMemPool(
        pool: usize, location: usize, kind: u32,
    ) |real(pool, location)| pool_of([pool, location], kind, real);
    cuMemPoolDestroy(pool: usize) |real| pools::destroy_pool(pool, real);
    cuMemPoolExportPointer(data: *mut c_void, at: usize) |real| pools::export_pointer(at, real);
    cuMemPoolImportFromShareableHandle(
        pool: usize, from: usize, kind: u32, flags: u64,
    ) |real(pool)| write_through(pool as *mut usize, |pool| {
        pools::import_pool(pool, from, kind, || real(pool as usize))
    });
    cuMemPoolExportToShareableHandle(
        to: *mut c_void, pool: usize, kind: u32, flags: u64,
    ) |real| pools::export_pool(to, kind, real);
    cuMemPoolImportPointer(
        at: usize, pool: usize, data: *mut c_void,
    ) |real(at)| write_through(at as *mut usize, |at| {
        pools::import_pointer(at, pool, || real(at as usize))
    });
    cuDeviceGraphMemTrim(device: i32) |real| trim(device, real);
    cuCtxCreate / cuCtxCreate_v2 / cuGLCtxCreate / cuGLCtxCreate_v2(
        context: usize, flags: u32, device: i32,
    ) |real(context)| make_context(context, device, real);
    cuCtxCreate_v3(
        context: usize, affinities: *const c_void, count: i32, flags: u32, device: i32,
    ) |real(context)| make_context(context, device, real);
    cuCtxCreate_v4(
        context: usize, params: *const c_void, flags: u32, device: i32,
    ) |real(context)| make_context(context, device, real);
    cuVDPAUCtxCreate / cuVDPAUCtxCreate_v2(
        context: usize, flags: u32, device: i32, display: u32, address: *const c_void,
    ) |real(context)| make_context(context, device, real);
    cuCtxSetLimit(limit: u32, value: usize) |real| set_limit(limit, value, real);
}

hooks! {
    cuModuleLoad(
        module: usize, path: *const c_char,
    ) |real(module)| file(Kind::Module, module, path, NONE, real);
    cuModuleLoadData / cuModuleLoadFatBinary(
        module: usize, image: *const u8,
    ) |real(module)| code(Kind::Module, module, image, NONE, real);
    cuModuleLoadDataEx(
        module: usize, image: *const u8, count: u32, options: *const u32, values: usize,
    ) |real(module)| code(Kind::Module, module, image, (options, count), real);
    cuModuleUnload(
        module: usize,
    ) |real| kernels::unload(Kind::Module, module, || free(Kind::Module, module, real));
    cuLibraryLoadData(
        library: usize, image: *const u8, options: *const u32, values: usize, count: u32, more: usize, others: usize,
        number: u32,
    ) |real(library)| code(Kind::Library, library, image, (options, count), real);
    cuLibraryLoadFromFile(
        library: usize, path: *const c_char, options: *const u32, values: usize, count: u32, more: usize,
        others: usize, number: u32,
    ) |real(library)| file(Kind::Library, library, path, (options, count), real);
    cuLibraryUnload(
        library: usize,
    ) |real| kernels::unload(Kind::Library, library, || unload_library(library, real));
}

/// Words of a `CUmemAllocationProp`, some of which a program may leave out.
type Words = MaybeUninit<[usize; 4]>;

/// Words of a `CUmemPoolProps`, some of which a program may leave out.
type PoolWords = MaybeUninit<[usize; 11]>;

/// Options of the driver's compiler, and their number.
type Options = (*const u32, u32);
const NONE: Options = (std::ptr::null(), 0);

/// Gets the pool of a location by `real`, which takes the places of its handle and of the location.
fn pool_of([to, at]: [usize; 2], kind: u32, real: impl Fn(usize, usize) -> u32) -> u32 {
    write_through(to as *mut usize, |to| {
        with_copy(at as *const [u32; 2], |at| {
            pools::pool_of(to, at, kind, || real(to as usize, at as usize))
        })
    })
}

/// Makes a context of a device by `real`, which takes the place of its handle.
fn make_context(to: usize, device: i32, real: impl Fn(usize) -> u32) -> u32 {
    write_through(to as *mut usize, |to| create(to, device, || real(to as usize)))
}

/// Loads code from memory by `real`, which takes the place of its handle.
fn code(
    kind: Kind,
    to: usize,
    image: *const u8,
    options: Options,
    real: impl FnOnce(usize) -> u32,
) -> u32 {
    write_through(to as *mut usize, |to| {
        let real = || real(to as usize);
        // SAFETY: the driver demands an image and `options.1` options of the program. Values of
        // options are passed on unread.
        unsafe { images::load(kind, to, image, options, || load(kind, to, image, real)) }
    })
}

/// Loads code from a file by `real`, which takes the place of its handle.
fn file(
    kind: Kind,
    to: usize,
    path: *const c_char,
    options: Options,
    real: impl FnOnce(usize) -> u32,
) -> u32 {
    write_through(to as *mut usize, |to| {
        let real = || real(to as usize);
        // SAFETY: the driver demands a path that ends with a zero and `options.1` options of the
        // program. Values of options are passed on unread.
        unsafe { images::load_file(kind, to, path, options, || load_file(kind, to, path, real)) }
    })
}

ptsz_variants! {
    cuMemMapArrayAsync / cuMemMapArrayAsync_ptsz(
        list: usize, count: u32, stream: usize,
    ) |is_ptsz, real(list)| memory_handles::map_arrays(list, count, Stream::new(stream, is_ptsz), real);
    cuGraphUpload / cuGraphUpload_ptsz(
        exec: usize, stream: usize,
    ) |is_ptsz, real| {
        let stream = Stream::new(stream, is_ptsz);
        backed(exec, stream, real, |real| on_device(stream, real))
    };
}
