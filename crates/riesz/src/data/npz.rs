//! NumPy archives: one array out of a `.npz` file.
//!
//! An archive is a ZIP file whose members are `.npy` files, stored or deflated. The directory at its end says where
//! each begins. Encrypted and ZIP64 archives (4 GiB and more) are refused by name.

use super::expand::Expanded;
use super::npy;
use super::source::Source;
use super::table::{Table, TargetColumn};
use crate::error::{Error, Result};
use flate2::bufread::DeflateDecoder;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

/// The directory's end is this long, followed by a comment of at most 64 KiB.
const END: usize = 22;
/// No honest directory of arrays comes near this many bytes.
const MAX_DIRECTORY: u64 = 1 << 24;

/// A member as the directory describes it.
#[derive(Debug)]
struct Member {
    name: String,
    deflated: bool,
    packed: u64,
    size: u64,
    start: u64,
}

/// Reads the array `name` of the archive `file`, found at `path`; trailing dimensions are flattened into columns.
pub(super) fn read(mut file: impl Read + Seek + Send + 'static, path: &Path, name: &str) -> Result<Table> {
    let failed = |source| Error::Io { path: path.to_path_buf(), source };
    let members = directory(&mut file).map_err(failed)?;
    let wanted = format!("{name}.npy");
    let Some(member) = members.iter().find(|member| member.name == wanted) else {
        let names: Vec<_> = members.iter().map(|member| member.name.trim_end_matches(".npy")).collect();
        let reason = format!("there is no array {name:?}; the archive holds {}", names.join(", "));
        return Err(failed(invalid(reason)));
    };
    skip_local_header(&mut file, member).map_err(failed)?;
    let packed = BufReader::new(file.take(member.packed));
    let input: Box<dyn io::BufRead + Send> = if member.deflated {
        Box::new(BufReader::new(Expanded::new(DeflateDecoder::new(packed), member.packed)))
    } else {
        Box::new(packed)
    };
    // What a compressed member claims to hold is not yet there.
    let length = (!member.deflated).then_some(member.size);
    Ok(npy::read(
        Source { path: path.join(&member.name), input, length, is_file: false },
        &TargetColumn::None,
    )?
    .features)
}

fn invalid(reason: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.into())
}

/// A little-endian number of `width` bytes.
fn number(bytes: &[u8], at: usize, width: usize) -> u64 {
    bytes[at..at + width].iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// The members of the archive.
fn directory(file: &mut (impl Read + Seek)) -> io::Result<Vec<Member>> {
    let length = file.seek(SeekFrom::End(0))?;
    let tail = length.min((END + (1 << 16)) as u64);
    file.seek(SeekFrom::Start(length - tail))?;
    let mut bytes = Vec::new();
    file.take(tail).read_to_end(&mut bytes)?;
    let end = bytes.windows(END).rposition(|window| window.starts_with(b"PK\x05\x06"));
    let end = end.ok_or_else(|| invalid("not a NumPy archive: write one with numpy.savez"))?;
    let (size, start) = (number(&bytes, end + 12, 4), number(&bytes, end + 16, 4));
    if start == u64::from(u32::MAX) || size > MAX_DIRECTORY || start.saturating_add(size) > length {
        return Err(invalid("a ZIP64 or damaged archive; save the arrays one by one with numpy.save"));
    }
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = vec![0; size as usize];
    file.read_exact(&mut bytes)?;
    let mut members = Vec::new();
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let (member, used) = entry(rest)?;
        members.push(member);
        rest = &rest[used..];
    }
    Ok(members)
}

/// The member an entry of the directory describes, and the length of the entry.
fn entry(bytes: &[u8]) -> io::Result<(Member, usize)> {
    let broken = || invalid("the directory of the archive is damaged; fetch or write it again");
    if bytes.len() < 46 || !bytes.starts_with(b"PK\x01\x02") {
        return Err(broken());
    }
    let [name, extra, comment] = [28, 30, 32].map(|at| number(bytes, at, 2) as usize);
    let used = 46 + name + extra + comment;
    if bytes.len() < used {
        return Err(broken());
    }
    let name = String::from_utf8_lossy(&bytes[46..46 + name]).into_owned();
    let (encrypted, method) = (number(bytes, 8, 2) & 1 == 1, number(bytes, 10, 2));
    if encrypted || !matches!(method, 0 | 8) {
        return Err(invalid(format!("{name} is encrypted or packed by a method other than deflate")));
    }
    let [packed, size] = [20, 24].map(|at| number(bytes, at, 4));
    let start = number(bytes, 42, 4);
    if [packed, size, start].contains(&u64::from(u32::MAX)) {
        return Err(invalid(format!("{name} is larger than 4 GiB; save it with numpy.save")));
    }
    Ok((Member { name, deflated: method == 8, packed, size, start }, used))
}

/// Leaves the file at the first byte of the member.
fn skip_local_header(file: &mut (impl Read + Seek), member: &Member) -> io::Result<()> {
    file.seek(SeekFrom::Start(member.start))?;
    let mut header = [0; 30];
    file.read_exact(&mut header)?;
    if !header.starts_with(b"PK\x03\x04") {
        return Err(invalid(format!(
            "{} is not where the directory says; write the archive again",
            member.name
        )));
    }
    let skip = number(&header, 26, 2) + number(&header, 28, 2);
    file.seek(SeekFrom::Current(skip as i64))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{write::DeflateEncoder, Compression};
    use proptest::prelude::*;
    use std::io::{Cursor, Write};

    fn npy(values: &[f32], shape: &str) -> Vec<u8> {
        let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.bytes());
        bytes.extend(values.iter().flat_map(|v| v.to_le_bytes()));
        bytes
    }

    /// An archive as NumPy writes it (sizes in the directory), with an extra field in the local header.
    fn archive(members: &[(&str, Vec<u8>, bool)]) -> Vec<u8> {
        let (mut out, mut directory) = (Vec::new(), Vec::new());
        for (name, data, deflated) in members {
            let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(data).unwrap();
            let packed = if *deflated { encoder.finish().unwrap() } else { data.clone() };
            let method = if *deflated { 8_u16 } else { 0 };
            let start = out.len() as u32;
            let mut sizes = vec![0; 8]; // time and check sum, which nobody looks at
            sizes.extend((packed.len() as u32).to_le_bytes());
            sizes.extend((data.len() as u32).to_le_bytes());
            sizes.extend((name.len() as u16).to_le_bytes());
            out.extend(b"PK\x03\x04\x14\0\0\0");
            out.extend(method.to_le_bytes());
            out.extend(&sizes);
            out.extend([4, 0]);
            out.extend(name.bytes().chain([1, 2, 3, 4]));
            out.extend(&packed);
            directory.extend(b"PK\x01\x02\x14\0\x14\0\0\0");
            directory.extend(method.to_le_bytes());
            directory.extend(&sizes);
            directory.extend([0; 12]);
            directory.extend(start.to_le_bytes());
            directory.extend(name.bytes());
        }
        let start = out.len() as u32;
        out.extend(&directory);
        out.extend(b"PK\x05\x06\0\0\0\0\0\0\0\0");
        out.extend((directory.len() as u32).to_le_bytes());
        out.extend(start.to_le_bytes());
        out.extend([0, 0]);
        out
    }

    fn parse(name: &str, bytes: &[u8], array: &str) -> Result<Table> {
        read(Cursor::new(bytes.to_vec()), Path::new(name), array)
    }

    #[test]
    fn reads_stored_and_deflated_members() {
        let values: Vec<f32> = (0..600).map(|i| (i / 7) as f32).collect();
        let bytes = archive(&[
            ("a.npy", npy(&values, "(100, 2, 3)"), true),
            ("b.npy", npy(&values[..4], "(4,)"), false),
        ]);
        let a = parse("good", &bytes, "a").unwrap();
        assert_eq!((a.len(), a.columns), (100, 6));
        assert_eq!(a.into_dense().unwrap(), values);
        assert_eq!(parse("good-b", &bytes, "b").unwrap().into_dense().unwrap(), values[..4]);
        let error = parse("missing", &bytes, "X").unwrap_err().to_string();
        assert!(error.contains("no array \"X\"") && error.contains("a, b"), "{error}");
    }

    #[test]
    fn says_what_it_does_not_read() {
        let good = archive(&[("a.npy", npy(&[1.0, 2.0], "(2,)"), false)]);
        let at = good.windows(4).position(|w| w == b"PK\x01\x02").unwrap();
        let changed = |place: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[place] = byte;
            parse(&format!("bad-{place}-{byte}"), &bytes, "a").unwrap_err().to_string()
        };
        assert!(parse("empty", b"", "a").unwrap_err().to_string().contains("numpy.savez"));
        assert!(changed(at + 8, 1).contains("encrypted"));
        assert!(changed(at + 10, 12).contains("other than deflate"));
        assert!(changed(at, b'x').contains("damaged"));
        assert!(changed(0, b'x').contains("not where the directory says"));
        // Shape and length disagree.
        let short = archive(&[("a.npy", npy(&[1.0, 2.0], "(3,)"), true)]);
        assert!(parse("short", &short, "a").is_err());
    }

    proptest! {
        #[test]
        fn never_panics(
            noise in prop::collection::vec(any::<u8>(), 0..200), place in 0_usize..200, byte: u8, cut in 0_usize..300,
        ) {
            let _ = directory(&mut Cursor::new(&noise));
            let mut bytes = archive(&[("a.npy", npy(&[1.0, 2.0], "(2,)"), true)]);
            let place = place % bytes.len();
            bytes[place] = byte;
            let _ = directory(&mut Cursor::new(&bytes[..cut.min(bytes.len())]));
            if let Ok(members) = directory(&mut Cursor::new(&bytes)) {
                for member in &members {
                    let _ = skip_local_header(&mut Cursor::new(&bytes), member);
                }
            }
        }
    }
}
