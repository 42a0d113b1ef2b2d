//! The native module of the Python package `foreread`: reads through the engine, for Python.
//!
//! ```text
//!   foreread/*.py ── Store ──> process: one engine for a store and credentials, one budget;
//!        │                       the engine may be another process's
//!        │             └─ info, list, find, open ──> tasks ─ answer ─┬─> this thread, which waits
//!        ├── Handle ── read_at, read_into, read_together ────────────┤    without the GIL
//!        ├── Region, View, Allocator: memory of arrays               └─> Completions: asyncio
//!        └── Trace: the reads of all engines, kept
//!   heap: large blocks of all of it are mapped, and unmapped
//! ```
//!
//! Python's side translates names, options and files; what waits and what copies is here.
//!
//! *Invariants:* no rule about what to read or keep. No thread that waits for storage holds the
//! GIL, and no thread of an engine ever takes it. A child of a fork touches nothing that its
//! parent's threads may have left locked.

#![deny(unsafe_code)]

mod allocator;
mod budget;
mod buffer;
mod completions;
mod errors;
mod file;
mod heap;
mod info;
mod memory;
mod outcome;
mod process;
mod reading;
mod set;
mod store;
mod together;
mod trace;
mod version;
mod wait;

use pyo3::prelude::*;

/// See `foreread/_native.pyi`.
#[pymodule(gil_used = true)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    process::watch_forks();
    module.add_class::<store::Store>()?;
    module.add_class::<file::Handle>()?;
    module.add_class::<version::Version>()?;
    module.add_class::<completions::Completions>()?;
    module.add_class::<trace::Trace>()?;
    module.add_class::<memory::Region>()?;
    module.add_class::<memory::View>()?;
    module.add_class::<allocator::Allocator>()?;
    module.add("VersionChanged", module.py().get_type::<errors::VersionChanged>())?;
    module.add_function(wrap_pyfunction!(store::place, module)?)?;
    module.add_function(wrap_pyfunction!(together::read_together, module)?)?;
    module.add_function(wrap_pyfunction!(allocator::is_allocated, module)?)?;
    module.add_function(wrap_pyfunction!(budget::size, module)?)?;
    module.add_function(wrap_pyfunction!(budget::set_memory, module)?)?;
    module.add_function(wrap_pyfunction!(budget::set_cache, module)?)?;
    module.add_function(wrap_pyfunction!(budget::stats, module)?)?;
    module.add_function(wrap_pyfunction!(budget::end_idle, module)?)?;
    module.add_function(wrap_pyfunction!(completions::stop, module)?)?;
    Ok(())
}
