//! Reads a line of JSON, field by field: every error is kept, as `FILE:LINE:FIELD: …`.

use serde_json::{Map, Value};
use task_sched::Bytes;

use super::once;

/// The fields of an object, and what is wrong with them.
pub(super) struct Fields<'a> {
    place: String,
    map: &'a Map<String, Value>,
    /// Before each field's name: `phases[0].`.
    prefix: String,
    pub(super) errors: Vec<String>,
}

impl<'a> Fields<'a> {
    /// The fields of `map`, of which only `known` may stand there.
    pub(super) fn new(place: &str, prefix: &str, map: &'a Map<String, Value>, known: &[&str]) -> Fields<'a> {
        let mut fields =
            Fields { place: place.to_owned(), map, prefix: prefix.to_owned(), errors: Vec::new() };
        for key in map.keys().filter(|key| !known.contains(&key.as_str())) {
            fields.error(key, &format!("unknown field; expected {}", known.join(", ")));
        }
        fields
    }

    pub(super) fn error(&mut self, field: &str, what: &str) {
        self.errors.push(format!("{}:{}{field}: {what}", self.place, self.prefix));
    }

    /// A required field, read by `of`.
    fn get<T>(&mut self, field: &str, expected: &str, of: impl Fn(&'a Value) -> Option<T>) -> Option<T> {
        let found = self.map.get(field);
        let value = found.and_then(of);
        if value.is_none() {
            let what = found.map_or_else(|| "missing".to_owned(), |found| format!("found {found}"));
            self.error(field, &format!("{what}; expected {expected}"));
        }
        value
    }

    pub(super) fn whole(&mut self, field: &str) -> Option<u64> {
        self.get(field, "a whole number from 0 to 18446744073709551615", Value::as_u64)
    }

    /// Managed memory, which need not be given.
    pub(super) fn managed(&mut self) -> Option<Bytes> {
        if self.has("managed") { self.whole("managed").map(Bytes) } else { Some(Bytes(0)) }
    }

    pub(super) fn seconds(&mut self, field: &str) -> Option<f64> {
        self.get(field, "seconds, 0 or more", |v| v.as_f64().filter(|s| *s >= 0.0))
    }

    pub(super) fn share(&mut self, field: &str) -> Option<f64> {
        self.get(field, "a number from 0 to 1", |v| v.as_f64().filter(|s| (0.0..=1.0).contains(s)))
    }

    pub(super) fn flag(&mut self, field: &str) -> Option<bool> {
        self.get(field, "true or false", Value::as_bool)
    }

    pub(super) fn text(&mut self, field: &str) -> Option<&'a str> {
        self.get(field, "a text", Value::as_str)
    }

    pub(super) fn list(&mut self, field: &str) -> Option<&'a Vec<Value>> {
        self.get(field, "a list", Value::as_array)
    }

    pub(super) fn has(&self, field: &str) -> bool {
        self.map.contains_key(field)
    }
}

/// Position of an object, `FILE:LINE`, and the object.
type Object = (String, Map<String, Value>);

/// The objects of a file with their places, `FILE:LINE`; empty lines are left out. A line whose fields come twice is an
/// error for each of them.
pub(super) fn objects(file: &str, text: &str) -> Vec<Result<Object, String>> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(i, line)| {
            let place = format!("{file}:{}", i + 1);
            match once::read(line) {
                Ok((_, twice)) if !twice.is_empty() => {
                    let errors = twice.iter().map(|field| format!("{place}:{field}: comes twice"));
                    Err(errors.collect::<Vec<_>>().join("\n"))
                }
                Ok((Value::Object(map), _)) => Ok((place, map)),
                Ok(_) => Err(format!("{place}:1: expected an object in braces")),
                Err(e) => Err(format!("{place}:{}: not JSON: {e}", e.column())),
            }
        })
        .collect()
}
