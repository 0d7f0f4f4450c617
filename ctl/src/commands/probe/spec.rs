//! What is to be probed, as it is typed.

use std::fmt;

use globset::{Glob, GlobMatcher};

/// What is to be probed.
#[derive(Debug, Clone)]
pub struct Spec {
    /// As it was typed.
    pub typed: String,
    /// Where.
    pub place: Place,
    /// Which functions or marks there.
    pub name: Pattern,
}

/// Where functions and marks are.
#[derive(Debug, Clone)]
pub enum Place {
    /// Functions of a program or library.
    File(String),
    /// Marks of one, of these providers.
    Marks(String, Pattern),
    /// Functions of the kernel, or of a module.
    Kernel(Option<String>),
}

/// A name, or a pattern of names.
#[derive(Debug, Clone)]
pub struct Pattern {
    /// As it was typed.
    pub text: String,
    matcher: Option<GlobMatcher>,
}

impl Pattern {
    fn new(text: &str) -> Result<Self, String> {
        let has_wildcards = text.contains(['*', '?', '[', '{']);
        let matcher = if has_wildcards {
            let glob = Glob::new(text).map_err(|e| format!("{text}: {e}"))?;
            Some(glob.compile_matcher())
        } else {
            None
        };
        Ok(Self { text: text.into(), matcher })
    }

    /// Whether a name is meant.
    pub fn has(&self, name: &str) -> bool {
        self.matcher.as_ref().map_or(self.text == name, |of| of.is_match(name))
    }

    /// Whether it is one name.
    pub fn is_name(&self) -> bool {
        self.matcher.is_none()
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Longest that is taken, bytes.
const MOST: usize = 4096;

/// Makes sense of what was typed.
pub(super) fn parse(typed: &str) -> Result<Spec, String> {
    const FORMS: &str = "use PATH:NAME, usdt:PATH:PROVIDER:NAME, kernel:NAME or kernel:MODULE:NAME";
    if typed.len() > MOST {
        return Err(format!("longer than {MOST} bytes"));
    }
    let spec = |place, name| Ok(Spec { typed: typed.into(), place, name: Pattern::new(name)? });
    let Some((before, name)) =
        typed.rsplit_once(':').filter(|(a, b)| !a.is_empty() && !b.is_empty())
    else {
        return Err(FORMS.into());
    };
    if let Some(rest) = before.strip_prefix("usdt:") {
        let (path, provider) = rest
            .rsplit_once(':')
            .filter(|(a, b)| !a.is_empty() && !b.is_empty())
            .ok_or_else(|| format!("a mark is usdt:PATH:PROVIDER:NAME; {FORMS}"))?;
        return spec(Place::Marks(path.into(), Pattern::new(provider)?), name);
    }
    if before == "usdt" {
        return Err(format!("a mark is usdt:PATH:PROVIDER:NAME; {FORMS}"));
    }
    if before == "kernel" {
        return spec(Place::Kernel(None), name);
    }
    if let Some(module) = before.strip_prefix("kernel:") {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        if module.is_empty() || !module.bytes().all(is_name) {
            return Err(format!("`{module}` is no name of a module; {FORMS}"));
        }
        // As the kernel has them.
        return spec(Place::Kernel(Some(module.replace('-', "_"))), name);
    }
    spec(Place::File(before.into()), name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn all_forms() {
        let of = |typed: &str| {
            let spec = parse(typed).unwrap();
            let place = match &spec.place {
                Place::File(path) => format!("file {path}"),
                Place::Marks(path, provider) => format!("marks {path} {provider}"),
                Place::Kernel(module) => format!("kernel {module:?}"),
            };
            format!("{place} {}", spec.name)
        };
        assert_eq!(of("/usr/lib/libfoo.so:bdev_*"), "file /usr/lib/libfoo.so bdev_*");
        assert_eq!(of("/a:b:f"), "file /a:b f");
        assert_eq!(of("bash:main"), "file bash main");
        assert_eq!(of("usdt:/a:b:p:n"), "marks /a:b p n");
        assert_eq!(of("kernel:vfs_read"), "kernel None vfs_read");
        assert_eq!(of("kernel:snd-hda:f"), "kernel Some(\"snd_hda\") f");
        for wrong in
            ["", "main", ":main", "/bin/true:", "usdt:/a:n", "usdt:n", "kernel:a b:f", "a:[x"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn patterns() {
        let has = |pattern: &str, name| Pattern::new(pattern).unwrap().has(name);
        assert!(has("bdev_*", "bdev_open") && !has("bdev_*", "abdev_open"));
        assert!(has("a", "a") && !has("a", "aa") && has("a?", "aa"));
        assert!(has("std::*", "std::a/b"), "a name is no path");
    }

    proptest! {
        #[test]
        fn any_text(text: String) {
            let _ = parse(&text);
        }
    }
}
