//! JSON in which a field that comes twice is seen: serde_json itself keeps the last one.

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// A line's value, and the fields that come twice, as `phases[0].mem`.
///
/// # Errors
///
/// It is not JSON.
pub(super) fn read(line: &str) -> Result<(Value, Vec<String>), serde_json::Error> {
    let mut twice = Vec::new();
    let mut json = serde_json::Deserializer::from_str(line);
    let value = UniqueKeys { path: String::new(), twice: &mut twice }.deserialize(&mut json)?;
    json.end()?;
    Ok((value, twice))
}

/// Reads the value at `path`.
struct UniqueKeys<'a> {
    path: String,
    twice: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for UniqueKeys<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for UniqueKeys<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(Value::Bool(v))
    }

    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(Value::Number(v.into()))
    }

    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(Value::Number(v.into()))
    }

    fn visit_f64<E>(self, v: f64) -> Result<Value, E> {
        Ok(Number::from_f64(v).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(Value::String(v.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut of: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        let UniqueKeys { path, twice } = self;
        while let Some(value) =
            of.next_element_seed(UniqueKeys { path: format!("{path}[{}]", list.len()), twice: &mut *twice })?
        {
            list.push(value);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut of: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        let UniqueKeys { path, twice } = self;
        while let Some(key) = of.next_key::<String>()? {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            let value = of.next_value_seed(UniqueKeys { path: path.clone(), twice: &mut *twice })?;
            if map.insert(key, value).is_some() {
                twice.push(path);
            }
        }
        Ok(Value::Object(map))
    }
}
