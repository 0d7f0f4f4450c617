//! The file of a page: style, scripts and data in one.
//!
//! Data can't become markup: they are JSON in which `<`, `>` and `&` are escaped, and the scripts
//! put them into the page as text only. Nor can the page fetch or run anything else: its security
//! policy allows the scripts and the style whose hashes it names, and no source of anything.

use sha2::{Digest as _, Sha256};

use super::model::Page;
use crate::redact::Redact;

/// The library that draws the histograms: uPlot, from the npm registry, as `vendor/fetch.sh` puts
/// it there.
const LIBRARY: &str = include_str!("assets/vendor/uPlot.iife.min.js");
const LIBRARY_STYLE: &str = include_str!("assets/vendor/uPlot.min.css");
const LIBRARY_LICENSE: &str = include_str!("assets/vendor/uPlot.LICENSE");
const STYLE: &str = include_str!("assets/page.css");
const BODY: &str = include_str!("assets/body.html");
/// The page's own scripts: one program, in this order.
const SCRIPTS: [&str; 8] = [
    include_str!("assets/format.js"),
    include_str!("assets/data.js"),
    include_str!("assets/tip.js"),
    include_str!("assets/answer.js"),
    include_str!("assets/timeline.js"),
    include_str!("assets/histogram.js"),
    include_str!("assets/table.js"),
    include_str!("assets/main.js"),
];

/// Makes the file, without what is hidden.
///
/// # Errors
/// None that a page of these types can cause.
pub fn html(page: &Page, redact: &Redact) -> serde_json::Result<String> {
    let own = format!("\"use strict\";\n(() => {{\n{}\n}})();\n", SCRIPTS.join("\n"));
    let style = format!("{LIBRARY_STYLE}\n{STYLE}");
    let policy = format!(
        "default-src 'none'; script-src '{}' '{}'; style-src '{}'; base-uri 'none'; \
         form-action 'none'",
        hash(LIBRARY),
        hash(&own),
        hash(&style),
    );
    let data = if redact.is_none() {
        serde_json::to_string(page)?
    } else {
        let mut value = serde_json::to_value(page)?;
        redact.value(&mut value);
        value.to_string()
    };
    let data = escaped(&data);
    let license = escaped_text(LIBRARY_LICENSE);
    let body = BODY.replace("{{LICENSE}}", &license);
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>flightrec</title>\n\
         <style>{style}</style>\n</head>\n<body>\n{body}\
         <script type=\"application/json\" id=\"data\">{data}</script>\n\
         <script>{LIBRARY}</script>\n<script>{own}</script>\n</body>\n</html>\n"
    ))
}

/// JSON that is no markup, wherever it stands. These characters are in texts only, where they have
/// escapes.
fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len() + json.len() / 50);
    for character in json.chars() {
        match character {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            other => out.push(other),
        }
    }
    out
}

/// Text between tags.
fn escaped_text(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// How a security policy names what it allows.
fn hash(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digest = Sha256::digest(text.as_bytes());
    let mut out = String::from("sha256-");
    for bytes in digest.chunks(3) {
        let byte = |at: usize| u32::from(bytes.get(at).copied().unwrap_or(0));
        let all = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let digit = DIGITS.get((all >> (18 - 6 * at) & 63) as usize).copied().unwrap_or(b'=');
            out.push(if at <= bytes.len() { char::from(digit) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::page::model::{About, Answer};

    fn page(text: &str) -> Page {
        let answer = Answer { sentence: text.into(), ..Answer::default() };
        let about = About { host: text.into(), ..About::default() };
        Page { answer: Some(answer), about, ..Page::default() }
    }

    /// What stands between the tags of the data.
    fn data(html: &str) -> &str {
        let (_, rest) = html.split_once("<script type=\"application/json\" id=\"data\">").unwrap();
        rest.split_once("</script>").unwrap().0
    }

    #[test]
    fn hashes_are_those_of_browsers() {
        // printf alert | openssl dgst -sha256 -binary | base64
        assert_eq!(hash(""), "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
    }

    #[test]
    fn the_library_is_the_one_that_was_fetched() {
        let sums = include_str!("assets/vendor/SHA256SUMS");
        for (name, text) in [
            ("uPlot.iife.min.js", LIBRARY),
            ("uPlot.min.css", LIBRARY_STYLE),
            ("uPlot.LICENSE", LIBRARY_LICENSE),
        ] {
            let digest: Vec<String> =
                Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
            let digest = digest.concat();
            assert!(sums.contains(&format!("{digest}  {name}")), "{name}: {digest}");
        }
    }

    #[test]
    fn what_is_static_has_no_end_of_a_script_in_it() {
        let all = [LIBRARY, &SCRIPTS.concat()].concat().to_lowercase();
        assert!(!all.contains("</script") && !all.contains("<!--"));
        assert!(!STYLE.contains("</") && !LIBRARY_STYLE.contains("</"));
        // Data go into the page as text.
        let own = SCRIPTS.concat();
        for way in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
            assert!(!own.contains(way), "{way}");
        }
    }

    proptest! {
        #[test]
        fn data_are_never_markup(text in ".*") {
            let hostile = "</script><img src=x onerror=alert(1)>&\u{2028}\u{2029}";
            let text = format!("{text}{hostile}{text}");
            let html = html(&page(&text), &Redact::default()).unwrap();
            let data = data(&html);
            let has_markup = data.contains(['<', '>', '&', '\u{2028}', '\u{2029}']);
            prop_assert!(!has_markup);
            let read: serde_json::Value = serde_json::from_str(data).unwrap();
            prop_assert_eq!(read["answer"]["sentence"].as_str(), Some(&*text));
            prop_assert_eq!(html.matches("onerror").count(), data.matches("onerror").count());
        }
    }
}
