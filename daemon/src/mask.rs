//! Patterns by which arguments of programs are masked, as the table that the probe walks byte by
//! byte.
//!
//! A pattern is held against each argument from its beginning. `*` stands for any bytes, and a
//! blank for a blank or the end of an argument, so that what follows is the next argument. A
//! pattern ends in `*`: what that stands for, to the end of the argument, becomes as many `*`.

use std::collections::{BTreeSet, HashMap};

use flightrec_format::abi::record::{MASK_START, MASK_STATES, MASK_TABLE};

/// Of a pattern, what comes next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Byte(u8),
    /// Any bytes of an argument.
    Any,
    /// A blank, or an argument's end.
    Gap,
}

/// How far patterns have got: pattern and step.
type Places = BTreeSet<(usize, usize)>;

/// The state of bytes that are masked.
const MASKED: usize = 1;

/// The table of these patterns ([`MASK_TABLE`]), or what is wrong with them.
pub fn compile(patterns: &[String]) -> Result<Vec<u8>, String> {
    let patterns: Vec<Vec<Step>> =
        patterns.iter().map(|pattern| steps(pattern)).collect::<Result<_, _>>()?;
    let start = reached(&patterns, (0..patterns.len()).map(|pattern| (pattern, 0)));
    let mut numbers = HashMap::from([(start.clone(), usize::from(MASK_START))]);
    // Nothing is ever at this place: the state is known by its number.
    let mut states = vec![start.clone(), Places::new()];
    let mut table = Vec::with_capacity(MASK_TABLE);
    let mut at = 0;
    while let Some(places) = states.get(at).cloned() {
        for byte in 0..=u8::MAX {
            let is_masked = at == MASKED;
            let next = if is_masked && byte != 0 {
                MASKED
            } else {
                let moved = if is_masked { Places::new() } else { step(&patterns, &places, byte) };
                let next: Places =
                    if byte == 0 { moved.union(&start).copied().collect() } else { moved };
                if next
                    .iter()
                    .any(|(pattern, step)| patterns.get(*pattern).is_some_and(|p| *step == p.len()))
                {
                    MASKED
                } else {
                    *numbers.entry(next).or_insert_with_key(|next| {
                        states.push(next.clone());
                        states.len() - 1
                    })
                }
            };
            let becomes = if is_masked && byte != 0 { b'*' } else { byte };
            table.extend([next as u8, becomes]);
        }
        if states.len() > MASK_STATES {
            return Err(format!(
                "too many patterns, or too long ones: together they take more than {MASK_STATES} \
                 states"
            ));
        }
        at += 1;
    }
    table.resize(MASK_TABLE, 0);
    Ok(table)
}

/// A pattern's steps up to its last `*`.
fn steps(pattern: &str) -> Result<Vec<Step>, String> {
    let Some(before) = pattern.strip_suffix('*') else {
        return Err(format!("\"{pattern}\" does not end in *, which matches the text to mask"));
    };
    let steps: Vec<Step> = before
        .bytes()
        .map(|byte| match byte {
            b'*' => Step::Any,
            b' ' => Step::Gap,
            byte => Step::Byte(byte),
        })
        .collect();
    if steps.iter().all(|step| *step == Step::Any) {
        return Err(format!("\"{pattern}\" masks everything: use exec_args = \"program\" instead"));
    }
    Ok(steps)
}

/// These places, and those after a `*` that stands for nothing.
fn reached(patterns: &[Vec<Step>], places: impl IntoIterator<Item = (usize, usize)>) -> Places {
    let mut out = Places::new();
    for (pattern, mut at) in places {
        out.insert((pattern, at));
        while patterns.get(pattern).and_then(|steps| steps.get(at)) == Some(&Step::Any) {
            at += 1;
            out.insert((pattern, at));
        }
    }
    out
}

/// Where a byte takes them.
fn step(patterns: &[Vec<Step>], places: &Places, byte: u8) -> Places {
    let moved =
        places.iter().filter_map(|(pattern, at)| match patterns.get(*pattern)?.get(*at)? {
            Step::Byte(wanted) if *wanted == byte => Some((*pattern, at + 1)),
            Step::Gap if byte == b' ' || byte == 0 => Some((*pattern, at + 1)),
            Step::Any if byte != 0 => Some((*pattern, *at)),
            _ => None,
        });
    reached(patterns, moved)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(patterns: &[&str], list: &str) -> String {
        let patterns: Vec<String> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        let table = compile(&patterns).unwrap();
        let mut state = usize::from(MASK_START);
        let bytes = list.bytes().map(|byte| if byte == b'|' { 0 } else { byte }).map(|byte| {
            let at = 2 * (state << 8 | usize::from(byte));
            state = usize::from(table[at]);
            table[at + 1]
        });
        bytes.map(|byte| if byte == 0 { '|' } else { char::from(byte) }).collect()
    }

    #[test]
    fn what_the_last_star_stands_for_is_masked() {
        for (patterns, list, expected) in [
            (&["--password=*"][..], "a|--password=xyz|b", "a|--password=***|b"),
            (&["--password=*"], "a|--passwor=xyz|x--password=1", "a|--passwor=xyz|x--password=1"),
            (&["--password=*"], "--password=|b", "--password=|b"),
            (&["*password=*"], "x--password=1 2|b", "x--password=***|b"),
            (&["-p *"], "-p|xyz|-p|1", "-p|***|-p|*"),
            (&["-p *"], "-p 12|-px", "-p **|-px"),
            (&["*-p *"], "sh|-c|my -p 12 -q|-p|3", "sh|-c|my -p *****|-p|*"),
            (&["-p *", "-q=*"], "-p|-q=1|-q=2", "-p|****|-q=*"),
            (&["*_KEY=*", "A=*"], "B_KEY=1|A=2|A_KEY=3|KEY=4", "B_KEY=*|A=*|A_KEY=*|KEY=4"),
            (&["*a*b=*"], "xaxb=1|ab=2|ba=3", "xaxb=*|ab=*|ba=3"),
            (&["--tok-tok=*"], "--tok-tok-tok=1|--tok-tok=2", "--tok-tok-tok=1|--tok-tok=*"),
            (&["*aab=*"], "aaaab=1", "aaaab=*"),
        ] {
            assert_eq!(masked(patterns, list), expected, "{patterns:?} {list}");
        }
    }

    #[test]
    fn patterns_that_can_not_be_are_refused() {
        let says = |pattern: &str| compile(&[pattern.to_owned()]).unwrap_err();
        assert!(says("--password=").contains("does not end in *"));
        assert!(says("*").contains("masks everything") && says("**").contains("masks everything"));
        assert!(says(&format!("{}*", "x".repeat(300))).contains("states"));
        let many: Vec<String> = (0..12).map(|n| format!("*a{n}*b{n}*c{n}=*")).collect();
        assert!(compile(&many).is_err_and(|e| e.contains("states")));
        assert_eq!(compile(&[]).unwrap().len(), MASK_TABLE);
    }
}
