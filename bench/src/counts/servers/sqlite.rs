//! SQLite: the write-ahead log, which the subject never checkpoints while its work is counted.
//!
//! SQLite has no server to ask, and its counters need unsafe code. `bench count --client` counts its instructions with those of the library.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use sqlx::{Connection, SqliteConnection};
use tempfile::TempDir;

use super::{CountedServer, Counters};

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;

/// A file in a folder of its own.
pub struct Sqlite {
    directory: TempDir,
}

/// Makes the folder.
///
/// # Errors
/// Fails where there is no folder for temporary files.
pub fn start() -> Result<Sqlite> {
    Ok(Sqlite { directory: tempfile::tempdir().context("cannot make a folder for the database")? })
}

impl Sqlite {
    fn file(&self) -> PathBuf {
        self.directory.path().join("subject.db")
    }
}

impl CountedServer for Sqlite {
    fn version(&self) -> Result<String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut conn = SqliteConnection::connect("sqlite::memory:").await?;
            Ok(sqlx::query_scalar("SELECT sqlite_version()").fetch_one(&mut conn).await?)
        })
    }

    fn url(&self) -> String {
        self.file().to_string_lossy().into_owned()
    }

    fn port(&self) -> Option<u16> {
        None
    }

    fn read(&mut self) -> Result<Counters> {
        let log = self.file().with_extension("db-wal");
        let text = if log.exists() { fs::read(&log).context("cannot read the write-ahead log")? } else { Vec::new() };
        let (pages, commits) = frames(&text)?;
        let bytes = u32::try_from(text.len()).context("the write-ahead log is larger than 4 GiB")?;
        Ok(Counters::from([("wal_bytes", bytes.into()), ("wal_pages", pages.into()), ("commits", commits.into())]))
    }
}

/// Returns how many pages a write-ahead log has, and how many commits: of the last page of a commit the frame has the size of the database.
/// The format: <https://www.sqlite.org/fileformat2.html#the_write_ahead_log>
fn frames(log: &[u8]) -> Result<(u32, u32)> {
    let number = |at: usize| log.get(at..at + 4).and_then(|bytes| Some(u32::from_be_bytes(bytes.try_into().ok()?)));
    let Some(page) = number(8) else { return Ok((0, 0)) };
    let page = usize::try_from(page)?;
    ensure!(page.is_power_of_two(), "the write-ahead log says that pages have {page} bytes");
    let (mut pages, mut commits, mut at) = (0, 0, HEADER);
    while let Some(size) = number(at + 4) {
        (pages, commits) = (pages + 1, commits + u32::from(size > 0));
        at += FRAME_HEADER + page;
    }
    Ok((pages, commits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_commits_of_a_log_are_counted() {
        let mut log = vec![0; HEADER];
        log[8..12].copy_from_slice(&512_u32.to_be_bytes());
        for size in [0_u32, 3, 3] {
            let mut frame = vec![0; FRAME_HEADER + 512];
            frame[4..8].copy_from_slice(&size.to_be_bytes());
            log.extend(frame);
        }
        assert_eq!(frames(&log).unwrap(), (3, 2));
        assert_eq!(frames(&[]).unwrap(), (0, 0));
    }
}
