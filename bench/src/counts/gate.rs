//! The gate: compares counted figures with those of the file. A count may grow by 2 %; more needs a reason.

use std::collections::BTreeMap;

use super::Work;
use super::figure::Figures;
use super::file::{Count, CountsFile, Growth, Section};

/// How much a count may grow, as a share of the old one.
const LIMIT: f64 = 0.02;
/// A count that is almost zero may grow by this: less than one statement in a batch of 500.
const LEAST: f64 = 0.000_3;
/// The same for single transactions. Once a second the library reads the definitions beside them.
const LEAST_OF_TRANSACTION: f64 = 0.05;

/// A count that differs from the file's by more than the limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// `postgres enqueue wal_bytes`
    pub counter: String,
    pub before: f64,
    pub now: f64,
}

/// What differs from the file.
#[derive(Debug, Default, PartialEq)]
pub struct Comparison {
    /// Counts that grew beyond the limit in each run.
    pub grown: Vec<Change>,
    /// Counts that fell as far in each run.
    pub fallen: Vec<Change>,
    /// Counts that only one of the two has.
    pub unmatched: Vec<String>,
    /// The reason why nothing was compared.
    pub skipped: Option<String>,
}

/// Returns true if a count of a work is beyond the limit above another one.
pub fn is_above(work: &str, count: f64, other: f64) -> bool {
    let least = if work == Work::Enqueue.name() { LEAST_OF_TRANSACTION } else { LEAST };
    count > other * (1.0 + LIMIT) + least
}

/// Returns true if a counter depends on the clock however few its runs differ: how often a sweeper looks for notices while it sends and on
/// which connection, how often an outbox reads the definitions again, and the background threads of InnoDB.
pub fn depends_on_clock(work: &str, counter: &str) -> bool {
    match counter {
        "reads" | "selects" | "redo_bytes" | "page_requests" => true,
        "prepares" | "round_trips" | "scripts" => work != Work::Enqueue.name(),
        _ => false,
    }
}

/// Compares the figures of one database with its section of the file.
pub fn compare(name: &str, before: Option<&Section>, version: &str, now: &BTreeMap<String, Figures>) -> Comparison {
    let mut comparison = Comparison::default();
    let Some(before) = before else {
        comparison.skipped = Some(format!("{name} is not compared: the file has no counts of it"));
        return comparison;
    };
    if before.version != version {
        comparison.skipped = Some(format!(
            "{name} is not compared: this is {version}, and the file has the counts of {}",
            before.version
        ));
        return comparison;
    }
    for (work, figures) in now {
        let Some(counts) = before.works.get(work) else {
            comparison.unmatched.push(format!("{name} {work} is not in the file"));
            continue;
        };
        for (counter, figure) in figures {
            let full_name = format!("{name} {work} {counter}");
            match counts.get(counter) {
                None => comparison.unmatched.push(format!("{full_name} is not in the file")),
                Some(Count::About(_)) => {}
                Some(Count::Gate(old)) if is_above(work, figure.least, *old) => {
                    comparison.grown.push(Change { counter: full_name, before: *old, now: figure.value });
                }
                Some(Count::Gate(old)) if is_above(work, *old, figure.greatest) => {
                    comparison.fallen.push(Change { counter: full_name, before: *old, now: figure.value });
                }
                Some(Count::Gate(_)) => {}
            }
        }
        let missing = counts.keys().filter(|counter| !figures.contains_key(*counter));
        comparison.unmatched.extend(missing.map(|counter| format!("{name} {work} {counter} was not counted")));
    }
    comparison
}

/// Puts a section into the file, and the reason for each count that grew.
///
/// Returns the growth that has no reason, in which case the file is unchanged.
pub fn replace(file: &mut CountsFile, name: &str, section: Section, grown: &[Change], reason: Option<&str>) -> bool {
    if !grown.is_empty() && reason.is_none() {
        return false;
    }
    let reason = reason.unwrap_or_default();
    file.growth.extend(grown.iter().map(|change| Growth {
        counter: change.counter.clone(),
        before: change.before,
        after: (change.now * 10_000.0).round() / 10_000.0,
        reason: reason.to_owned(),
    }));
    let kept = file.sections.entry(name.to_owned()).or_default();
    // Works that were not counted this time stay, unless the server has another version now.
    if kept.version != section.version {
        kept.works.clear();
    }
    kept.version = section.version;
    kept.works.extend(section.works);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::figure::Figure;

    fn section(count: Count) -> Section {
        let counts = BTreeMap::from([("rows".to_owned(), count)]);
        Section { version: "15".to_owned(), works: BTreeMap::from([("enqueue".to_owned(), counts)]) }
    }

    fn counted(runs: &[f64]) -> BTreeMap<String, Figures> {
        let figures = Figures::from([("rows".to_owned(), Figure::of(runs).unwrap())]);
        BTreeMap::from([("enqueue".to_owned(), figures)])
    }

    fn compared(count: Count, runs: &[f64]) -> Comparison {
        compare("postgres", Some(&section(count)), "15", &counted(runs))
    }

    #[test]
    fn growth_beyond_two_percent_is_named() {
        assert_eq!(compared(Count::Gate(100.0), &[102.0]), Comparison::default());
        let grown = compared(Count::Gate(100.0), &[102.1]).grown;
        let expected = Change { counter: "postgres enqueue rows".to_owned(), before: 100.0, now: 102.1 };
        assert_eq!(grown, [expected]);
        assert_eq!(compared(Count::Gate(0.0), &[0.02]), Comparison::default(), "a reading of the definitions");
        assert!(is_above("succeed", 0.006, 0.004), "one more statement in a batch of 500");
    }

    #[test]
    fn one_run_within_the_limit_is_no_growth() {
        assert_eq!(compared(Count::Gate(100.0), &[101.0, 120.0, 130.0]), Comparison::default());
    }

    #[test]
    fn improvement_is_reported_apart() {
        let comparison = compared(Count::Gate(100.0), &[97.0]);
        assert!(comparison.grown.is_empty());
        assert_eq!(comparison.fallen.len(), 1);
    }

    #[test]
    fn count_that_is_no_gate_is_not_compared() {
        assert_eq!(compared(Count::About(100.0), &[200.0]), Comparison::default());
    }

    #[test]
    fn looks_of_a_sweeper_are_no_gate() {
        assert!(depends_on_clock("succeed", "round_trips") && !depends_on_clock("enqueue", "round_trips"));
        assert!(depends_on_clock("enqueue", "reads") && !depends_on_clock("fail", "statements"));
    }

    #[test]
    fn other_version_is_not_compared_and_says_so() {
        let comparison = compare("postgres", Some(&section(Count::Gate(1.0))), "17", &counted(&[9.0]));
        assert!(comparison.grown.is_empty());
        assert!(comparison.skipped.unwrap().contains("this is 17, and the file has the counts of 15"));
    }

    #[test]
    fn counter_that_only_one_side_has_is_reported() {
        let counts =
            Section { version: "15".to_owned(), works: BTreeMap::from([("enqueue".to_owned(), BTreeMap::new())]) };
        let unmatched = compare("postgres", Some(&counts), "15", &counted(&[1.0])).unmatched;
        assert_eq!(unmatched, ["postgres enqueue rows is not in the file"]);
    }

    #[test]
    fn growth_needs_a_reason_which_the_file_keeps() {
        let mut file = CountsFile::default();
        let grown = [Change { counter: "postgres enqueue rows".to_owned(), before: 1.0, now: 2.0 }];
        assert!(!replace(&mut file, "postgres", section(Count::Gate(2.0)), &grown, None));
        assert_eq!(file, CountsFile::default());
        assert!(replace(&mut file, "postgres", section(Count::Gate(2.0)), &grown, Some("a key per row")));
        assert_eq!(file.growth[0].reason, "a key per row");
        assert_eq!(file.sections["postgres"], section(Count::Gate(2.0)));
    }
}
