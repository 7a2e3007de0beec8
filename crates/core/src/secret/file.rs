//! Reads a file whose name another person chose: no pipe or device, and no more than a limit.

use std::fs::{File, OpenOptions};
use std::io::{self, Error, ErrorKind, Read};
use std::path::Path;

/// Reads a regular file, and one byte more than `limit` of a larger one. Blocks as long as the file system does.
///
/// # Errors
/// Those of the system, and one for everything that is no regular file, such as a pipe, whose opening would wait for a writer.
pub fn read_regular(path: &Path, limit: usize) -> io::Result<Vec<u8>> {
    regular(&path.metadata()?)?;
    let mut options = OpenOptions::new();
    options.read(true);
    // Between the look and the opening another program may put a pipe there.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    let file: File = options.open(path)?;
    regular(&file.metadata()?)?;
    let mut content = Vec::new();
    file.take(u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1)).read_to_end(&mut content)?;
    Ok(content)
}

/// The same for a file that is `place`, or below it if that is a folder. Links are followed first, because one below a folder may lead out of it.
///
/// # Errors
/// As [`read_regular`]; `None` for a file elsewhere.
pub fn read_below(place: &Path, path: &Path, limit: usize) -> io::Result<Option<Vec<u8>>> {
    let (place, real) = (place.canonicalize()?, path.canonicalize()?);
    if real.starts_with(&place) { read_regular(&real, limit).map(Some) } else { Ok(None) }
}

fn regular(metadata: &std::fs::Metadata) -> io::Result<()> {
    let what = "it is no regular file";
    if metadata.is_file() { Ok(()) } else { Err(Error::new(ErrorKind::InvalidInput, what)) }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn pipe_device_and_folder_are_refused_at_once_and_a_large_file_is_cut() {
        let folder = std::env::temp_dir().join(format!("regular-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let pipe = folder.join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for path in [pipe.as_path(), Path::new("/dev/zero"), &folder] {
            let error = read_regular(path, 10).unwrap_err();
            assert_eq!(error.to_string(), "it is no regular file", "{}", path.display());
        }
        std::fs::write(folder.join("large"), "0123456789abc").unwrap();
        assert_eq!(read_regular(&folder.join("large"), 10).unwrap(), b"0123456789a");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
