//! Memory of numpy's arrays in a region, by numpy's own hook (NEP 49).
//!
//! ```text
//!   numpy ── malloc, calloc, realloc, free ──> Handler ─┬─ large ──> memory::Allocator: a block
//!                                                       └─ small ──> numpy's default handler
//! ```
//!
//! numpy keeps the handler in a context variable, and each array holds the one that its data is
//! of. The handler is a capsule, so it lives until the last of its arrays and contexts is gone.
//!
//! *Invariants:* data of [`LARGE_BYTES`] and more lies in a block, less does not, as long as the
//! process is the one that made the allocator. What an address is of is told by the address, so
//! also in a child of a fork, where nothing is done with blocks.

#![allow(unsafe_code, reason = "numpy calls it by addresses")]

use std::ffi::{CStr, c_char, c_void};
use std::ptr::{self, NonNull};

use foreread::backend::lock::Mutex;
use foreread::memory::{self, Error};
use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::memory::{counts_of_region, dictionary, raised};

/// Bytes of data that lies in a block. Lower: a program with many arrays of this size pays a call
/// to the region's thread for each (tens of microseconds, where the system's takes a few), and a
/// page of 4 KiB is wasted for each. Higher: arrays that together are larger than memory stay in
/// it. Source: docs/decisions/0131.
const LARGE_BYTES: usize = 1 << 20;

/// What numpy calls, as NEP 49 lays it out.
#[repr(C)]
#[derive(Clone, Copy)]
struct Calls {
    ctx: *mut c_void,
    malloc: unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void,
    calloc: unsafe extern "C" fn(*mut c_void, usize, usize) -> *mut c_void,
    realloc: unsafe extern "C" fn(*mut c_void, *mut c_void, usize) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void, *mut c_void, usize),
}

/// `PyDataMem_Handler` of numpy.
#[repr(C)]
struct Handler {
    name: [c_char; 127],
    version: u8,
    calls: Calls,
}

/// The handler of an allocator. numpy has its address.
#[repr(C)]
struct Data {
    handler: Handler,
    allocator: memory::Allocator,
    /// numpy's own, which lives as long as the process.
    usual: Calls,
    refused: Mutex<Option<Error>>,
}

/// The name of a capsule that numpy takes as a handler.
const NAME: &CStr = c"mem_handler";

/// Places in numpy's table of functions, which it keeps for programs that were built with older
/// versions of it.
const FEATURE_VERSION: usize = 211;
const SET_HANDLER: usize = 304;
const DEFAULT_HANDLER: usize = 306;

/// numpy 1.22, the first one with handlers.
const FEATURE_VERSION_MIN: u32 = 0xf;

/// An allocator for the data of numpy's arrays.
#[pyclass(frozen, module = "foreread._native")]
pub(crate) struct Allocator {
    capsule: Py<PyAny>,
    data: NonNull<Data>,
    set: SetHandler,
}

type SetHandler = unsafe extern "C" fn(*mut ffi::PyObject) -> *mut ffi::PyObject;

// SAFETY: the data lives as long as the capsule, which this holds, and is shared as its parts
// allow. numpy's function is called with the GIL.
unsafe impl Send for Allocator {}
// SAFETY: as above.
unsafe impl Sync for Allocator {}

impl Allocator {
    fn data(&self) -> &Data {
        // SAFETY: it lives as long as the capsule, and changes behind a lock only.
        unsafe { self.data.as_ref() }
    }
}

#[pymethods]
impl Allocator {
    /// `numpy`: the capsule of its functions.
    #[new]
    #[pyo3(signature = (numpy, budget, spill = None, encrypted = false, kernel_faults = true))]
    fn new(
        py: Python<'_>,
        numpy: &Bound<'_, PyAny>,
        budget: usize,
        spill: Option<String>,
        encrypted: bool,
        kernel_faults: bool,
    ) -> PyResult<Self> {
        // SAFETY: numpy's table, which lives as long as the process, and the places and kinds of
        // its entries, which do not change between versions.
        let (set, usual) = unsafe {
            let table: *const *const c_void = ffi::PyCapsule_GetPointer(numpy.as_ptr(), ptr::null()).cast();
            if table.is_null() {
                return Err(PyErr::fetch(py));
            }
            let feature_version: unsafe extern "C" fn() -> u32 = std::mem::transmute(*table.add(FEATURE_VERSION));
            if feature_version() < FEATURE_VERSION_MIN {
                return Err(PyImportError::new_err("allocate needs numpy 1.22 or later"));
            }
            let set: SetHandler = std::mem::transmute(*table.add(SET_HANDLER));
            let default: *mut ffi::PyObject = *(*table.add(DEFAULT_HANDLER)).cast();
            let usual: *const Handler = ffi::PyCapsule_GetPointer(default, NAME.as_ptr()).cast();
            if usual.is_null() {
                return Err(PyErr::fetch(py));
            }
            (set, (*usual).calls)
        };
        let create = || {
            let builder = memory::Allocator::with_budget(budget).encrypted(encrypted).kernel_faults(kernel_faults);
            match spill {
                Some(dir) => builder.spill(dir).create(),
                None => builder.create(),
            }
        };
        let allocator = py.detach(create).map_err(|error| raised(&error))?;
        let mut name = [0; 127];
        name.iter_mut().zip(b"foreread").for_each(|(to, from)| *to = *from as c_char);
        let calls = Calls { ctx: ptr::null_mut(), malloc, calloc, realloc, free };
        let handler = Handler { name, version: 1, calls };
        let data = Box::into_raw(Box::new(Data { handler, allocator, usual, refused: Mutex::default() }));
        // SAFETY: the data is this function's, until the capsule has it.
        let capsule = unsafe {
            (*data).handler.calls.ctx = data.cast();
            let capsule = ffi::PyCapsule_New(data.cast(), NAME.as_ptr(), Some(end));
            Bound::from_owned_ptr_or_err(py, capsule).inspect_err(|_| drop(Box::from_raw(data)))?
        };
        // SAFETY: it is not null.
        Ok(Self { capsule: capsule.unbind(), data: unsafe { NonNull::new_unchecked(data) }, set })
    }

    /// Makes it, or `handler`, what numpy uses in this context. Returns what numpy used.
    #[pyo3(signature = (handler = None))]
    fn set<'py>(&self, py: Python<'py>, handler: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        let handler = handler.map_or(self.capsule.as_ptr(), Bound::as_ptr);
        // SAFETY: numpy refuses what is no handler. It returns a new reference.
        unsafe { Bound::from_owned_ptr_or_err(py, (self.set)(handler)) }
    }

    /// Why data was last refused since the last call, as an exception; None where none was.
    fn take_refused<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        if self.data().allocator.stats().is_err() {
            return py.None().into_bound(py);
        }
        let refused = self.data().refused.lock().take();
        refused.map_or_else(|| py.None(), |error| raised(&error).into_value(py).into_any()).into_bound(py)
    }

    /// Whether system calls may use bytes that are not in memory.
    #[getter]
    fn kernel_faults(&self) -> bool {
        self.data().allocator.takes_kernel_faults()
    }

    /// Changes how many bytes may be in memory.
    fn set_budget(&self, py: Python<'_>, budget: usize) -> PyResult<()> {
        py.detach(|| self.data().allocator.set_budget(budget)).map_err(|error| raised(&error))
    }

    /// Counts so far: those of a region, and of arrays in it.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = py.detach(|| self.data().allocator.stats()).map_err(|error| raised(&error))?;
        let mut counts = counts_of_region(&stats.region).to_vec();
        counts.extend([
            ("arrays", stats.blocks),
            ("bytes", stats.bytes),
            ("bytes_max", stats.bytes_max),
            ("bytes_room", stats.room_bytes),
        ]);
        dictionary(py, &counts)
    }
}

/// Whether memory at this address is an allocator's.
#[pyfunction]
pub(crate) fn is_allocated(address: usize) -> bool {
    memory::Allocator::is_in_any(ptr::without_provenance(address))
}

/// The last array and the last context that had the handler are gone.
unsafe extern "C" fn end(capsule: *mut ffi::PyObject) {
    // SAFETY: the capsule has what `Allocator::new` gave it.
    unsafe {
        let data: *mut Data = ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr()).cast();
        drop(Box::from_raw(data));
    }
}

/// # Safety
///
/// numpy's: `ctx` is of a handler that lives.
unsafe fn data<'a>(ctx: *mut c_void) -> &'a Data {
    // SAFETY: the caller's contract; it changes behind a lock only.
    unsafe { &*ctx.cast::<Data>() }
}

impl Data {
    /// A zeroed block; `None` in a child of a fork, where the system's memory is used.
    fn block(&self, size: usize) -> Option<*mut c_void> {
        match self.allocator.allocate(size) {
            Ok(block) => Some(block.as_ptr().cast()),
            Err(Error::Forked) => None,
            Err(error) => Some(self.refuse(error)),
        }
    }

    /// numpy raises `MemoryError`.
    fn refuse(&self, error: Error) -> *mut c_void {
        *self.refused.lock() = Some(error);
        ptr::null_mut()
    }
}

unsafe extern "C" fn malloc(ctx: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: numpy's contract.
    let data = unsafe { data(ctx) };
    let block = if size >= LARGE_BYTES { data.block(size) } else { None };
    // SAFETY: as above.
    block.unwrap_or_else(|| unsafe { (data.usual.malloc)(data.usual.ctx, size) })
}

unsafe extern "C" fn calloc(ctx: *mut c_void, count: usize, size: usize) -> *mut c_void {
    // SAFETY: numpy's contract.
    let data = unsafe { data(ctx) };
    let all = count.saturating_mul(size);
    let block = if all >= LARGE_BYTES { data.block(all) } else { None };
    // SAFETY: as above.
    block.unwrap_or_else(|| unsafe { (data.usual.calloc)(data.usual.ctx, count, size) })
}

unsafe extern "C" fn free(ctx: *mut c_void, memory: *mut c_void, size: usize) {
    // SAFETY: numpy's contract.
    let data = unsafe { data(ctx) };
    match NonNull::new(memory.cast::<u8>()) {
        Some(block) if data.allocator.holds(block.as_ptr()) => {
            // SAFETY: a block, which numpy has no use for any more.
            unsafe { data.allocator.free(block) };
        }
        // SAFETY: numpy's contract: it is of the usual handler.
        _ => unsafe { (data.usual.free)(data.usual.ctx, memory, size) },
    }
}

unsafe extern "C" fn realloc(ctx: *mut c_void, memory: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: numpy's contract.
    let data = unsafe { data(ctx) };
    let Some(block) = NonNull::new(memory.cast::<u8>()) else {
        // SAFETY: as above.
        return unsafe { malloc(ctx, size) };
    };
    if data.allocator.holds(block.as_ptr()) {
        if size >= LARGE_BYTES {
            // SAFETY: a block, which numpy uses nowhere else.
            return match unsafe { data.allocator.resize(block, size) } {
                Ok(block) => block.as_ptr().cast(),
                // A child leaves locks alone.
                Err(Error::Forked) => ptr::null_mut(),
                Err(error) => data.refuse(error),
            };
        }
        // SAFETY: as above. In a child, the touch is SIGSEGV, as every touch of a block.
        return unsafe {
            let moved = (data.usual.malloc)(data.usual.ctx, size);
            if !moved.is_null() {
                // A block has this many bytes at least.
                moved.copy_from_nonoverlapping(memory, size);
                data.allocator.free(block);
            }
            moved
        };
    }
    let block = if size >= LARGE_BYTES { data.block(size) } else { None };
    let Some(block) = block else {
        // SAFETY: as above.
        return unsafe { (data.usual.realloc)(data.usual.ctx, memory, size) };
    };
    if !block.is_null() {
        // SAFETY: the usual handler's memory, of which the length is not known, but less than that
        // of a block: so much of it can be read once it has grown to that.
        unsafe {
            let grown = (data.usual.realloc)(data.usual.ctx, memory, LARGE_BYTES);
            if grown.is_null() {
                free(ctx, block, size);
                return grown;
            }
            block.copy_from_nonoverlapping(grown.cast(), LARGE_BYTES);
            (data.usual.free)(data.usual.ctx, grown, LARGE_BYTES);
        }
    }
    block
}
