//! The processor time of processes, from `/proc`. It shows the cost also on a machine with other work, where a rate does not.
//! None where there is no `/proc`.

use std::fs;

/// The kernel counts processor time in hundredths of a second on every architecture.
const TICKS_A_SECOND: f64 = 100.0;

/// Returns the processor time of this process, in seconds.
pub fn own() -> Option<f64> {
    read("self").map(|used| used.own)
}

/// Returns the processor time of a process, of the children that it has now, and of those that it had, in seconds: a server and its
/// sessions.
pub fn with_children(process: u32) -> Option<f64> {
    let parent = read(&process.to_string())?;
    let pids = fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let children = pids.filter_map(|pid| read(&pid)).filter(|used| used.parent == process);
    Some(parent.own + parent.ended_children + children.map(|used| used.own).sum::<f64>())
}

struct Used {
    parent: u32,
    own: f64,
    ended_children: f64,
}

fn read(process: &str) -> Option<Used> {
    parse(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

fn parse(stat: &str) -> Option<Used> {
    // The second field is the program's name in brackets, in which anything may stand.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let seconds = |field: usize| Some(fields.get(field - 3)?.parse::<f64>().ok()? / TICKS_A_SECOND);
    Some(Used {
        parent: fields.get(1)?.parse().ok()?,
        own: seconds(14)? + seconds(15)?,
        ended_children: seconds(16)? + seconds(17)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_found_behind_any_name() {
        let used = parse("42 (a) b (c) S 7 42 42 0 -1 0 1 2 3 4 150 50 300 100 20 0 1 0 9").unwrap();
        assert_eq!((used.parent, used.own, used.ended_children), (7, 2.0, 4.0));
        assert!(parse("nonsense").is_none());
    }
}
