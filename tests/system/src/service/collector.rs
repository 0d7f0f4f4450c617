//! A collector of OpenTelemetry on loopback, which takes all, and knows what came.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result};

/// It runs as long as this program does.
pub(super) struct Collector {
    address: SocketAddr,
    /// Requests with the header that was asked for, and those without, by path.
    came: Arc<Mutex<BTreeMap<(String, bool), usize>>>,
}

impl Collector {
    /// Starts it. `header`: the line of a header that requests are to have.
    pub(super) fn start(header: &'static str) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let collector = Self { address: listener.local_addr()?, came: Arc::default() };
        let came = Arc::clone(&collector.came);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // Who closes the connection early is counted as nothing.
                if let Ok(request) = answer(stream, header) {
                    let mut came = came.lock().unwrap_or_else(PoisonError::into_inner);
                    *came.entry(request).or_default() += 1;
                }
            }
        });
        Ok(collector)
    }

    /// Its address, for `[otlp] endpoint`.
    pub(super) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many requests came to a path, with the header or without it.
    pub(super) fn requests(&self, path: &str, with: bool) -> usize {
        let came = self.came.lock().unwrap_or_else(PoisonError::into_inner);
        came.get(&(path.to_owned(), with)).copied().unwrap_or_default()
    }
}

/// Reads a request, and takes it: its path, and whether it has the header.
fn answer(stream: TcpStream, header: &str) -> Result<(String, bool)> {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let path = first.split(' ').nth(1).context("a path")?.to_owned();
    let (mut length, mut has) = (0, false);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        has |= line.eq_ignore_ascii_case(header);
        if let Some((name, value)) = line.split_once(": ")
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.parse()?;
        }
    }
    let mut body = Vec::new();
    reader.by_ref().take(length).read_to_end(&mut body)?;
    // An empty answer of protobuf: nothing is rejected.
    let answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\n\
                   Content-Length: 0\r\nConnection: close\r\n\r\n";
    reader.get_mut().write_all(answer)?;
    Ok((path, has))
}
