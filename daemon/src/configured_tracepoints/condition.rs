//! `when`: a condition on the fields that a tracepoint publishes, and what the program in the
//! kernel is told of it.
//!
//! ```text
//! condition = all { "||" all }
//! all       = one { "&&" one }
//! one       = "(" condition ")" | field ("==" | "!=" | "<" | "<=" | ">" | ">=" | "&") value
//! field     = name [ "[" number "]" ]
//! value     = number | "0x" hexadecimal | "text" | 'text'
//! ```

use flightrec_format::abi::record::tracepoint::{BYTES_MAX, COMMON};
use flightrec_format::abi::tracepoint::{
    FORM_PART, FORM_SIGNED, FORM_TEXT, FORM_UNSIGNED, OP_ANY, OP_EQ, OP_GE, OP_GT, OP_LE, OP_LT,
    OP_NE, RELATIVE, TESTS, TEXT_MAX, Test,
};
use flightrec_format::meta::{Field, Place, ValueForm};

/// A condition as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// One of them must hold.
    Any(Vec<Condition>),
    /// Each of them must hold.
    All(Vec<Condition>),
    /// A comparison.
    One(Comparison),
}

/// A comparison as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    field: String,
    /// Which number of an array.
    index: Option<u16>,
    op: u32,
    value: Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Value {
    /// A number, negative or not.
    Number(i128),
    Text(String),
}

/// Operators, longer ones first.
const OPS: [(&str, u32); 7] = [
    ("==", OP_EQ),
    ("!=", OP_NE),
    ("<=", OP_LE),
    (">=", OP_GE),
    ("<", OP_LT),
    (">", OP_GT),
    ("&", OP_ANY),
];

impl Condition {
    /// Reads one; what is wrong with it, and what would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser { rest: text.trim(), depth: 0 };
        let condition = parser.any()?;
        if !parser.rest.is_empty() {
            return Err(format!("\"{}\" is left over; join comparisons by && or ||", parser.rest));
        }
        let count = condition.count();
        if count > TESTS {
            return Err(format!("{count} comparisons are more than the {TESTS} that there may be"));
        }
        Ok(condition)
    }

    fn count(&self) -> usize {
        match self {
            Self::Any(of) | Self::All(of) => of.iter().map(Self::count).sum(),
            Self::One(_) => 1,
        }
    }

    /// The comparisons for the program, by a tracepoint's fields.
    pub fn compile(&self, fields: &[Field]) -> Result<Vec<Test>, String> {
        let mut tests = Vec::new();
        self.emit(fields, Test::YES, Test::NO, &mut tests)?;
        Ok(tests)
    }

    fn emit(
        &self,
        fields: &[Field],
        then: u32,
        otherwise: u32,
        tests: &mut Vec<Test>,
    ) -> Result<(), String> {
        let (of, is_any) = match self {
            Self::One(comparison) => {
                tests.push(Test { then, otherwise, ..comparison.compile(fields)? });
                return Ok(());
            }
            Self::Any(of) => (of, true),
            Self::All(of) => (of, false),
        };
        for (i, condition) in of.iter().enumerate() {
            let after = (tests.len() + condition.count()) as u32;
            let (then, otherwise) = match (i + 1 == of.len(), is_any) {
                (true, _) => (then, otherwise),
                (false, true) => (then, after),
                (false, false) => (after, otherwise),
            };
            condition.emit(fields, then, otherwise, tests)?;
        }
        Ok(())
    }
}

impl Comparison {
    fn compile(&self, fields: &[Field]) -> Result<Test, String> {
        let Some(field) = fields.iter().find(|of| of.name == self.field) else {
            let names: Vec<&str> = fields.iter().map(|of| &*of.name).collect();
            let names = names.join(", ");
            return Err(format!("it has no field `{}`; its fields are: {names}", self.field));
        };
        let here = u32::from(field.at).saturating_sub(COMMON as u32);
        match (field.value, &self.value, self.index) {
            (ValueForm::Number, Value::Number(number), None) => {
                self.number(field, here, field.size, *number)
            }
            (ValueForm::Array, Value::Number(number), Some(index))
                if field.place == Place::Here && matches!(field.width, 1 | 2 | 4 | 8) =>
            {
                let width = u16::from(field.width);
                if (index + 1) * width > field.size {
                    let last = field.size / width;
                    return Err(format!("`{}` has {last} numbers, from 0 on", self.field));
                }
                self.number(field, here + u32::from(index * width), width, *number)
            }
            (ValueForm::Text, Value::Text(text), None) => self.text(field, here, text),
            (ValueForm::Number, Value::Text(_), None) => {
                Err(format!("`{}` is a number: compare it with one", self.field))
            }
            (ValueForm::Text, Value::Number(_), None) => Err(format!(
                "`{}` is a text: compare it with one in quotes, like '{0}'",
                self.field
            )),
            (ValueForm::Array, _, _) if field.place == Place::Here => Err(format!(
                "`{}` has several numbers: compare one of them, like {0}[0]",
                self.field
            )),
            (ValueForm::Number | ValueForm::Text, _, Some(_)) => {
                Err(format!("`{}` is not an array", self.field))
            }
            _ => Err(format!("`{}` can't be compared: its length is not fixed", self.field)),
        }
    }

    fn number(&self, field: &Field, at: u32, size: u16, number: i128) -> Result<Test, String> {
        if at as usize + usize::from(size) > BYTES_MAX {
            return Err(self.too_far());
        }
        let bits = 8 * u32::from(size);
        let (least, most) = if field.signed {
            (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
        } else {
            (0, (1i128 << bits) - 1)
        };
        let is_of_bits = self.op == OP_ANY && (0..1i128 << bits).contains(&number);
        // An error in a number without a sign: what it then is.
        let is_wrapped = number < 0 && !field.signed && [OP_EQ, OP_NE].contains(&self.op);
        let number = if is_wrapped { number + (1i128 << bits) } else { number };
        if !is_of_bits && !(least..=most).contains(&number) {
            return Err(format!(
                "`{}` is never {number}: it is within {least} to {most}",
                self.field
            ));
        }
        Ok(Test {
            at,
            form: if field.signed { FORM_SIGNED } else { FORM_UNSIGNED },
            op: self.op,
            shift: 64 - bits,
            value: number as u64,
            ..Test::NONE
        })
    }

    fn text(&self, field: &Field, at: u32, text: &str) -> Result<Test, String> {
        if ![OP_EQ, OP_NE].contains(&self.op) {
            return Err(format!("`{}` is a text: compare it by == or !=", self.field));
        }
        if text.len() >= TEXT_MAX {
            return Err(format!("the text has more than {} bytes", TEXT_MAX - 1));
        }
        if at as usize + usize::from(field.size) > BYTES_MAX {
            return Err(self.too_far());
        }
        let (mut bytes, mut mask) = ([0; TEXT_MAX], [0; TEXT_MAX]);
        for ((byte, bits), of) in bytes.iter_mut().zip(&mut mask).zip(text.bytes()) {
            (*byte, *bits) = (of, 0xff);
        }
        let words = |bytes: [u8; TEXT_MAX]| {
            let (words, _) = bytes.as_chunks();
            let mut out = [0; TEXT_MAX / 8];
            out.iter_mut().zip(words).for_each(|(out, word)| *out = u64::from_le_bytes(*word));
            out
        };
        let relative = if field.place == Place::RelLoc { RELATIVE } else { 0 };
        Ok(Test {
            at: at | relative,
            form: if field.place == Place::Here { FORM_TEXT } else { FORM_PART },
            op: self.op,
            size: field.size.into(),
            length: text.len() as u32,
            text: words(bytes),
            mask: words(mask),
            ..Test::NONE
        })
    }

    fn too_far(&self) -> String {
        format!("`{}` is after the first {BYTES_MAX} bytes, which are recorded", self.field)
    }
}

/// Deepest nesting of parentheses.
const DEPTH_MAX: u32 = 32;

struct Parser<'a> {
    rest: &'a str,
    depth: u32,
}

impl Parser<'_> {
    fn any(&mut self) -> Result<Condition, String> {
        self.joined("||", Self::all, Condition::Any)
    }

    fn all(&mut self) -> Result<Condition, String> {
        self.joined("&&", Self::one, Condition::All)
    }

    fn joined(
        &mut self,
        by: &str,
        part: fn(&mut Self) -> Result<Condition, String>,
        join: fn(Vec<Condition>) -> Condition,
    ) -> Result<Condition, String> {
        let first = part(self)?;
        let mut parts = vec![first];
        while self.take(by) {
            parts.push(part(self)?);
        }
        match parts.pop() {
            Some(only) if parts.is_empty() => Ok(only),
            last => {
                parts.extend(last);
                Ok(join(parts))
            }
        }
    }

    fn one(&mut self) -> Result<Condition, String> {
        if !self.take("(") {
            return self.comparison().map(Condition::One);
        }
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("too many parentheses".into());
        }
        let inside = self.any()?;
        self.depth -= 1;
        if self.take(")") { Ok(inside) } else { Err("a parenthesis is not closed".into()) }
    }

    fn comparison(&mut self) -> Result<Comparison, String> {
        let field = self.word();
        if field.is_empty() || field.starts_with(|c: char| c.is_ascii_digit()) {
            let there = if self.rest.is_empty() && field.is_empty() {
                "the end".to_owned()
            } else {
                format!("\"{field}{}\"", self.rest)
            };
            return Err(format!("the name of a field is expected instead of {there}"));
        }
        let index = if self.take("[") {
            let index = self.word().parse().ok().filter(|_| self.take("]"));
            Some(index.ok_or_else(|| format!("`{field}[` wants a number and `]`"))?)
        } else {
            None
        };
        let op = OPS.iter().find(|(sign, op)| {
            let is_and = *op == OP_ANY && self.rest.starts_with("&&");
            !is_and && self.take(sign)
        });
        let Some((_, op)) = op else {
            return Err(format!("after `{field}` one of ==, !=, <, <=, >, >= or & is expected"));
        };
        Ok(Comparison { field, index, op: *op, value: self.value()? })
    }

    fn value(&mut self) -> Result<Value, String> {
        for quote in ['"', '\''] {
            let Some(rest) = self.rest.strip_prefix(quote) else { continue };
            let Some((text, rest)) = rest.split_once(quote) else {
                return Err("a text is not closed".into());
            };
            self.rest = rest.trim_start();
            return Ok(Value::Text(text.to_owned()));
        }
        let sign = if self.take("-") { -1 } else { 1 };
        let word = self.word();
        let number = match word.strip_prefix("0x") {
            Some(hex) => i128::from_str_radix(hex, 16).ok(),
            None => word.parse().ok(),
        };
        // No field has more bits.
        let number = number.filter(|number: &i128| (0..=i128::from(u64::MAX)).contains(number));
        let wrong = || {
            format!(
                "\"{word}{}\" is no number: write 12, -12, 0x1f, or a text in quotes",
                self.rest
            )
        };
        number.map(|number| Value::Number(sign * number)).ok_or_else(wrong)
    }

    /// Takes a word, which may be empty.
    fn word(&mut self) -> String {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = self.rest.find(|c| !is_word(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        word.to_owned()
    }

    /// Takes a sign, if that is next.
    fn take(&mut self, sign: &str) -> bool {
        let Some(rest) = self.rest.strip_prefix(sign) else { return false };
        self.rest = rest.trim_start();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields() -> Vec<Field> {
        let number = |name: &str, at, size, signed| Field {
            name: name.into(),
            at,
            size,
            signed,
            width: size as u8,
            ..Field::default()
        };
        let text = |name: &str, at, size, place| Field {
            name: name.into(),
            at,
            size,
            place,
            value: ValueForm::Text,
            width: 1,
            ..Field::default()
        };
        vec![
            number("ret", 8, 4, true),
            number("flags", 12, 4, false),
            number("ino", 16, 8, false),
            text("comm", 24, 16, Place::Here),
            text("name", 40, 4, Place::DataLoc),
            text("more", 44, 4, Place::RelLoc),
            Field { value: ValueForm::Array, width: 8, ..number("args", 48, 48, false) },
            number("far", 600, 4, false),
        ]
    }

    fn compiled(text: &str) -> Result<Vec<Test>, String> {
        Condition::parse(text)?.compile(&fields())
    }

    #[test]
    fn comparisons_know_their_fields() {
        let one = |text| match &compiled(text).unwrap()[..] {
            [test] => *test,
            tests => panic!("{tests:?}"),
        };
        let yes = Test { then: Test::YES, otherwise: Test::NO, ..Test::NONE };
        let ret = Test { form: FORM_SIGNED, shift: 32, ..yes };
        assert_eq!(one("ret != 0"), Test { op: OP_NE, ..ret });
        assert_eq!(one(" ret<-5 "), Test { op: OP_LT, value: -5i64 as u64, ..ret });
        assert_eq!(one("flags&0x1f"), Test { at: 4, op: OP_ANY, shift: 32, value: 31, ..yes });
        assert_eq!(one("ret & 0x80000000").value, 0x8000_0000, "its sign");
        let ino = one("ino == -1");
        assert_eq!((ino.at, ino.shift, ino.value), (8, 0, u64::MAX));
        let arg = one("args[5] >= 7");
        assert_eq!((arg.at, arg.op, arg.shift), (80, OP_GE, 0));
        let comm = one("comm == 'a \"b'");
        assert_eq!((comm.at, comm.form, comm.size, comm.length), (16, FORM_TEXT, 16, 4));
        assert_eq!(
            (comm.text[0], comm.mask[0]),
            (u64::from_le_bytes(*b"a \"b\0\0\0\0"), 0xffff_ffff)
        );
        let name = one("name != \"\"");
        assert_eq!((name.at, name.form, name.op, name.length), (32, FORM_PART, OP_NE, 0));
        assert_eq!(one("more == 'x'").at, 0x24 | RELATIVE);
    }

    /// The condition by its comparisons, as the program goes through them.
    fn holds(tests: &[Test], met: impl Fn(&Test) -> bool) -> bool {
        let mut next = 0;
        for (i, test) in tests.iter().enumerate() {
            if next == i as u32 {
                next = if met(test) { test.then } else { test.otherwise };
                assert!(next > i as u32, "only forward");
            }
        }
        assert!([Test::YES, Test::NO].contains(&next));
        next == Test::YES
    }

    #[test]
    fn and_binds_more_than_or() {
        type Rule = fn([bool; 4]) -> bool;
        let cases: [(&str, Rule); 6] = [
            ("ino == 0 && ino == 1", |[a, b, ..]| a && b),
            ("ino == 0 || ino == 1", |[a, b, ..]| a || b),
            ("ino==0 || ino==1 && ino==2", |[a, b, c, _]| a || b && c),
            ("ino==0 && ino==1 || ino==2", |[a, b, c, _]| a && b || c),
            ("(ino==0 || ino==1) && (ino==2 || ino==3)", |[a, b, c, d]| (a || b) && (c || d)),
            ("((ino==0 && ino==1) || ino==2) && ino==3", |[a, b, c, d]| (a && b || c) && d),
        ];
        for (text, rule) in cases {
            let tests = compiled(text).unwrap();
            for bits in 0..16u64 {
                let of = |i: u64| bits >> i & 1 != 0;
                let found = holds(&tests, |test| of(test.value));
                assert_eq!(found, rule([of(0), of(1), of(2), of(3)]), "{text} {bits:b}");
            }
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let many = ["ret == 1"; TESTS + 1].join(" || ");
        let long = format!("comm == '{}'", "x".repeat(TEXT_MAX));
        let cases = [
            ("", "the name of a field is expected instead of the end"),
            ("ret", "after `ret` one of"),
            ("ret && ret == 1", "after `ret` one of"),
            ("ret = 1", "after `ret` one of"),
            ("ret == ", "\"\" is no number"),
            ("ret == x1", "\"x1\" is no number"),
            ("ret == 99999999999999999999", "is no number"),
            ("ret == 1 ret == 2", "\"ret == 2\" is left over"),
            ("(ret == 1", "a parenthesis is not closed"),
            ("comm == 'x", "a text is not closed"),
            ("5 == ret", "the name of a field is expected instead of \"5== ret\""),
            ("err != 0", "it has no field `err`; its fields are: ret, flags, ino, comm, name"),
            ("ret == 0xffffffff", "`ret` is never 4294967295: it is within -2147483648 to"),
            ("flags > -1", "`flags` is never -1: it is within 0 to 4294967295"),
            ("comm == 5", "`comm` is a text: compare it with one in quotes, like 'comm'"),
            ("comm < 'x'", "`comm` is a text: compare it by == or !="),
            ("ret == 'x'", "`ret` is a number"),
            ("args == 1", "`args` has several numbers: compare one of them, like args[0]"),
            ("args[6] == 1", "`args` has 6 numbers, from 0 on"),
            ("args[x] == 1", "`args[` wants a number and `]`"),
            ("ret[0] == 1", "`ret` is not an array"),
            ("far == 1", "`far` is after the first 512 bytes"),
            (&many, "17 comparisons are more than the 16"),
            (&long, "the text has more than 63 bytes"),
        ];
        for (text, expected) in cases {
            let error = compiled(text).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
        let deep = "(".repeat(100_000);
        assert_eq!(compiled(&deep), Err("too many parentheses".into()));
    }
}
