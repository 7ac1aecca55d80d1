//! Reads a TOML table key by key. Wrong types and unknown keys become errors, and reading goes on.

use std::cell::RefCell;
use std::ops::{Range, RangeInclusive};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{Errors, suggest};

/// A raw value with its place in the text.
pub type Value<'i> = Spanned<DeValue<'i>>;

/// A table whose keys are asked for one by one. [`TableReader::finish`] reports those that nobody asked for.
pub struct TableReader<'a, 'i> {
    table: &'a DeTable<'i>,
    /// Place of the header, for errors about missing keys.
    pub span: Range<usize>,
    /// Name of the table, such as `mps`; empty for the top level.
    name: &'static str,
    /// Collector of the errors.
    pub errors: &'a Errors<'a>,
    asked: RefCell<Vec<&'static str>>,
}

/// A value that was read, with its place for later errors.
pub struct At<T> {
    /// The value that was read.
    pub value: T,
    /// Place in the text.
    pub span: Range<usize>,
}

impl<'a, 'i> TableReader<'a, 'i> {
    /// Reads this table, which the file calls `name`.
    pub fn new(
        table: &'a DeTable<'i>,
        span: Range<usize>,
        name: &'static str,
        errors: &'a Errors<'a>,
    ) -> Self {
        Self { table, span, name, errors, asked: RefCell::default() }
    }

    /// The raw value of a key.
    pub fn get(&self, key: &'static str) -> Option<&'a Value<'i>> {
        let mut asked = self.asked.borrow_mut();
        if !asked.contains(&key) {
            asked.push(key);
        }
        self.table.get(key)
    }

    /// Tells whether the key is there. This does not count as asking for it.
    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// The place of the key, not of its value.
    pub fn key_span(&self, key: &str) -> Range<usize> {
        self.table.get_key_value(key).map_or(self.span.clone(), |(k, _)| k.span())
    }

    /// A string that `read` turns into a value, or into an error and a hint.
    pub fn parsed<T>(
        &self,
        key: &'static str,
        read: impl FnOnce(&str) -> Result<T, (String, Option<String>)>,
    ) -> Option<At<T>> {
        let text = self.string(key)?;
        match read(&text.value) {
            Ok(value) => Some(At { value, span: text.span }),
            Err((what, hint)) => {
                self.errors.push(text.span, what, hint);
                None
            }
        }
    }

    /// Reads a string.
    pub fn string(&self, key: &'static str) -> Option<At<String>> {
        let value = self.get(key)?;
        self.as_string(value, key).map(|v| At { value: v, span: value.span() })
    }

    /// Reads a value that is one of a few words.
    pub fn word<T: Clone>(&self, key: &'static str, words: &[(&str, T)]) -> Option<T> {
        self.parsed(key, |text| pick(key, text, words)).map(|at| at.value)
    }

    /// Reads `true` or `false`.
    pub fn boolean(&self, key: &'static str) -> Option<bool> {
        let value = self.get(key)?;
        let read = value.get_ref().as_bool();
        if read.is_none() {
            self.wrong_type(value, key, "true or false");
        }
        read
    }

    /// A whole number in `range`, whose end is excluded.
    pub fn number(&self, key: &'static str, range: Range<u64>) -> Option<At<u64>> {
        let value = self.get(key)?;
        let Some(number) = value.get_ref().as_integer() else {
            self.wrong_type(value, key, "a whole number");
            return None;
        };
        let read = i128::from_str_radix(&number.as_str().replace('_', ""), number.radix()).ok();
        let read = read.and_then(|n| u64::try_from(n).ok()).filter(|n| range.contains(n));
        if read.is_none() {
            let what = format!("{key} = {number} is out of range");
            let hint = format!("use {} to {}", range.start, range.end - 1);
            self.errors.push(value.span(), what, Some(hint));
        }
        read.map(|value_| At { value: value_, span: value.span() })
    }

    /// A number in `range`, with or without a point.
    pub fn decimal(&self, key: &'static str, range: RangeInclusive<f64>) -> Option<f64> {
        let value = self.get(key)?;
        let text = match value.get_ref() {
            DeValue::Integer(i) => i.as_str(),
            DeValue::Float(f) => f.as_str(),
            _ => {
                self.wrong_type(value, key, "a number");
                return None;
            }
        };
        let read = text.replace('_', "").parse().ok().filter(|n| range.contains(n));
        if read.is_none() {
            let hint = format!("use {} to {}", range.start(), range.end());
            self.errors.push(value.span(), format!("{key} = {text} is out of range"), Some(hint));
        }
        read
    }

    /// An array of strings; `None` if the key is absent or not an array.
    pub fn strings(&self, key: &'static str) -> Option<Vec<At<String>>> {
        let value = self.get(key)?;
        let Some(array) = value.get_ref().as_array() else {
            self.wrong_type(value, key, "an array of strings");
            return None;
        };
        let item = |v: &Value<'i>| self.as_string(v, key).map(|text| At { value: text, span: v.span() });
        Some(array.iter().filter_map(item).collect())
    }

    /// The table that is the value of a key.
    pub fn table(&self, key: &'static str) -> Option<TableReader<'a, 'i>> {
        let value = self.get(key)?;
        let table = value.get_ref().as_table();
        if table.is_none() {
            self.wrong_type(value, key, "a table");
        }
        table.map(|t| TableReader::new(t, value.span(), key, self.errors))
    }

    /// The entries of the table that is the value of a key, whatever their keys are.
    pub fn entries(&self, key: &'static str) -> Vec<(At<String>, &'a Value<'i>)> {
        let Some(value) = self.get(key) else { return Vec::new() };
        let Some(table) = value.get_ref().as_table() else {
            self.wrong_type(value, key, "a table");
            return Vec::new();
        };
        let entry = |(k, v): (&'a Spanned<std::borrow::Cow<'i, str>>, &'a Value<'i>)| {
            (At { value: k.get_ref().to_string(), span: k.span() }, v)
        };
        table.iter().map(entry).collect()
    }

    /// The tables of an array of tables.
    pub fn tables(&self, key: &'static str) -> Vec<TableReader<'a, 'i>> {
        let Some(value) = self.get(key) else { return Vec::new() };
        let Some(array) = value.get_ref().as_array() else {
            self.errors.push(
                value.span(),
                format!("[{key}] must be an array of tables"),
                Some(format!("write [[{key}]]")),
            );
            return Vec::new();
        };
        let mut tables = Vec::new();
        for item in array.iter() {
            match item.get_ref().as_table() {
                Some(t) => tables.push(TableReader::new(t, item.span(), key, self.errors)),
                None => self.wrong_type(item, key, "a table"),
            }
        }
        tables
    }

    /// Reports the keys that were never asked for.
    pub fn finish(self) {
        let asked = self.asked.into_inner();
        for (key, _) in self.table.iter().filter(|(k, _)| !asked.contains(&k.get_ref().as_ref())) {
            let name = key.get_ref();
            let place = if self.name.is_empty() { String::new() } else { format!(" in [{}]", self.name) };
            self.errors.push(key.span(), format!("unknown key {name}{place}"), Some(suggest(name, &asked)));
        }
    }

    /// Reports a value that is not the `wanted` type.
    pub fn wrong_type(&self, value: &Value<'i>, key: &str, wanted: &str) {
        let what = format!("{key} is {}, not {wanted}", type_name(value.get_ref()));
        self.errors.push(value.span(), what, None);
    }

    /// Takes a value for a string, or reports that it is none.
    pub fn as_string(&self, value: &Value<'i>, key: &str) -> Option<String> {
        let read = value.get_ref().as_str().map(str::to_owned);
        if read.is_none() {
            let what = format!("{key} is {}, not a string", type_name(value.get_ref()));
            let bare = value.get_ref().is_integer();
            self.errors.push(value.span(), what, bare.then(|| "put it in quotes".to_owned()));
        }
        read
    }
}

/// The meaning of `text` among `words`, or the error that names them.
pub fn pick<T: Clone>(key: &str, text: &str, words: &[(&str, T)]) -> Result<T, (String, Option<String>)> {
    words.iter().find(|(word, _)| *word == text).map(|(_, meaning)| meaning.clone()).ok_or_else(|| {
        let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        (format!("{key} cannot be {text:?}"), Some(suggest(text, &names)))
    })
}

fn type_name(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a number",
        DeValue::Float(_) => "a number with a point",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}
