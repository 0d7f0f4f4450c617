//! Expressions of C in a `print fmt`, as far as they tell a number, or a part of a field.

/// An expression that is understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expression {
    /// A number.
    Number(u64),
    /// Bits of a field: its name, how far it is shifted to the right, which bits count then.
    Field(String, u32, u64),
}

/// Deepest nesting that is followed.
const DEPTH_MAX: u32 = 200;

/// Reads one; `None`: it is another.
pub(super) fn parse(text: &str) -> Option<Expression> {
    let tokens = tokens(text)?;
    let mut parser = Parser { tokens: &tokens, depth: 0 };
    let found = parser.binary(0)?;
    parser.tokens.is_empty().then_some(found)
}

impl Expression {
    /// Its field, shift and mask, where it is of one.
    pub(super) fn of_field(self) -> Option<(String, u32, u64)> {
        match self {
            Self::Field(name, shift, mask) => Some((name, shift, mask)),
            Self::Number(_) => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Number(u64),
    Word(String),
    Sign(&'static str),
}

/// Signs, longer ones first.
const SIGNS: [&str; 16] =
    ["->", "<<", ">>", "(", ")", "*", "/", "%", "+", "-", "&", "^", "|", "~", "[", "]"];

fn tokens(text: &str) -> Option<Vec<Token>> {
    let mut out = Vec::new();
    let mut rest = text.trim_start();
    while let Some(c) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if is_word(c) {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            out.push(if c.is_ascii_digit() {
                Token::Number(number(word)?)
            } else {
                Token::Word(word.to_owned())
            });
            rest = after.trim_start();
            continue;
        }
        let sign = SIGNS.into_iter().find(|sign| rest.starts_with(sign))?;
        out.push(Token::Sign(sign));
        rest = rest.get(sign.len()..)?.trim_start();
    }
    Some(out)
}

fn number(word: &str) -> Option<u64> {
    let digits = word.trim_end_matches(['u', 'U', 'l', 'L']);
    match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None if digits.len() > 1 && digits.starts_with('0') => u64::from_str_radix(digits, 8).ok(),
        None => digits.parse().ok(),
    }
}

struct Parser<'a> {
    tokens: &'a [Token],
    depth: u32,
}

/// Operators, those that bind least first.
const LEVELS: [&[&str]; 6] = [&["|"], &["^"], &["&"], &["<<", ">>"], &["+", "-"], &["*", "/", "%"]];

impl Parser<'_> {
    fn binary(&mut self, level: usize) -> Option<Expression> {
        let Some(signs) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        while let Some((Token::Sign(sign), rest)) = self.tokens.split_first()
            && signs.contains(sign)
        {
            self.tokens = rest;
            left = join(sign, left, self.binary(level + 1)?)?;
        }
        Some(left)
    }

    fn unary(&mut self) -> Option<Expression> {
        self.depth += 1;
        let found = (self.depth < DEPTH_MAX).then(|| self.operand()).flatten();
        self.depth -= 1;
        found
    }

    fn operand(&mut self) -> Option<Expression> {
        let (first, rest) = self.tokens.split_first()?;
        match first {
            Token::Number(number) => {
                self.tokens = rest;
                Some(Expression::Number(*number))
            }
            Token::Word(word) if word == "REC" => {
                let [Token::Sign("->"), Token::Word(name), rest @ ..] = rest else { return None };
                self.tokens = rest;
                Some(Expression::Field(name.clone(), 0, u64::MAX))
            }
            Token::Sign(sign @ ("-" | "~" | "+")) => {
                self.tokens = rest;
                let Expression::Number(number) = self.unary()? else { return None };
                Some(Expression::Number(match *sign {
                    "-" => number.wrapping_neg(),
                    "~" => !number,
                    _ => number,
                }))
            }
            Token::Sign("(") => {
                if let Some(rest) = after_cast(rest) {
                    self.tokens = rest;
                    return self.unary();
                }
                self.tokens = rest;
                let inside = self.binary(0)?;
                let (Token::Sign(")"), rest) = self.tokens.split_first()? else { return None };
                self.tokens = rest;
                Some(inside)
            }
            _ => None,
        }
    }
}

/// What stands after the name of a type and its parenthesis; `None`: it is something else. Numbers
/// are taken to be of 64 bits whatever the type is.
fn after_cast(tokens: &[Token]) -> Option<&[Token]> {
    let end = tokens.iter().position(|token| *token == Token::Sign(")"))?;
    let (of, after) = tokens.split_at(end);
    let is_type = |token: &Token| match token {
        Token::Word(word) => word != "REC",
        token => *token == Token::Sign("*"),
    };
    let is_cast = matches!(of.first()?, Token::Word(_)) && of.iter().all(is_type);
    is_cast.then(|| after.get(1..)).flatten()
}

fn join(sign: &str, left: Expression, right: Expression) -> Option<Expression> {
    use Expression::{Field, Number};
    match (left, right) {
        (Number(a), Number(b)) => {
            let shift = u32::try_from(b).unwrap_or(u32::MAX);
            Some(Number(match sign {
                "|" => a | b,
                "^" => a ^ b,
                "&" => a & b,
                "<<" => a.checked_shl(shift).unwrap_or(0),
                ">>" => a.checked_shr(shift).unwrap_or(0),
                "+" => a.wrapping_add(b),
                "-" => a.wrapping_sub(b),
                "*" => a.wrapping_mul(b),
                "/" => a.checked_div(b)?,
                "%" => a.checked_rem(b)?,
                _ => return None,
            }))
        }
        (Field(name, shift, mask), Number(bits)) | (Number(bits), Field(name, shift, mask))
            if sign == "&" =>
        {
            Some(Field(name, shift, mask & bits))
        }
        (Field(name, shift, mask), Number(by)) if sign == ">>" && by < 64 => {
            let shift = shift.saturating_add(by as u32);
            Some(Field(name, shift, mask >> by))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Option<u64> {
        match parse(text)? {
            Expression::Number(number) => Some(number),
            Expression::Field(..) => None,
        }
    }

    fn of_field(text: &str) -> Option<(String, u32, u64)> {
        parse(text)?.of_field()
    }

    #[test]
    fn numbers() {
        let cases = [
            ("0x10", 16),
            ("010", 8),
            ("( gfp_t)(((((1UL))) << (10))|((((1UL))) << (11)))", 0xc00),
            ("((((0x0 | 0x1 | 0x2) + 1) << 1) - 1)", 7),
            ("-1", u64::MAX),
            ("6 & ~2", 4),
            ("1 | 2 ^ 2 & 3", 1),
            ("(unsigned long long)7ULL", 7),
            ("2 + 3 * 4 - 10 / 5 % 7", 12),
        ];
        for (text, expected) in cases {
            assert_eq!(number(text), Some(expected), "{text}");
        }
        for text in ["", "ONE", "(1", "1 1", "sizeof(int)", "1 / 0", "a ? 1 : 2", "\"x\"", "$"] {
            assert_eq!(number(text), None, "{text}");
        }
        assert_eq!(number(&"(".repeat(100_000)), None);
        assert_eq!(number(&"-".repeat(100_000)), None);
    }

    #[test]
    fn parts_of_fields() {
        let found = |name: &str, shift, mask| Some((name.to_owned(), shift, mask));
        assert_eq!(of_field("REC->a"), found("a", 0, u64::MAX));
        assert_eq!(of_field("(unsigned long)(REC->a)"), found("a", 0, u64::MAX));
        assert_eq!(of_field("REC->a & 0xff"), found("a", 0, 0xff));
        assert_eq!(of_field("(REC->a >> 4) & 0xf"), found("a", 4, 0xf));
        assert_eq!(of_field("(REC->a & 0xf0) >> 4"), found("a", 4, 0xf));
        assert_eq!(of_field("REC->a + 1"), None);
        assert_eq!(of_field("REC->a[0]"), None);
    }
}
