//! What an administrator has left out is nowhere: a marked text in every place where a program can
//! put one, each switch turned, and all that the recorder holds and gives away searched for it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use flightrec_tests::{PATIENCE, Recorder, c_program, kernel_dump, wait_until};
use regex::bytes::Regex;
use tempfile::TempDir;

use crate::snapshots::{list, taken_for};
use crate::support::start;

/// Where the program puts one (`tests/programs/secrets.c`), and somebody a mark.
const PLACES: [&str; 13] = [
    "held", "bound", "mapped", "path", "head", "tail", "argument", "masked", "socket", "abstract",
    "address", "thread", "mark",
];
/// The address of the program's connection: as text, in a `struct sockaddr_in` after any port, as
/// an address of IPv6 that stands for one of IPv4, and in what a socket is.
const ADDRESS: [&[u8]; 3] = [
    b"127.77.33.11",
    &[0, 0, 0xff, 0xff, 127, 77, 33, 11],
    &[127, 77, 33, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
];
/// A frame of zstd begins so (RFC 8878).
const ZSTD: [u8; 4] = 0xfd2f_b528_u32.to_le_bytes();
/// And a stream of zlib, by how much is tried (RFC 1950).
const ZLIB: [[u8; 2]; 4] = [[0x78, 0x01], [0x78, 0x5e], [0x78, 0x9c], [0x78, 0xda]];
/// Most bytes that something compressed may have.
const MOST: u64 = 1 << 28;
const EXPORTS: [&str; 7] =
    ["perfetto", "chrome", "folded", "speedscope", "trace.dat", "ctf", "parquet"];

/// The program, which waits with all of it open.
struct Program {
    child: Child,
    said: BufReader<ChildStdout>,
    /// Where it works.
    _dir: TempDir,
}

impl Program {
    fn start() -> Self {
        let dir = tempfile::Builder::new().prefix("fr").tempdir().expect("directory");
        // Not in the file's own name, which is the first name of its thread.
        let program = dir.path().join("zqmappedzq/program");
        fs::create_dir(program.parent().expect("a directory")).expect("a directory");
        fs::copy(c_program("secrets", &[]), &program).expect("copy");
        let mut command = Command::new(program);
        command.arg(dir.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("secrets");
        let said = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut program = Self { child, said, _dir: dir };
        program.says("ready");
        program
    }

    fn says(&mut self, what: &str) {
        let mut line = String::new();
        self.said.read_line(&mut line).expect("a line");
        assert_eq!(line.trim(), what);
    }

    fn go_on(&mut self) {
        let input = self.child.stdin.as_mut().expect("a pipe");
        Write::write_all(input, b"\n").expect("it waits");
        self.says("done");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What was found: of each thing that was searched, the places of the texts in it.
type Found = Vec<(String, BTreeSet<&'static str>)>;

/// The marks of all places, and the address.
fn marks() -> Regex {
    let mut all = format!("(?s-u)zq({})zq", PLACES.join("|"));
    for text in ADDRESS {
        all.push('|');
        for byte in text {
            let _ = write!(all, "\\x{byte:02x}");
        }
    }
    Regex::new(&all).expect("an expression")
}

/// The places whose text stands in these bytes, or in what is compressed in them.
fn search(bytes: &[u8]) -> BTreeSet<&'static str> {
    let mut found = BTreeSet::new();
    let marks = marks();
    let mut look = |bytes: &[u8]| {
        for of in marks.captures_iter(bytes) {
            let name = of.get(1).map_or(&b"address"[..], |name| name.as_bytes());
            found.extend(PLACES.into_iter().find(|place| place.as_bytes() == name));
        }
    };
    look(bytes);
    let mut content = Vec::new();
    for at in 0..bytes.len() {
        let rest = &bytes[at..];
        content.clear();
        // What only looks like something compressed ends in an error.
        if rest.starts_with(&ZSTD) {
            let frame = zstd::stream::read::Decoder::new(rest).expect("a decoder");
            let _ = frame.single_frame().take(MOST).read_to_end(&mut content);
        } else if ZLIB.iter().any(|begin| rest.starts_with(begin)) {
            let stream = flate2::read::ZlibDecoder::new(rest);
            let _ = stream.take(MOST).read_to_end(&mut content);
        }
        look(&content);
    }
    found
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() { files.extend(files_below(&path)) } else { files.push(path) }
    }
    files
}

/// Searches what these formats and the page give away, with these options, of the program.
fn given_away(recorder: &Recorder, out: &Path, formats: &[&str], options: &[&str]) -> Found {
    let mut found = Found::new();
    let saved = out.join("saved.flight").display().to_string();
    for format in formats {
        let name = out.join(format!("out.{format}"));
        let text = name.display().to_string();
        let all = ["export", &saved, "--force", "--format", format, "-o", &text];
        let output = recorder.flightctl(&[&all, options].concat());
        assert!(matches!(output.status.code(), Some(0 | 3)), "{format}: {output:?}");
        let files = if name.is_dir() { files_below(&name) } else { vec![name] };
        let texts = files.iter().flat_map(|file| search(&fs::read(file).expect("a file")));
        found.push((format!("export {format}"), texts.collect()));
    }
    let page = out.join("page.html").display().to_string();
    let output = recorder.flightctl(&[&["page", &saved, "--force", "-o", &page], options].concat());
    assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
    found.push(("page".into(), search(&fs::read(page).expect("a page"))));
    found
}

/// Records the program under a configuration, and searches everything.
fn record(config: &str) -> (Recorder, TempDir, Found) {
    let mut program = Program::start();
    let recorder = start(&format!("{config}\n[snapshots]\npage = true\n"));
    program.go_on();
    let out = TempDir::new().expect("directory");
    let saved = out.path().join("saved.flight").display().to_string();
    let ctl = |args: &[&str]| {
        let output = recorder.flightctl(args);
        assert!(matches!(output.status.code(), Some(0 | 3)), "{args:?}: {output:?}");
        [output.stdout, output.stderr].concat()
    };
    ctl(&["mark", "zqmarkzq"]);
    ctl(&["save", "--last", "1h", "-o", &saved]);
    taken_for(&recorder, "a test", &["--last", "5m"]);
    let has_page = || list(&recorder).first().is_some_and(|of| !of["page"].is_null());
    assert!(wait_until(PATIENCE, has_page), "{}", recorder.log());
    let mut found = Found::new();
    for args in [
        &["dump", "--all"][..],
        &["dump", "--all", "--format", "jsonl"],
        &["ps"],
        &["report", "calls", "--by", "file", "--last", "1h"],
        &["report", "functions", "--last", "1h"],
        &["status", "--json"],
        &["snapshots", "--json"],
    ] {
        found.push((args.join(" "), search(&ctl(args))));
    }
    found.push(("kernel dump".into(), search(&kernel_dump(&recorder))));
    found.extend(given_away(&recorder, out.path(), &EXPORTS, &[]));
    drop(program);
    let mut recorder = recorder;
    recorder.stop();
    found.push(("log".into(), search(recorder.log().as_bytes())));
    let (mut of_files, mut of_pages) = (BTreeSet::new(), BTreeSet::new());
    for file in files_below(&recorder.sandbox().state_dir()) {
        let is_page = file.extension().is_some_and(|of| of == "html");
        let texts = search(&fs::read(&file).expect("a file"));
        if is_page { of_pages.extend(texts) } else { of_files.extend(texts) }
    }
    found.push(("files".into(), of_files));
    found.push(("pages of snapshots".into(), of_pages));
    (recorder, out, found)
}

/// Shows the table, and checks that nothing of `omitted` was found anywhere.
fn check(switch: &str, found: &Found, omitted: &[&str]) {
    eprintln!("{switch}:");
    for (place, texts) in found {
        eprintln!("  {place}: {}", texts.iter().copied().collect::<Vec<_>>().join(" "));
    }
    for (place, texts) in found {
        let told: Vec<&&str> = texts.iter().filter(|text| omitted.contains(text)).collect();
        assert!(told.is_empty(), "{switch}: {place} has {told:?}");
    }
}

const STRINGS: [&str; 8] =
    ["held", "bound", "mapped", "path", "head", "tail", "argument", "masked"];

#[test]
#[ignore = "long: seven recorders, each with all formats"]
fn what_the_configuration_omits_is_nowhere() {
    let (_, _, all) = record("");
    check("all", &all, &[]);
    // Each way out is one: else a search that finds nothing would say nothing.
    let of = |place: &str| &all.iter().find(|(of, _)| of == place).expect("searched").1;
    for place in ["files", "kernel dump", "dump --all", "export parquet", "export perfetto"] {
        for text in STRINGS.into_iter().filter(|text| *text != "held" && *text != "bound") {
            // Of a sample's functions, these have the name of the file, not of its directory.
            if matches!(place, "export parquet" | "dump --all") && text == "mapped" {
                continue;
            }
            // A path of which the middle is missing is in no row of perfetto but by its ends.
            assert!(of(place).contains(text), "{place}: no {text} in {:?}", of(place));
        }
    }
    for place in ["files", "kernel dump"] {
        for text in ["held", "bound", "socket", "abstract", "address", "thread", "mark"] {
            assert!(of(place).contains(text), "{place}: no {text} in {:?}", of(place));
        }
    }
    for place in ["page", "pages of snapshots", "export ctf", "export trace.dat", "export chrome"] {
        assert!(!of(place).is_empty(), "{place} has nothing");
    }

    let mut omitted = STRINGS.to_vec();
    let (.., found) = record("[record]\nstrings = false\n");
    check("strings = false", &found, &omitted);
    omitted.extend(["socket", "abstract"]);
    let (.., found) = record("[record]\nstrings = false\nstructures = false\n");
    check("strings, structures = false", &found, &omitted);
    omitted.push("address");
    let (.., found) = record("[record]\nstrings = false\nstructures = false\nnetwork = false\n");
    check("strings, structures, network = false", &found, &omitted);
    let (.., found) = record("[record]\nexec_args = \"program\"\n");
    check("exec_args = program", &found, &["argument", "masked"]);
    let (.., found) = record("[record]\nmask = [\"--password=*\"]\n");
    check("mask", &found, &["masked"]);
}

#[test]
#[ignore = "long: all formats, four times"]
fn what_is_hidden_leaves_the_machine_in_no_format() {
    let (recorder, out, _) = record("");
    let hide = ["--hide", "zq[a-z]*zq", "--hide", "127[.]77"];
    let hidden = given_away(&recorder, out.path(), &["parquet"], &hide);
    check("--hide", &hidden, &PLACES);
    let paths = given_away(&recorder, out.path(), &EXPORTS, &["--strings", "paths"]);
    check("--strings paths", &paths, &["argument", "masked", "mark"]);
    let none = given_away(&recorder, out.path(), &EXPORTS, &["--strings", "none"]);
    let mut omitted = STRINGS.to_vec();
    omitted.extend(["socket", "abstract", "mark"]);
    check("--strings none", &none, &omitted);
}
