//! Names of the frames of stacks: functions of the kernel, by where they are.

use crate::meta::{Meta, Symbol};

/// The functions of a recording, in order.
#[derive(Debug, Clone, Default)]
pub struct Symbols {
    functions: Vec<Symbol>,
}

/// What a frame is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The function.
    pub function: &'a str,
    /// Byte of it that is returned to.
    pub offset: u32,
    /// The module that it is of; `None`: the kernel itself.
    pub module: Option<&'a str>,
}

impl Symbols {
    /// Those that a recording's metadata name.
    pub fn new(meta: &Meta) -> Self {
        let mut functions = meta.symbols.clone();
        functions.sort_by_key(|function| function.at);
        Self { functions }
    }

    /// What a frame is in; `None` where the recording does not tell. A return address is after a
    /// call, which may be a function's last instruction.
    pub fn find(&self, frame: u32) -> Option<Frame<'_>> {
        let call = frame.wrapping_sub(1);
        let after = self.functions.partition_point(|function| function.at <= call);
        // Numbers begin anew after the greatest, maybe in the middle of the last function.
        let function = match after.checked_sub(1) {
            Some(place) => self.functions.get(place),
            None => self.functions.last(),
        }?;
        let offset = frame.wrapping_sub(function.at);
        if call.wrapping_sub(function.at) >= function.size {
            return None;
        }
        let name = function.name.strip_suffix(']').and_then(|name| name.split_once(" ["));
        let (function, module) =
            name.map_or((function.name.as_str(), None), |(name, module)| (name, Some(module)));
        Some(Frame { function, offset, module })
    }
}

impl Symbols {
    /// A frame for people: `function`, `function [module]`, or `?0x1234` where it has no name.
    pub fn name(&self, frame: u32) -> String {
        match self.find(frame) {
            Some(Frame { function, module: Some(module), .. }) => format!("{function} [{module}]"),
            Some(Frame { function, module: None, .. }) => function.to_owned(),
            None => format!("?{frame:#x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbols(of: &[(u32, u32, &str)]) -> Symbols {
        let symbols = of.iter().map(|(at, size, name)| (*at, *size, (*name).to_owned()).into());
        Symbols::new(&Meta { symbols: symbols.collect(), ..Meta::default() })
    }

    #[test]
    fn a_frame_is_in_the_function_that_made_the_call() {
        let symbols = symbols(&[(300, 20, "read [ext4]"), (100, 50, "wait"), (150, 10, "next")]);
        let found = |frame| symbols.find(frame).map(|of| (of.function, of.offset, of.module));
        assert_eq!(found(120), Some(("wait", 20, None)));
        assert_eq!(found(150), Some(("wait", 50, None)), "its last instruction is a call");
        assert_eq!(found(151), Some(("next", 1, None)));
        assert_eq!(found(320), Some(("read", 20, Some("ext4"))));
        assert_eq!([found(100), found(161), found(321), found(0)], [None; 4]);
    }

    #[test]
    fn numbers_go_round() {
        let symbols = symbols(&[(u32::MAX - 9, 30, "round"), (50, 5, "other")]);
        let found = |frame| symbols.find(frame).map(|of| (of.function, of.offset));
        assert_eq!(found(u32::MAX), Some(("round", 9)));
        assert_eq!(found(0), Some(("round", 10)));
        assert_eq!((found(20), found(21)), (Some(("round", 30)), None));
        assert_eq!(Symbols::default().find(7), None);
    }
}
