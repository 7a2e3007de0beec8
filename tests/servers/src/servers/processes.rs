//! Ends a process that we started, together with its children, without unsafe code.

use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// Kills a process and its children at once, as a power failure would.
///
/// The children are killed too, because PostgreSQL's live in process groups of their own and would
/// hold the shared memory, so that a new server could not start. The parent is stopped first: it
/// can neither start more children meanwhile, nor reap one and so set its number free for a
/// stranger.
///
/// The caller reaps the process itself afterwards.
pub(super) fn kill_with_children(process: Pid) {
    // An error means that the process has already ended, which is what we want.
    let _ = kill_process(process, Signal::STOP);
    let children = children_of(process);
    for child in &children {
        let _ = kill_process(*child, Signal::KILL);
    }
    let _ = kill_process(process, Signal::KILL);
    // They still hold memory and files for a moment after the signal.
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(2) && children.iter().any(|child| is_alive(*child)) {
        sleep(Duration::from_millis(2));
    }
}

/// Whether a process still holds anything. A zombie does not; its new parent, the system's first process, may reap it later.
fn is_alive(process: Pid) -> bool {
    match fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())) {
        Ok(line) => !line.rsplit_once(')').is_some_and(|(_, after)| after.starts_with(" Z")),
        Err(_) => test_kill_process(process).is_ok(),
    }
}

/// The direct children of a process: from `/proc` where there is one, since slim Linux images lack
/// `ps`, else from `ps`.
fn children_of(parent: Pid) -> Vec<Pid> {
    let pairs: Vec<(i32, i32)> = match fs::read_dir("/proc") {
        Ok(entries) => entries
            .flatten()
            .filter_map(|entry| parse_stat(&fs::read_to_string(entry.path().join("stat")).ok()?))
            .collect(),
        Err(_) => {
            let output = Command::new("ps").args(["-A", "-o", "pid=,ppid="]).output();
            let text = output.map(|output| output.stdout).unwrap_or_default();
            String::from_utf8_lossy(&text).lines().filter_map(parse_ps).collect()
        }
    };
    let parent = parent.as_raw_nonzero().get();
    pairs.into_iter().filter(|pair| pair.1 == parent).filter_map(|pair| Pid::from_raw(pair.0)).collect()
}

/// The process and its parent from a line of `/proc/*/stat`: `12 (any name, even with ")") S 1 …`.
fn parse_stat(line: &str) -> Option<(i32, i32)> {
    let (before, after) = line.rsplit_once(')')?;
    let process = before.split_once(' ')?.0.parse().ok()?;
    let parent = after.split_whitespace().nth(1)?.parse().ok()?;
    Some((process, parent))
}

fn parse_ps(line: &str) -> Option<(i32, i32)> {
    let mut numbers = line.split_whitespace();
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_found_behind_a_name_with_parentheses() {
        assert_eq!(parse_stat("12 (a) R 7 (b) S 34 12 12 0 -1"), Some((12, 34)));
        assert_eq!(parse_stat("nonsense"), None);
    }

    #[test]
    fn the_parent_is_found_in_the_output_of_ps() {
        assert_eq!(parse_ps("   12     1"), Some((12, 1)));
    }
}
