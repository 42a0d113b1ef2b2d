//! One table of a workload's TOML, and errors that name the file, the line and the dotted key.

use std::fmt::Display;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::quantity;
use crate::error::{Error, Problem};

/// The text that is read; makes errors.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) file: &'a str,
    pub(super) text: &'a str,
}

impl Source<'_> {
    pub(super) fn error(self, key: &str, at: &Range<usize>, problem: Problem) -> Error {
        let before = self.text.get(..at.start).unwrap_or(self.text);
        let line = 1 + before.matches('\n').count();
        Error { file: self.file.to_owned(), line, key: key.to_owned(), problem: Box::new(problem) }
    }
}

/// A value with its position, for rules that are checked later.
pub(super) struct Placed<'a, T> {
    pub(super) source: Source<'a>,
    pub(super) key: String,
    pub(super) at: Range<usize>,
    pub(super) value: T,
}

impl<T: Display> Placed<'_, T> {
    pub(super) fn is_not(&self, wanted: &'static str) -> Error {
        self.source.error(&self.key, &self.at, Problem::Value { found: self.value.to_string(), wanted })
    }

    pub(super) fn breaks(&self, rule: &'static str) -> Error {
        let found = self.source.text.get(self.at.clone()).map_or_else(|| self.value.to_string(), str::to_owned);
        self.source.error(&self.key, &self.at, Problem::Rule { found, rule })
    }
}

impl Placed<'_, u64> {
    pub(super) fn at_least(&self, min: u64) -> Result<u64, Error> {
        if self.value < min { Err(self.breaks("too small")) } else { Ok(self.value) }
    }

    pub(super) fn within(&self, min: u64, max: u64) -> Result<u64, Error> {
        if self.value > max { Err(self.breaks("too large")) } else { self.at_least(min) }
    }
}

/// One table, from which known keys are taken; keys left at the end are unknown.
pub(super) struct Section<'a> {
    pub(super) source: Source<'a>,
    path: String,
    pub(super) at: Range<usize>,
    table: DeTable<'a>,
    known: Vec<&'static str>,
}

impl<'a> Section<'a> {
    pub(super) fn new(source: Source<'a>, path: &str, at: Range<usize>, table: DeTable<'a>) -> Self {
        Self { source, path: path.to_owned(), at, table, known: Vec::new() }
    }

    pub(super) fn key(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    pub(super) fn take(&mut self, name: &'static str) -> Option<Spanned<DeValue<'a>>> {
        self.known.push(name);
        let key = self.table.keys().find(|key| key.get_ref() == name)?.clone();
        self.table.remove(&key)
    }

    /// An error: the table conflicts with something else.
    pub(super) fn breaks(&self, rule: &'static str) -> Error {
        self.source.error(&self.path, &self.at, Problem::Rule { found: format!("[{}]", self.path), rule })
    }

    pub(super) fn missing(&self, name: &str, wanted: &'static str) -> Error {
        self.source.error(&self.key(name), &self.at, Problem::Missing { wanted })
    }

    pub(super) fn place<T>(&self, name: &str, at: Range<usize>, value: T) -> Placed<'a, T> {
        Placed { source: self.source, key: self.key(name), at, value }
    }

    /// An error: the value, as written in the file, has the wrong type.
    pub(super) fn mistyped(&self, name: &str, value: &Spanned<DeValue<'_>>, wanted: &'static str) -> Error {
        let found = self.source.text.get(value.span()).unwrap_or_default().to_owned();
        self.place(name, value.span(), found).is_not(wanted)
    }

    pub(super) fn optional_string(
        &mut self,
        name: &'static str,
        wanted: &'static str,
    ) -> Result<Option<Placed<'a, String>>, Error> {
        let Some(value) = self.take(name) else { return Ok(None) };
        match value.get_ref().as_str() {
            Some(text) => Ok(Some(self.place(name, value.span(), text.to_owned()))),
            None => Err(self.mistyped(name, &value, wanted)),
        }
    }

    pub(super) fn string(&mut self, name: &'static str, wanted: &'static str) -> Result<Placed<'a, String>, Error> {
        self.optional_string(name, wanted)?.ok_or_else(|| self.missing(name, wanted))
    }

    pub(super) fn text(&mut self, name: &'static str, wanted: &'static str) -> Result<String, Error> {
        let text = self.string(name, wanted)?;
        if text.value.trim().is_empty() { Err(text.is_not(wanted)) } else { Ok(text.value) }
    }

    /// The whole numbers of a list; none if there is no such key.
    pub(super) fn optional_integers(
        &mut self,
        name: &'static str,
        wanted: &'static str,
    ) -> Result<Vec<Placed<'a, u64>>, Error> {
        let Some(value) = self.take(name) else { return Ok(Vec::new()) };
        let number = |item: &Spanned<DeValue<'_>>| {
            let number = item.get_ref().as_integer()?;
            Some((item.span(), u64::from_str_radix(number.as_str(), number.radix()).ok()?))
        };
        let list = value.get_ref().as_array().and_then(|list| list.iter().map(number).collect::<Option<Vec<_>>>());
        let list = list.ok_or_else(|| self.mistyped(name, &value, wanted))?;
        Ok(list.into_iter().map(|(at, number)| self.place(name, at, number)).collect())
    }

    pub(super) fn optional_bool(&mut self, name: &'static str) -> Result<Option<bool>, Error> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let found = value.get_ref().as_bool();
        found.ok_or_else(|| self.mistyped(name, &value, "true or false")).map(Some)
    }

    /// The strings of a list; none if there is no such key.
    pub(super) fn optional_strings(
        &mut self,
        name: &'static str,
        wanted: &'static str,
    ) -> Result<Vec<Placed<'a, String>>, Error> {
        let Some(value) = self.take(name) else { return Ok(Vec::new()) };
        let string = |item: &Spanned<DeValue<'_>>| Some((item.span(), item.get_ref().as_str()?.to_owned()));
        let list = value.get_ref().as_array().and_then(|list| list.iter().map(string).collect::<Option<Vec<_>>>());
        let list = list.ok_or_else(|| self.mistyped(name, &value, wanted))?;
        Ok(list.into_iter().map(|(at, string)| self.place(name, at, string)).collect())
    }

    pub(super) fn optional_integer(
        &mut self,
        name: &'static str,
        wanted: &'static str,
    ) -> Result<Option<Placed<'a, u64>>, Error> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let number = value.get_ref().as_integer();
        match number.and_then(|number| u64::from_str_radix(number.as_str(), number.radix()).ok()) {
            Some(number) => Ok(Some(self.place(name, value.span(), number))),
            None => Err(self.mistyped(name, &value, wanted)),
        }
    }

    pub(super) fn integer(&mut self, name: &'static str, wanted: &'static str) -> Result<Placed<'a, u64>, Error> {
        self.optional_integer(name, wanted)?.ok_or_else(|| self.missing(name, wanted))
    }

    pub(super) fn optional_quantity(
        &mut self,
        name: &'static str,
        wanted: &'static str,
        read: fn(&str) -> Option<u64>,
    ) -> Result<Option<Placed<'a, u64>>, Error> {
        let Some(text) = self.optional_string(name, wanted)? else { return Ok(None) };
        let value = read(&text.value).ok_or_else(|| text.is_not(wanted))?;
        Ok(Some(self.place(name, text.at, value)))
    }

    pub(super) fn optional_size(&mut self, name: &'static str) -> Result<Option<Placed<'a, u64>>, Error> {
        self.optional_quantity(name, quantity::SIZE_WANTED, quantity::size)
    }

    pub(super) fn size(&mut self, name: &'static str) -> Result<Placed<'a, u64>, Error> {
        self.optional_size(name)?.ok_or_else(|| self.missing(name, quantity::SIZE_WANTED))
    }

    pub(super) fn duration(&mut self, name: &'static str) -> Result<Placed<'a, u64>, Error> {
        self.optional_duration(name)?.ok_or_else(|| self.missing(name, quantity::DURATION_WANTED))
    }

    pub(super) fn optional_duration(&mut self, name: &'static str) -> Result<Option<Placed<'a, u64>>, Error> {
        self.optional_quantity(name, quantity::DURATION_WANTED, quantity::duration)
    }

    pub(super) fn optional_rate(&mut self, name: &'static str) -> Result<Option<Placed<'a, u64>>, Error> {
        self.optional_quantity(name, quantity::RATE_WANTED, quantity::rate)
    }

    pub(super) fn rate(&mut self, name: &'static str) -> Result<Placed<'a, u64>, Error> {
        self.optional_rate(name)?.ok_or_else(|| self.missing(name, quantity::RATE_WANTED))
    }

    pub(super) fn optional_section(&mut self, name: &'static str) -> Result<Option<Section<'a>>, Error> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let at = value.span();
        match value.into_inner() {
            DeValue::Table(table) => Ok(Some(Section::new(self.source, &self.key(name), at, table))),
            other => Err(self.mistyped(name, &Spanned::new(at, other), "a table")),
        }
    }

    pub(super) fn section(&mut self, name: &'static str) -> Result<Section<'a>, Error> {
        self.optional_section(name)?.ok_or_else(|| self.missing(name, "a table"))
    }

    /// Every table in this one, in the order of the file: name, place, content.
    pub(super) fn sections(self) -> Result<Vec<(String, Range<usize>, Section<'a>)>, Error> {
        let mut all = Vec::new();
        for (key, value) in self.table {
            let (name, at) = (key.get_ref().to_string(), value.span());
            let path = format!("{}.{name}", self.path);
            match value.into_inner() {
                DeValue::Table(table) => all.push((name, at.clone(), Section::new(self.source, &path, at, table))),
                other => {
                    let found = format!("{other:?}");
                    return Err(Placed { source: self.source, key: path, at, value: found }.is_not("a table"));
                }
            }
        }
        all.sort_by_key(|(_, at, _)| at.start);
        Ok(all)
    }

    /// An error for the first key that was not taken.
    pub(super) fn end(self) -> Result<(), Error> {
        match self.table.keys().min_by_key(|key| key.span().start) {
            Some(key) => {
                let path = self.key(key.get_ref());
                Err(self.source.error(&path, &key.span(), Problem::Unknown { known: self.known }))
            }
            None => Ok(()),
        }
    }
}
