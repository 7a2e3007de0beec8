//! [`CountsFile`]: the committed counts, one value per line, so that a commit that changes a cost shows it as its diff.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use toml::{Table, Value};

use super::figure::{Figure, Figures};
use super::gate::depends_on_clock;

/// The counts of all databases, and why some of them grew.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CountsFile {
    /// By the name of the database; those of the client have the suffix `_client`.
    pub sections: BTreeMap<String, Section>,
    /// The newest is the last.
    pub growth: Vec<Growth>,
}

/// The counts of one database, or of the client on it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Section {
    /// The version of the server; of the client, those of the compiler and of valgrind. Counts of other versions are not compared.
    pub version: String,
    /// By work, then by counter.
    pub works: BTreeMap<String, BTreeMap<String, Count>>,
}

/// A count per notice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Count {
    /// The runs agreed: a later count is compared with this one.
    Gate(f64),
    /// The runs differed by more than half a percent, or the count depends on the clock.
    About(f64),
}

/// A count that grew, and the reason.
#[derive(Debug, Clone, PartialEq)]
pub struct Growth {
    /// `postgres enqueue wal_bytes`
    pub counter: String,
    pub before: f64,
    pub after: f64,
    pub reason: String,
}

const HEAD: &str = "# What the library costs for each notice. `cargo run -p bench -- count --write` writes this file, and bench/README.md explains it.\n\
    # `about` marks a count that is not compared: its runs differed by more than 0.5 %, or it depends on the clock.\n";

impl Section {
    /// Returns the section of counted figures.
    pub fn new(version: String, works: &BTreeMap<String, Figures>) -> Self {
        let count = |work: &str, counter: &str, figure: &Figure| {
            let is_gate = figure.is_steady() && !depends_on_clock(work, counter);
            if is_gate { Count::Gate(exact(figure.value)) } else { Count::About(about(figure.value)) }
        };
        let counts = |work: &str, figures: &Figures| {
            figures.iter().map(|(name, figure)| (name.clone(), count(work, name, figure))).collect()
        };
        Self { version, works: works.iter().map(|(work, figures)| (work.clone(), counts(work, figures))).collect() }
    }
}

/// Returns a count with the digits that the file keeps.
fn exact(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}

/// Returns a count with two digits, so that a rewrite of the file does not change it each time.
fn about(value: f64) -> f64 {
    if value == 0.0 {
        return 0.0;
    }
    let scale = 10_f64.powf(1.0 - value.abs().log10().floor());
    (value * scale).round() / scale
}

impl CountsFile {
    /// Reads the file; it is empty where there is none.
    ///
    /// # Errors
    /// Fails where it cannot be read, with the line or the name that is wrong.
    pub fn read(path: &Path) -> Result<Self> {
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&text).with_context(|| format!("cannot read the counts in {}", path.display())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    /// Writes the file.
    ///
    /// # Errors
    /// Fails where it cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        std::fs::write(path, self.text()).with_context(|| format!("cannot write {}", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let mut file = Self::default();
        for (name, value) in text.parse::<Table>()? {
            match value {
                Value::Array(growth) if name == "growth" => {
                    file.growth = growth.iter().map(parse_growth).collect::<Result<_>>()?;
                }
                Value::Table(table) => {
                    let section = parse_section(table).with_context(|| format!("in [{name}]"))?;
                    file.sections.insert(name, section);
                }
                _ => bail!("`{name}` is not a table of counts"),
            }
        }
        Ok(file)
    }

    fn text(&self) -> String {
        let mut text = HEAD.to_owned();
        // Writing to a string cannot fail.
        for (name, section) in &self.sections {
            let _ = write!(text, "\n[{name}]\nversion = {:?}\n", section.version);
            for (work, counts) in &section.works {
                let _ = write!(text, "\n[{name}.{work}]\n");
                for (counter, count) in counts {
                    let _ = match count {
                        Count::Gate(value) => writeln!(text, "{counter} = {value:?}"),
                        Count::About(value) => writeln!(text, "{counter} = {{ about = {value:?} }}"),
                    };
                }
            }
        }
        for Growth { counter, before, after, reason } in &self.growth {
            let reason = Value::String(reason.clone());
            let _ = write!(
                text,
                "\n[[growth]]\ncounter = {counter:?}\nbefore = {before:?}\nafter = {after:?}\nreason = {reason}\n"
            );
        }
        text
    }
}

fn parse_section(table: Table) -> Result<Section> {
    let mut section = Section::default();
    for (name, value) in table {
        match value {
            Value::String(version) if name == "version" => section.version = version,
            Value::Table(counts) => {
                let counts = counts.iter().map(|(counter, value)| Ok((counter.clone(), parse_count(counter, value)?)));
                section.works.insert(name, counts.collect::<Result<_>>()?);
            }
            _ => bail!("`{name}` is neither the version nor a work with its counts"),
        }
    }
    Ok(section)
}

fn parse_count(name: &str, value: &Value) -> Result<Count> {
    let about = value.as_table().and_then(|table| table.get("about")).and_then(number).map(Count::About);
    about.or_else(|| number(value).map(Count::Gate)).with_context(|| {
        format!("`{name}` is {value}: write a number, or {{ about = … }} for one that is not compared")
    })
}

#[allow(clippy::cast_precision_loss)] // Counts are far below 2^52.
fn number(value: &Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|number| number as f64))
}

fn parse_growth(value: &Value) -> Result<Growth> {
    let text =
        |name| value.get(name).and_then(Value::as_str).with_context(|| format!("[[growth]] needs a text `{name}`"));
    let count = |name| value.get(name).and_then(number).with_context(|| format!("[[growth]] needs a number `{name}`"));
    Ok(Growth {
        counter: text("counter")?.to_owned(),
        before: count("before")?,
        after: count("after")?,
        reason: text("reason")?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> CountsFile {
        let counts =
            [("wal_bytes", Count::Gate(812.25)), ("rows", Count::Gate(2.0)), ("wal_records", Count::About(1200.0))];
        let counts = counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
        let section = Section { version: "15.18".to_owned(), works: BTreeMap::from([("enqueue".to_owned(), counts)]) };
        let growth = Growth {
            counter: "postgres enqueue rows".to_owned(),
            before: 1.0,
            after: 2.0,
            reason: "a \"key\" per row".to_owned(),
        };
        CountsFile { sections: BTreeMap::from([("postgres".to_owned(), section)]), growth: vec![growth] }
    }

    #[test]
    fn file_is_read_as_it_was_written() {
        let file = example();
        assert_eq!(CountsFile::parse(&file.text()).unwrap(), file);
    }

    #[test]
    fn each_count_has_a_line_of_its_own() {
        let text = example().text();
        for line in ["[postgres.enqueue]", "wal_bytes = 812.25", "rows = 2.0", "wal_records = { about = 1200.0 }"] {
            assert!(text.lines().any(|other| other == line), "{line} in {text}");
        }
    }

    #[test]
    fn wrong_value_is_refused_with_its_name() {
        let error = CountsFile::parse("[postgres.enqueue]\nrows = \"two\"\n").unwrap_err();
        let text = format!("{error:#}");
        assert!(text.contains("[postgres]") && text.contains("`rows` is \"two\""), "{text}");
    }

    #[test]
    fn digits_of_a_count_that_is_no_gate_are_two() {
        assert_eq!((about(1234.5), about(0.0567), about(0.0)), (1200.0, 0.057, 0.0));
        assert_eq!(exact(1.23456), 1.2346);
    }
}
