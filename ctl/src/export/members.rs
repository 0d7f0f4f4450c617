//! The members of a JSON object, one after the other, without a table of them.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value as Json;

use flightrec_export::Value;

/// Gives each member of an object that has a value: a list or an object as its JSON.
///
/// # Errors
/// It is no object of JSON.
pub(super) fn read(json: &[u8], each: &mut dyn FnMut(&str, Value<'_>)) -> serde_json::Result<()> {
    if flat(json, each).is_some() {
        return Ok(());
    }
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    deserializer.deserialize_map(Members { each })
}

/// The same of an object that has neither lists nor objects, nor texts with a `\`; `None`, and
/// nothing is given: it is not so. Most are, and this is several times as fast.
fn flat(json: &[u8], each: &mut dyn FnMut(&str, Value<'_>)) -> Option<()> {
    let inner = json.trim_ascii_end().strip_prefix(b"{")?.strip_suffix(b"}")?;
    if inner.iter().any(|byte| matches!(byte, b'\\' | b'[' | b'{')) {
        return None;
    }
    let mut rest = std::str::from_utf8(inner).ok()?;
    // Nothing may be given before all is known to be so.
    let mut members: [(&str, Value<'_>); FLAT_MAX] = [("", Value::Signed(0)); FLAT_MAX];
    let mut count = 0;
    while !rest.is_empty() {
        let (name, after) = until(rest.strip_prefix('"')?, b'"')?;
        let after = after.strip_prefix("\":")?;
        let value = if let Some(text) = after.strip_prefix('"') {
            let (text, after) = until(text, b'"')?;
            rest = after.get(1..)?;
            Some(Value::Text(text))
        } else {
            let (word, after) = until(after, b',').unwrap_or((after, ""));
            rest = after;
            match word {
                "null" => None,
                "true" | "false" => Some(Value::Text(word)),
                _ => Some(match word.parse() {
                    Ok(number) => Value::Signed(number),
                    Err(_) => Value::Unsigned(word.parse().ok()?),
                }),
            }
        };
        if let Some(value) = value {
            *members.get_mut(count)? = (name, value);
            count += 1;
        }
        rest = match rest.strip_prefix(',') {
            Some(after) => after,
            None if rest.is_empty() => rest,
            None => return None,
        };
    }
    for (name, value) in members.iter().take(count) {
        each(name, *value);
    }
    Some(())
}

/// What stands before the first such character, and the rest with it. These are some bytes each:
/// no search for long texts is worth its beginning.
#[inline]
fn until(text: &str, end: u8) -> Option<(&str, &str)> {
    let at = text.bytes().position(|byte| byte == end)?;
    text.split_at_checked(at)
}

/// Most members of an object that is read so.
const FLAT_MAX: usize = 32;

struct Members<'a> {
    each: &'a mut dyn FnMut(&str, Value<'_>),
}

impl<'de> Visitor<'de> for Members<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some((name, member)) = map.next_entry::<Member<'de>, Member<'de>>()? {
            let Member::Text(name) = name else { continue };
            match member {
                Member::Null => {}
                Member::Signed(value) => (self.each)(&name, Value::Signed(value)),
                Member::Unsigned(value) => (self.each)(&name, Value::Unsigned(value)),
                Member::Text(text) => (self.each)(&name, Value::Text(&text)),
            }
        }
        Ok(())
    }
}

/// A name or a value.
enum Member<'de> {
    Null,
    Signed(i64),
    Unsigned(u64),
    Text(Cow<'de, str>),
}

impl<'de> Deserialize<'de> for Member<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Any)
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Member<'de>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Member::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Member::Text(if value { "true" } else { "false" }.into()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Member::Signed(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        Ok(i64::try_from(value).map_or(Member::Unsigned(value), Member::Signed))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Member::Text(Json::from(value).to_string().into()))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Member::Text(text.into()))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Member::Text(text.to_owned().into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        let list = Json::deserialize(SeqAccessDeserializer::new(list))?;
        Ok(Member::Text(list.to_string().into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let map = Json::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Member::Text(map.to_string().into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flat_objects_are_read_as_others() {
        let json = br#"{"a":1,"b":-2,"c":18446744073709551615,"d":null,"e":"x,y}","i":false}
"#;
        let mut all = Vec::new();
        flat(json, &mut |name, value| all.push(format!("{name} {value:?}"))).expect("it is flat");
        let expected = [
            "a Signed(1)",
            "b Signed(-2)",
            "c Unsigned(18446744073709551615)",
            r#"e Text("x,y}")"#,
            r#"i Text("false")"#,
        ];
        assert_eq!(all, expected);
        let mut slow = Vec::new();
        let mut deserializer = serde_json::Deserializer::from_slice(json);
        let each = &mut |name: &str, value: Value<'_>| slow.push(format!("{name} {value:?}"));
        deserializer.deserialize_map(Members { each }).unwrap();
        assert_eq!(all, slow);
        for other in [r#"{"a":[1]}"#, r#"{"a":"\\"}"#, r#"{"a":1.5}"#, r#"{"a":1"b":2}"#, "[]"] {
            let none = &mut |name: &str, _: Value<'_>| panic!("{name} of {other}");
            assert!(flat(other.as_bytes(), none).is_none());
        }
    }

    #[test]
    fn members_come_one_by_one() {
        let json = br#"{"a":1,"b":-2,"c":18446744073709551615,"d":null,"e":"x\ny","f":[1,"z"],
                        "g":{"h":true},"i":false,"j":1.5}"#;
        let mut all = Vec::new();
        read(json, &mut |name, value| all.push(format!("{name} {value:?}"))).unwrap();
        assert_eq!(
            all,
            [
                "a Signed(1)",
                "b Signed(-2)",
                "c Unsigned(18446744073709551615)",
                r#"e Text("x\ny")"#,
                r#"f Text("[1,\"z\"]")"#,
                r#"g Text("{\"h\":true}")"#,
                r#"i Text("false")"#,
                r#"j Text("1.5")"#,
            ]
        );
        assert!(read(b"[]", &mut |_, _| ()).is_err());
    }
}
