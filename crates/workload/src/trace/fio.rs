//! fio's iolog: `FILE ACTION [OFFSET LENGTH]`, in version 3 with the microseconds since its start
//! before each line.

use super::entry::{Entry, Name, Parsed};

/// The version of an iolog, from its first line.
pub(super) fn version(line: &str) -> Option<u8> {
    match line.trim_end() {
        "fio version 2 iolog" => Some(2),
        "fio version 3 iolog" => Some(3),
        _ => None,
    }
}

#[derive(Debug, Default)]
pub(super) struct Reader {
    timed: bool,
    /// Version 2: the sum of waits so far.
    waited_ns: u64,
}

impl Reader {
    pub(super) fn parse<'t>(&mut self, line: &'t str, first: bool) -> Parsed<'t> {
        if first {
            self.timed = version(line).ok_or("not `fio version 2 iolog` or `fio version 3 iolog`")? == 3;
            return Ok(None);
        }
        let mut words = line.split_ascii_whitespace();
        let mut at_ns = self.waited_ns;
        if self.timed {
            let micros = words.next().and_then(|word| word.parse::<u64>().ok()).ok_or("a time that is no number")?;
            at_ns = micros.saturating_mul(1000);
        }
        let (Some(file), Some(action)) = (words.next(), words.next()) else { return Err("not `FILE ACTION`") };
        let mut number = || words.next()?.parse::<u64>().ok();
        match action {
            "read" => {
                let (Some(offset), Some(len)) = (number(), number()) else {
                    return Err("not `FILE ACTION OFFSET LENGTH`");
                };
                let (reader, file) = (Name::Number(0), Name::Text(file));
                Ok(Some(Entry { at_ns, reader, file, offset, len, size: None }))
            }
            "wait" => {
                let micros = number().ok_or("not `FILE wait MICROSECONDS`")?;
                self.waited_ns = self.waited_ns.saturating_add(micros.saturating_mul(1000));
                Ok(None)
            }
            "add" | "open" | "close" | "write" | "trim" | "sync" | "datasync" | "sync_file_range" => Ok(None),
            _ => Err("an action that fio does not have"),
        }
    }
}
