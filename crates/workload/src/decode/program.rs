//! The file of a program: `[program]` in place of files and a pattern.

use super::device::device;
use super::expect::figures_of_program;
use super::section::{Placed, Section};
use crate::error::Error;
use crate::program::{Program, Timed};
use crate::workload::Mount;
use crate::workload::device::Device;

/// The rest of a file whose table `section` is `[program]`.
pub(super) fn program(mut top: Section<'_>, mut section: Section<'_>) -> Result<Program, Error> {
    const TIMED: &str = "\"whole\", or \"itself\" for a program whose last line is its time in seconds";
    let name = top.text("name", "a name such as \"import-pandas\"")?;
    let description = top.text("description", "a sentence")?;
    let duration_ns = top.duration("duration")?.at_least(1)?;

    let command = section.text("command", "a command line of a shell, such as \"ls $DATA\"")?;
    let own = section.optional_string("own", "a command line of a shell that reads $BUCKET of $ENDPOINT")?;
    let again = section.optional_bool("again")?.unwrap_or(false);
    let without_root = section.optional_bool("without_root")?.unwrap_or(false);
    let timed = match section.optional_string("timed", TIMED)? {
        Some(timed) if timed.value == "itself" => Timed::Itself,
        Some(timed) if timed.value != "whole" => return Err(timed.is_not(TIMED)),
        _ => Timed::Whole,
    };
    let data = script(section.string("data", SCRIPT)?)?;
    let tools = section.optional_string("tools", SCRIPT)?.map(script).transpose()?;
    section.end()?;

    let mut section = top.section("device")?;
    let Device::Store(store) = device(&mut section)? else {
        return Err(section.breaks("a program reads an object store: `first_byte` and `connection_rate` describe it"));
    };
    if store.ceiling_min_bytes_per_s.is_some() {
        return Err(section.breaks("no bare client is measured beside a program: leave out `ceiling_min`"));
    }
    section.end()?;
    let mut section = top.section("mount")?;
    let mount =
        Mount { memory_bytes: section.size("memory")?.at_least(1 << 20)?, cgroup_bytes: None, cache_bytes: None };
    section.end()?;
    let expect = top.optional_section("expect")?;
    let expect = expect.map(|section| figures_of_program(section, again, own.is_some())).transpose()?;
    top.end()?;
    Ok(Program {
        name,
        description,
        duration_ns,
        command,
        own: own.map(|own| own.value),
        again,
        without_root,
        timed,
        data,
        tools,
        store,
        mount,
        expect: expect.unwrap_or_default(),
    })
}

const SCRIPT: &str = "the name of a script such as \"site-packages\": letters, digits, `-`";

/// A name that is a file's, and no path.
fn script(name: Placed<'_, String>) -> Result<String, Error> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if name.value.is_empty() || !name.value.bytes().all(plain) {
        return Err(name.is_not(SCRIPT));
    }
    Ok(name.value)
}
