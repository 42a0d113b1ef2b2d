//! The budget of the process, its cache on disk, and the counters of its engines.

use std::path::PathBuf;
use std::time::Duration;

use foreread::shared::{Role, SharedStats};
use foreread::{Cache, Stats};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use serde_json::Value;

use crate::errors::raised;
use crate::process;

/// Units of a size. A bare letter is a power of 1024, as in `dd`; `KB` is a power of 1000.
const UNITS: [(&str, u64); 13] = [
    ("", 1),
    ("b", 1),
    ("k", 1 << 10),
    ("kib", 1 << 10),
    ("kb", 1000),
    ("m", 1 << 20),
    ("mib", 1 << 20),
    ("mb", 1_000_000),
    ("g", 1 << 30),
    ("gib", 1 << 30),
    ("gb", 1_000_000_000),
    ("t", 1 << 40),
    ("tib", 1 << 40),
];

/// A number of bytes, from a whole number or a text such as `"2GiB"`, `"96M"`, `"80MB"`.
///
/// Errors: `ValueError` for any other text, and for a negative number.
#[pyfunction]
pub(crate) fn size(size: &Bound<'_, PyAny>) -> PyResult<u64> {
    let wrong = || PyValueError::new_err(format!("{size:?} is no size: write bytes, or \"96M\", \"2GiB\", \"80MB\""));
    let Ok(text) = size.extract::<String>() else { return size.extract::<u64>().map_err(|_| wrong()) };
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim().to_ascii_lowercase();
    let factor = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor).ok_or_else(wrong)?;
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor).ok_or_else(wrong);
    }
    let bytes = number.parse::<f64>().map_err(|_| wrong())? * factor as f64;
    if bytes < u64::MAX as f64 { Ok(bytes as u64) } else { Err(wrong()) }
}

/// Changes the budget of the process, in bytes. Returns what it is now; with nothing, only that.
///
/// Errors: `ValueError` below 16 MiB.
#[pyfunction]
#[pyo3(signature = (memory = None))]
pub(crate) fn set_memory(py: Python<'_>, memory: Option<u64>) -> PyResult<u64> {
    if let Some(bytes) = memory {
        py.detach(|| process::set_memory_bytes(bytes)).map_err(|error| raised(&error))?;
    }
    Ok(process::memory_bytes())
}

/// Changes the cache of stores that are opened from now on: a folder, the bytes that it takes at
/// most and those that it leaves free, the key file that encrypts it, and whether the storage
/// helps a slow disk. Without a folder, they have none.
#[pyfunction]
#[pyo3(signature = (folder, size = None, min_free = None, key_file = None, bypass = None))]
pub(crate) fn set_cache(
    folder: Option<PathBuf>,
    size: Option<u64>,
    min_free: Option<u64>,
    key_file: Option<PathBuf>,
    bypass: Option<bool>,
) -> PyResult<()> {
    let Some(folder) = folder else {
        process::set_cache(None);
        return Ok(());
    };
    // The process may change its directory before it opens a store.
    let mut cache = Cache::new(std::path::absolute(folder)?);
    cache = cache.with_key_file(key_file.map(std::path::absolute).transpose()?);
    cache.bytes = size.unwrap_or(cache.bytes);
    cache.min_free_bytes = min_free.unwrap_or(cache.min_free_bytes);
    cache.bypass = bypass.unwrap_or(cache.bypass);
    process::set_cache(Some(cache));
    Ok(())
}

/// Ends the engines that nothing has used for so many seconds, but for the one that was used last,
/// as is done from time to time. Returns how many are left.
#[pyfunction]
pub(crate) fn end_idle(py: Python<'_>, seconds: f64) -> PyResult<usize> {
    let idle = Duration::try_from_secs_f64(seconds).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(py.detach(|| process::end_idle(idle)))
}

/// The counters of an engine that has done nothing, and those of each engine of the process: a
/// dictionary, and a list of (store, dictionary).
#[pyfunction]
pub(crate) fn stats(py: Python<'_>) -> PyResult<(Bound<'_, PyAny>, Bound<'_, PyList>)> {
    let all = py.detach(|| {
        let all = process::engines().into_iter().map(|(store, engine)| {
            let SharedStats { engine, role, clients, .. } = engine.stats().map_err(|error| raised(&error))?;
            let mut stats = serde_json::to_value(engine).unwrap_or_default();
            let role = match role {
                Role::Serves => "serves",
                Role::Joins => "joins",
                _ => "alone",
            };
            stats["role"] = role.into();
            stats["clients"] = clients.into();
            Ok((store, stats))
        });
        all.collect::<PyResult<Vec<_>>>()
    })?;
    let list = PyList::empty(py);
    for (store, stats) in all {
        list.append((store, python(py, &stats)?))?;
    }
    let none = serde_json::to_value(Stats::default()).unwrap_or_default();
    Ok((python(py, &none)?, list))
}

fn python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Object(fields) => {
            let dict = PyDict::new(py);
            for (name, value) in fields {
                dict.set_item(name, python(py, value)?)?;
            }
            dict.into_any()
        }
        Value::Number(number) => number.as_u64().into_pyobject(py)?,
        Value::String(text) => text.into_pyobject(py)?.into_any(),
        _ => py.None().into_bound(py),
    })
}
