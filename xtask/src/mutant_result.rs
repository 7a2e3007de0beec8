//! The results of a test run, read from the printout of `cargo test`.

use std::collections::BTreeSet;

use test_servers::run::CommandResult;

/// The result of the tests of one mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MutantResult {
    /// The mutant is found: these tests failed.
    Red(Vec<String>),
    /// The mutant survives: no test failed.
    Green,
    /// The mutant survives the tests of these filters, each of which must find it.
    PartlyGreen(Vec<String>),
    /// The mutant does not compile, so no test ran.
    DoesNotCompile(String),
}

/// The results of single tests in a printout.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Results {
    pub(crate) passed: BTreeSet<String>,
    pub(crate) failed: BTreeSet<String>,
}

impl Results {
    /// Reads lines such as `test postgres::adding::a_case ... ok`.
    pub(crate) fn read(printed: &str) -> Self {
        let mut results = Self::default();
        for line in printed.lines() {
            // The test's own output may stand before the word.
            let Some(line) = line.strip_prefix("test ") else { continue };
            let Some((name, rest)) = line.split_once(" ... ") else { continue };
            let name = name.trim_end_matches(" - should panic").to_owned();
            if rest.ends_with("FAILED") {
                results.failed.insert(name);
            } else if rest.ends_with("ok") {
                results.passed.insert(name);
            }
        }
        results
    }

    /// True if each of the filters selected a test that ran.
    pub(crate) fn has(&self, filters: &[&str]) -> bool {
        let ran = |filter: &&str| self.passed.iter().chain(&self.failed).any(|name| name.contains(filter));
        filters.iter().all(ran)
    }
}

impl MutantResult {
    /// Returns the result of tests that ended with this outcome and printout.
    pub(crate) fn of(outcome: CommandResult, printed: &str) -> Self {
        if outcome.succeeded() {
            return Self::Green;
        }
        let mut failed: Vec<String> = Results::read(printed).failed.into_iter().collect();
        if outcome == CommandResult::TimedOut {
            failed.push("(did not end)".to_owned());
        } else if failed.is_empty() {
            failed.push("(the test program died)".to_owned());
        }
        Self::Red(failed)
    }

    /// Returns the result of a mutant that each of the filters must find.
    pub(crate) fn by_each(self, filters: &[&str]) -> Self {
        let Self::Red(failed) = self else { return self };
        let survived = |filter: &&&str| !failed.iter().any(|name| name.contains(**filter));
        let survived: Vec<String> = filters.iter().filter(survived).map(|filter| (*filter).to_owned()).collect();
        if survived.is_empty() { Self::Red(failed) } else { Self::PartlyGreen(survived) }
    }

    /// Returns the first error of a compiler's printout.
    pub(crate) fn of_a_build(printed: &str) -> Self {
        let error = printed.lines().find(|line| line.starts_with("error"));
        Self::DoesNotCompile(error.unwrap_or("the build failed").to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_between_other_output() {
        let results = Results::read(
            "running 3 tests\ntest a::good ... ok\ntest b::bad ... FAILED\ntest talks ... said this\nok\n\
             test result: FAILED. 1 passed; 1 failed;\ntest c - should panic ... ok\n",
        );
        assert_eq!(results.passed.iter().collect::<Vec<_>>(), ["a::good", "c"]);
        assert_eq!(results.failed.iter().collect::<Vec<_>>(), ["b::bad"]);
        assert!(results.has(&["good", "bad"]) && results.has(&[]) && !results.has(&["good", "elsewhere"]));
    }

    #[test]
    fn tests_that_do_not_end_find_the_mutant() {
        let red = |names: &[&str]| MutantResult::Red(names.iter().map(ToString::to_string).collect());
        assert_eq!(MutantResult::of(CommandResult::TimedOut, "test x ... FAILED"), red(&["x", "(did not end)"]));
        assert_eq!(MutantResult::of(CommandResult::TimedOut, ""), red(&["(did not end)"]));
    }

    #[test]
    fn each_filter_must_find_the_mutant() {
        let red = MutantResult::Red(vec!["postgres::keys::a".to_owned(), "mysql::keys::b".to_owned()]);
        assert_eq!(red.clone().by_each(&["postgres::keys", "mysql::"]), red);
        let partly = MutantResult::PartlyGreen(vec!["sqlite::".to_owned()]);
        assert_eq!(red.by_each(&["postgres::", "sqlite::"]), partly);
        assert_eq!(MutantResult::Green.by_each(&["postgres::"]), MutantResult::Green);
    }
}
