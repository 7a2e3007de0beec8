//! Fills the folder with the newest servers ([`unstable`]) on Debian, by `mmdebstrap` and from the archive of the machine's
//! package sources.
//!
//! Two runs do not conflict: one fills the folder under a lock, and the other one waits. A half-filled folder has another
//! name, so no run uses it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::servers::unstable::{self, PACKAGES};
use anyhow::{Context, Result, bail, ensure};

use crate::install;
use crate::run::run;

/// The program that unpacks packages with their dependencies.
const UNPACKER: &str = "mmdebstrap";

/// Whether the folder can be filled: as root, on Debian. Its relatives' archives have no suite of this name.
pub(crate) fn is_possible() -> bool {
    install::is_possible() && os_release("ID").as_deref() == Some("debian") && unstable::place().is_some()
}

/// Fills the folder, unless that is done. Blocks, for a minute.
///
/// # Errors
/// Fails where that is not possible: without root, without `apt-get`, or where no package source is an archive of Debian.
pub fn unpack() -> Result<()> {
    let place = unstable::place().context("neither HOME nor XDG_CACHE_HOME says where the folder may be")?;
    let parent = place.parent().context("the folder has no place")?;
    fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
    // The operating system releases it also when this process is killed.
    let lock = fs::File::create(place.with_extension("lock")).context("cannot create the lock of the folder")?;
    lock.lock().context("cannot wait for another run that fills the folder")?;
    if place.is_dir() {
        return Ok(());
    }
    let archive = archive().context("the machine's package sources name no archive of Debian")?;
    if !Path::new("/usr/bin").join(UNPACKER).exists() {
        install::install(&[UNPACKER])?;
    }
    // Under the lock, so it is what a killed run left.
    let half = place.with_extension("half");
    remove(&half)?;
    eprintln!("unpacking the newest servers from {archive} into {}, once", place.display());
    let mut command = Command::new(UNPACKER);
    command.args(["--variant=extract", "--mode=root", "--quiet"]);
    // The signatures of snapshot mirrors have expired.
    command.arg("--aptopt=Acquire::Check-Valid-Until \"false\"").arg(format!("--include={}", PACKAGES.join(",")));
    command.arg("sid").arg(&half).arg(&archive).stdout(std::io::stderr());
    let outcome = run(&mut command, None)?;
    if !outcome.succeeded() {
        remove(&half)?;
        bail!("{UNPACKER} could not unpack {} from {archive} ({outcome:?})", PACKAGES.join(", "));
    }
    finish(&half)?;
    fs::rename(&half, &place).with_context(|| format!("cannot rename {}", half.display()))
}

/// Does the work of the packages' scripts that the servers need.
fn finish(folder: &Path) -> Result<()> {
    // PostgreSQL looks its account up.
    let accounts = "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n";
    fs::write(folder.join("etc/passwd"), accounts).context("cannot write the folder's accounts")?;
    for writable in ["tmp", "dev/shm"] {
        let path = folder.join(writable);
        fs::create_dir_all(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o1777))?;
    }
    Ok(())
}

/// Removes a folder, but nothing that is mounted in it.
fn remove(folder: &Path) -> Result<()> {
    let outcome = run(Command::new("rm").args(["-rf", "--one-file-system", "--"]).arg(folder), None)?;
    ensure!(outcome.succeeded(), "cannot remove {}", folder.display());
    Ok(())
}

/// The URI of Debian's archive, from the machine's package sources.
fn archive() -> Option<String> {
    let codename = os_release("VERSION_CODENAME")?;
    let folder = Path::new("/etc/apt");
    let mut files = vec![folder.join("sources.list")];
    let more = fs::read_dir(folder.join("sources.list.d")).into_iter().flatten().flatten();
    files.extend(more.map(|entry| entry.path()));
    files.sort();
    files.iter().find_map(|file| {
        let text = fs::read_to_string(file).ok()?;
        match file.extension()?.to_str()? {
            "sources" => archive_in_stanzas(&text, &codename),
            "list" => archive_in_lines(&text, &codename),
            _ => None,
        }
    })
}

/// From the `.sources` format: stanzas of fields.
fn archive_in_stanzas(text: &str, codename: &str) -> Option<String> {
    let text: String = text.lines().filter(|line| !line.starts_with('#')).flat_map(|line| [line, "\n"]).collect();
    text.split("\n\n").find_map(|stanza| {
        let field = |name: &str| {
            let line = |line: &&str| line.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
            let value = stanza.lines().find(line)?.get(name.len()..)?.trim_start().strip_prefix(':')?;
            Some(value.split_whitespace().collect::<Vec<_>>())
        };
        let is_meant = field("Types")?.contains(&"deb")
            && field("Suites")?.iter().any(|suite| is_of_debian(suite, codename))
            && field("Components")?.contains(&"main")
            && field("Enabled").is_none_or(|enabled| enabled != ["no"]);
        is_meant.then(|| field("URIs")?.first().map(|uri| (*uri).to_owned())).flatten()
    })
}

/// From the one-line format: `deb [options] URI suite components`.
fn archive_in_lines(text: &str, codename: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let rest = line.trim().strip_prefix("deb ")?.trim_start();
        let rest = if rest.starts_with('[') { rest.split_once(']')?.1 } else { rest };
        let mut words = rest.split_whitespace();
        let (uri, suite) = (words.next()?, words.next()?);
        (is_of_debian(suite, codename) && words.any(|word| word == "main")).then(|| uri.to_owned())
    })
}

/// The release itself: its updates and those of other makers have longer names, and security fixes an archive of their own.
fn is_of_debian(suite: &str, codename: &str) -> bool {
    [codename, "oldstable", "stable", "testing", "unstable", "sid"].contains(&suite)
}

/// Returns a value of the file that describes the operating system.
fn os_release(name: &str) -> Option<String> {
    let text = fs::read_to_string("/etc/os-release").ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
    Some(value.trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archive_is_read_from_stanzas_and_not_that_of_security_or_of_others() {
        let text = "Types: deb\nURIs: http://other.example/debian\nSuites: nodistro\nComponents: main\n\n\
            # Debian\nTypes: deb\n# a comment\nURIs: http://deb.example/debian-security\nSuites: bookworm-security\nComponents: main\n\n\
            types: deb deb-src\nuris:  http://deb.example/debian\nSuites: bookworm bookworm-updates\nComponents: main contrib\n";
        assert_eq!(archive_in_stanzas(text, "bookworm").as_deref(), Some("http://deb.example/debian"));
        assert_eq!(archive_in_stanzas(text, "trixie"), None);
        let disabled = "Types: deb\nEnabled: no\nURIs: http://deb.example/debian\nSuites: bookworm\nComponents: main\n";
        assert_eq!(archive_in_stanzas(disabled, "bookworm"), None);
    }

    #[test]
    fn archive_is_read_from_lines_with_and_without_options() {
        let text = "# deb http://old.example/debian bookworm main\n\
            deb http://deb.example/debian-security bookworm-security main\n\
            deb [arch=amd64 signed-by=/a.gpg] http://cloud.example/apt cloud-sdk main\n";
        assert_eq!(archive_in_lines(text, "bookworm"), None);
        let with = format!("{text}deb [arch=amd64] http://deb.example/debian bookworm main contrib\n");
        assert_eq!(archive_in_lines(&with, "bookworm").as_deref(), Some("http://deb.example/debian"));
        assert_eq!(archive_in_lines("deb http://a/debian stable main", "bookworm").as_deref(), Some("http://a/debian"));
    }
}
