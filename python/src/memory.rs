//! Memory that is larger than its budget, and objects as memory: buffers for numpy's arrays.
//!
//! ```text
//!   Array ── base ──> memoryview ──> Region | View ── __getbuffer__ ──> its address and length
//! ```
//!
//! A thread that touches a page which is not in memory waits with the GIL, if it has it. The
//! thread that answers never takes the GIL, so it is answered.
//!
//! *Invariant:* the memory lives as long as any buffer of it: a buffer holds its owner.

#![allow(unsafe_code, reason = "the buffer protocol hands out addresses")]

use std::ffi::c_int;
use std::ops::Range;

use foreread::File;
use foreread::backend::lock::Mutex;
use foreread::memory::{self, Advice, Error};
use foreread::shared::Shared;
use pyo3::exceptions::{PyBufferError, PyOSError, PyPermissionError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Zeroed memory of which at most `budget` bytes are in memory; the others are in a file.
#[pyclass(frozen, module = "foreread._native")]
pub(crate) struct Region {
    held: Mutex<memory::Region>,
    address: usize,
    len: usize,
    process: u32,
}

impl Region {
    /// The region, in the process that made it. A child could find the lock held for ever.
    fn here(&self) -> PyResult<&Mutex<memory::Region>> {
        if self.process == std::process::id() { Ok(&self.held) } else { Err(raised(&Error::Forked)) }
    }
}

#[pymethods]
impl Region {
    /// A region of `length` bytes. `spill` is the directory of the file, by default the one for
    /// temporary files on storage.
    #[new]
    #[pyo3(signature = (length, budget, spill = None, encrypted = false))]
    fn new(py: Python<'_>, length: usize, budget: usize, spill: Option<String>, encrypted: bool) -> PyResult<Self> {
        let create = || {
            let mut builder = memory::Region::anonymous(length).budget(budget).encrypted(encrypted);
            if let Some(dir) = spill {
                builder = builder.spill(dir);
            }
            builder.create()
        };
        let region = py.detach(create).map_err(|error| raised(&error))?;
        let address = region.as_mut_ptr().addr();
        Ok(Self { held: Mutex::new(region), address, len: length, process: std::process::id() })
    }

    /// Its address.
    #[getter]
    fn address(&self) -> usize {
        self.address
    }

    fn __len__(&self) -> usize {
        self.len
    }

    /// Says how the bytes from `start` to before `stop` are going to be used: "normal",
    /// "sequential", "random" or "willneed".
    fn advise(&self, py: Python<'_>, start: usize, stop: usize, advice: &str) -> PyResult<()> {
        let advice = match advice {
            "normal" => Advice::Normal,
            "sequential" => Advice::Sequential,
            "random" => Advice::Random,
            "willneed" => Advice::WillNeed,
            _ => {
                let text = format!("{advice:?} is no advice; known are normal, sequential, random, willneed");
                return Err(PyValueError::new_err(text));
            }
        };
        let (region, range) = (self.here()?, range(start, stop)?);
        py.detach(|| region.lock().advise(range, advice)).map_err(|error| raised(&error))
    }

    /// Makes the bytes from `start` to before `stop` zero, and frees their memory.
    fn discard(&self, py: Python<'_>, start: usize, stop: usize) -> PyResult<()> {
        let (region, range) = (self.here()?, range(start, stop)?);
        py.detach(|| region.lock().discard(range)).map_err(|error| raised(&error))
    }

    /// Changes how many bytes may be in memory.
    fn set_budget(&self, py: Python<'_>, budget: usize) -> PyResult<()> {
        let region = self.here()?;
        py.detach(|| region.lock().set_budget(budget)).map_err(|error| raised(&error))
    }

    /// Counts so far, in pages of 4096 bytes, faults and requests.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let region = self.here()?;
        let stats = py.detach(|| region.lock().stats());
        dictionary(py, &counts_of_region(&stats))
    }

    /// # Safety
    ///
    /// Python's: `view` is valid, and is released before the owner it holds is dropped.
    unsafe fn __getbuffer__(slf: &Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let this = slf.get();
        this.here()?;
        // SAFETY: the memory is mapped, readable and writable as long as the region lives.
        unsafe { give(slf, view, this.address, this.len, false, flags) }
    }
}

/// One version of an object as memory that is read when it is touched.
#[pyclass(frozen, module = "foreread._native")]
pub(crate) struct View {
    mapped: memory::View,
    process: u32,
    #[expect(dead_code, reason = "it has the file, and does not end before")]
    engine: Shared,
}

impl View {
    /// `file` of `engine` as memory, of which at most `budget` bytes are mapped.
    pub(crate) fn new(engine: Shared, file: File, budget: usize) -> PyResult<Self> {
        // SAFETY: an object of a store keeps its bytes as long as its version. For a local file it
        // is the program that sees to that, as `foreread.map` says.
        let view = unsafe { memory::Region::map(file) }.budget(budget).create();
        Ok(Self { mapped: view.map_err(|error| raised(&error))?, process: std::process::id(), engine })
    }

    fn here(&self) -> PyResult<&memory::View> {
        if self.process == std::process::id() { Ok(&self.mapped) } else { Err(raised(&Error::Forked)) }
    }
}

#[pymethods]
impl View {
    /// Its address.
    #[getter]
    fn address(&self) -> usize {
        self.mapped.as_ptr().addr()
    }

    fn __len__(&self) -> usize {
        self.mapped.len()
    }

    /// Counts so far, in pages of 4096 bytes, faults and reads.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let view = self.here()?;
        let stats = py.detach(|| view.stats());
        let counts = [
            ("faults", stats.faults),
            ("reads", stats.reads),
            ("pages_mapped", stats.mapped_pages),
            ("pages_failed", stats.pages_failed),
        ];
        dictionary(py, &counts)
    }

    /// # Safety
    ///
    /// As for a region.
    unsafe fn __getbuffer__(slf: &Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let this = slf.get().here()?;
        // SAFETY: the memory is mapped and readable as long as the view lives.
        unsafe { give(slf, view, this.as_ptr().addr(), this.len(), true, flags) }
    }
}

/// Fills `view` with memory that `owner` keeps.
///
/// # Safety
///
/// `len` bytes at `address` can be read, and written unless they are `readonly`, as long as
/// `owner` lives.
unsafe fn give<T>(
    owner: &Bound<'_, T>,
    view: *mut ffi::Py_buffer,
    address: usize,
    len: usize,
    readonly: bool,
    flags: c_int,
) -> PyResult<()> {
    if view.is_null() {
        return Err(PyBufferError::new_err("a buffer needs a view"));
    }
    let start = std::ptr::with_exposed_provenance_mut(address);
    let len = isize::try_from(len)?;
    // SAFETY: as above; the call takes a reference to the owner.
    let filled = unsafe { ffi::PyBuffer_FillInfo(view, owner.as_ptr(), start, len, c_int::from(readonly), flags) };
    if filled == 0 { Ok(()) } else { Err(PyErr::fetch(owner.py())) }
}

fn range(start: usize, stop: usize) -> PyResult<Range<usize>> {
    if start > stop {
        return Err(PyValueError::new_err(format!("a range begins before it ends: {start}, {stop}")));
    }
    Ok(start..stop)
}

/// Counts of a region, by their names for Python.
pub(crate) fn counts_of_region(stats: &memory::Stats) -> [(&'static str, u64); 11] {
    let (counters, gauges) = (stats.counters, stats.gauges);
    [
        ("faults_major", counters.faults_major),
        ("faults_minor", counters.faults_minor),
        ("faults_zero", counters.faults_zero),
        ("reads_demand", counters.reads_demand),
        ("reads_speculative", counters.reads_speculative),
        ("pages_read", counters.pages_read),
        ("pages_written", counters.pages_cleaned),
        ("pages_wasted", counters.pages_wasted),
        ("pages_mapped", gauges.mapped_pages),
        ("pages_budget", gauges.budget_pages),
        ("pages_failed", gauges.pages_failed),
    ]
}

pub(crate) fn dictionary<'py>(py: Python<'py>, counts: &[(&str, u64)]) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, count) in counts {
        dict.set_item(name, count)?;
    }
    Ok(dict)
}

/// `error` as Python's: `ValueError` for what cannot be, `PermissionError` where page faults may
/// not be answered, `OSError` for the rest.
pub(crate) fn raised(error: &Error) -> PyErr {
    let text = error.to_string();
    let errno = |cause: &std::io::Error| cause.raw_os_error().unwrap_or(libc::EIO);
    match error {
        Error::Invalid { .. } => PyValueError::new_err(text),
        Error::Forbidden { .. } => PyPermissionError::new_err((libc::EPERM, text)),
        Error::Spill { cause, .. } | Error::System { cause, .. } => PyOSError::new_err((errno(cause), text)),
        Error::Forked => PyOSError::new_err((libc::ESRCH, text)),
        _ => PyOSError::new_err((libc::EOPNOTSUPP, text)),
    }
}
