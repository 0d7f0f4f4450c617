//! Files in one stream, as `flightctl save --frames` sends them to `flightctl collect`: each file
//! as frames, a length of 4 bytes (little endian) before each, and after its last one a length of
//! 0. What is cut off is no file.

use std::io::{self, Read, Write};

/// Most bytes of a frame: what a reader holds at a time.
pub const FRAME_MAX: usize = 1 << 20;

/// Makes frames of what is written. [`Frames::end`] ends the file.
pub struct Frames<W>(W);

impl<W: Write> Frames<W> {
    /// A file that goes to `out`.
    pub const fn new(out: W) -> Self {
        Self(out)
    }

    /// Ends the file.
    pub fn end(mut self) -> io::Result<()> {
        self.0.write_all(&[0; 4])?;
        self.0.flush()
    }
}

impl<W: Write> Write for Frames<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (bytes, _) = bytes.split_at(bytes.len().min(FRAME_MAX));
        if !bytes.is_empty() {
            self.0.write_all(&(bytes.len() as u32).to_le_bytes())?;
            self.0.write_all(bytes)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// What comes next of a stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// This much of a file is in the buffer.
    Bytes,
    /// The file is whole.
    EndOfFile,
    /// There are no more files.
    EndOfStream,
}

/// Reads the next frame into `buffer`, `inside` saying whether a file has begun.
///
/// # Errors
/// Reading fails, the stream ends inside of a file, or it is none of frames.
pub fn next(stream: &mut impl Read, buffer: &mut Vec<u8>, inside: bool) -> io::Result<Next> {
    let mut length = [0; 4];
    let mut have = 0;
    while let Some(rest) = length.get_mut(have..).filter(|rest| !rest.is_empty()) {
        match stream.read(rest) {
            Ok(0) if have == 0 && !inside => return Ok(Next::EndOfStream),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => have += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let length = u32::from_le_bytes(length) as usize;
    if length == 0 {
        return Ok(Next::EndOfFile);
    }
    if length > FRAME_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    buffer.resize(length, 0);
    stream.read_exact(buffer)?;
    Ok(Next::Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(mut stream: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        let (mut files, mut file, mut buffer) = (Vec::new(), None, Vec::new());
        loop {
            match next(&mut stream, &mut buffer, file.is_some())? {
                Next::Bytes => file.get_or_insert_with(Vec::new).extend_from_slice(&buffer),
                Next::EndOfFile => files.push(file.take().unwrap_or_default()),
                Next::EndOfStream => return Ok(files),
            }
        }
    }

    fn sent(files: &[Vec<u8>]) -> Vec<u8> {
        let mut stream = Vec::new();
        for file in files {
            let mut frames = Frames::new(&mut stream);
            frames.write_all(file).unwrap();
            frames.end().unwrap();
        }
        stream
    }

    #[test]
    fn files_come_as_they_were_sent() {
        let all = [b"one".to_vec(), vec![7; FRAME_MAX * 2 + 1], Vec::new()];
        assert_eq!(files(&sent(&all)).unwrap(), all);
        assert_eq!(files(&[]).unwrap(), [[0; 0]; 0]);
    }

    #[test]
    fn what_is_cut_off_is_no_file() {
        let stream = sent(&[b"one".to_vec(), b"two".to_vec()]);
        let whole = stream.len() / 2;
        for cut in (1..stream.len()).filter(|cut| *cut != whole) {
            let error = files(stream.get(..cut).unwrap()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "cut at {cut}");
        }
        assert_eq!(files(b"Welcome to web1\n").unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
