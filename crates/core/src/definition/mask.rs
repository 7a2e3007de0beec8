//! [`Mask`]: the parts of a parameter that people must not see (the column `mask`).
//!
//! Masked values are replaced in the text, so that whatever is not masked keeps its bytes: digits of amounts, the order of members, blanks.
//! What people see of the other texts of a notice is left to `masking.rs`.

use std::collections::BTreeSet;
use std::str::FromStr;

use super::NotifyDef;
use crate::path::{Budget, Kind, Tree, Unjudged, decoded};

/// What people see instead of a masked value.
pub const MASKED: &str = "***";
/// Masked texts and numbers that are shorter than this are not looked for in error texts, because they would be found in any text.
const SHORTEST: usize = 3;
/// The longest mask, in bytes.
const LONGEST: usize = 10_000;

const EXPECTED: &str = "a JSON array of paths such as `[\"$.card.number\", \"$.items[*].iban\", \"$..password\"]`";

/// The paths of a parameter whose values people must not see: the column `mask`, a JSON array of texts.
///
/// A path is a part of JSONPath (RFC 9535): `$` is the parameter, `.name` or `['a name']` a member, `[*]` or `.*` all elements or
/// members, and `..` stands before a step that is searched at any depth.
///
/// ```
/// use solid_notify_core::definition::Mask;
/// let mask: Mask = r#"["$.card.number", "$.items[*].iban"]"#.parse()?;
/// let param = r#"{"amount":1.10,"card":{"number":"4111"},"items":[{"iban":"DE1"},{"iban":"DE2"}]}"#;
/// let shown = r#"{"amount":1.10,"card":{"number":"***"},"items":[{"iban":"***"},{"iban":"***"}]}"#;
/// assert_eq!(mask.masked(param), shown);
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mask(Vec<Vec<Step>>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// A member of an object.
    Name(String),
    /// All members or elements.
    All,
    /// The steps that follow begin here or anywhere below.
    Anywhere,
}

impl FromStr for Mask {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!("{EXPECTED}, of at most {LONGEST} bytes; it has {} bytes", text.len()));
        }
        let paths: Vec<String> = serde_json::from_str(text).map_err(|_| EXPECTED.to_owned())?;
        if paths.is_empty() {
            return Err(format!("{EXPECTED}, or null where nothing is masked"));
        }
        let path = |path: &String| steps(path).map_err(|problem| format!("{EXPECTED}; {path:?} {problem}"));
        paths.iter().map(path).collect::<Result<_, _>>().map(Self)
    }
}

/// Reads a path; the error follows its text.
fn steps(path: &str) -> Result<Vec<Step>, String> {
    let mut rest = path.strip_prefix('$').ok_or("does not begin with `$`")?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        let mut bare = None;
        if let Some(after) = rest.strip_prefix("..") {
            steps.push(Step::Anywhere);
            if after.starts_with('[') { rest = after } else { bare = Some(after) }
        } else {
            bare = rest.strip_prefix('.');
        }
        let (step, after) = if let Some(text) = bare {
            let end = text.find(['.', '[']).unwrap_or(text.len());
            let (name, after) = text.split_at(end);
            match name {
                "*" => (Step::All, after),
                _ if name.chars().all(is_of_a_name) && !name.is_empty() => (Step::Name(name.to_owned()), after),
                _ => return Err(format!("has {name:?} as a name; write `['{name}']`")),
            }
        } else if let Some(after) = rest.strip_prefix("[*]") {
            (Step::All, after)
        } else if let Some(text) = rest.strip_prefix("['") {
            let (name, after) = text.split_once("']").ok_or("has no `']` behind `['`")?;
            if name.contains(['\'', '\\']) {
                return Err(format!("has a quote or a backslash in the name {name:?}, which no path can have"));
            }
            (Step::Name(name.to_owned()), after)
        } else {
            return Err(format!("has {rest:?}; a step is `.name`, `['name']`, `[*]`, `.*` or `..name`"));
        };
        steps.push(step);
        rest = after;
    }
    Ok(steps)
}

fn is_of_a_name(letter: char) -> bool {
    letter == '_' || letter == '-' || letter.is_alphanumeric()
}

impl Mask {
    /// Returns the mask `["$"]`, of the whole parameter.
    pub fn whole() -> Self {
        Self(vec![Vec::new()])
    }

    /// Returns the parameter as people see it: [`MASKED`] instead of each masked value, the rest as stored. A parameter that cannot
    /// be read, or for which finding the values takes too many steps, is masked as a whole.
    pub fn masked(&self, param: &str) -> String {
        self.apply(param, &mut Budget::default()).map_or_else(|_| format!("\"{MASKED}\""), |(shown, _)| shown)
    }

    /// Returns the masked parameter, and the texts and numbers that were masked; `None`: they are too many.
    pub(super) fn apply(
        &self,
        param: &str,
        budget: &mut Budget,
    ) -> Result<(String, Option<BTreeSet<String>>), Unjudged> {
        let tree = Tree::read(param, budget)?;
        let (mut states, mut masked) = (States::new(), Vec::new());
        (0..self.0.len()).for_each(|path| self.reach((path, 0), &mut states));
        self.find(&tree, 0, &states, budget, &mut masked)?;
        let (mut shown, mut end) = (String::with_capacity(param.len()), 0);
        for node in &masked {
            let place = tree.place(*node);
            shown.push_str(&param[end..place.start]);
            shown.push_str(&format!("\"{MASKED}\""));
            end = place.end;
        }
        shown.push_str(&param[end..]);
        Ok((shown, values(&tree, &masked, budget).ok()))
    }

    /// Adds a state, and behind [`Step::Anywhere`] what follows.
    fn reach(&self, (path, step): State, states: &mut States) {
        states.push((path, step));
        if self.0[path].get(step) == Some(&Step::Anywhere) {
            self.reach((path, step + 1), states);
        }
    }

    /// Adds the masked values at and below a value that is in these states, in the order of the text.
    fn find(
        &self,
        tree: &Tree<'_>,
        node: u32,
        states: &[State],
        budget: &mut Budget,
        masked: &mut Vec<u32>,
    ) -> Result<(), Unjudged> {
        if states.iter().any(|(path, step)| *step == self.0[*path].len()) {
            masked.push(node);
            return Ok(());
        }
        if states.is_empty() {
            return Ok(());
        }
        for child in tree.children(node) {
            budget.spend(1 + states.len() as u64)?;
            let raw_name = tree.raw_name(child);
            budget.spend_bytes(raw_name.map_or(0, str::len))?;
            let name = raw_name.map(decoded);
            let mut below = States::new();
            for (path, step) in states {
                match &self.0[*path][*step] {
                    Step::Anywhere => self.reach((*path, *step), &mut below),
                    Step::Name(wanted) if name.as_deref() != Some(wanted.as_bytes()) => {}
                    Step::All | Step::Name(_) => self.reach((*path, step + 1), &mut below),
                }
            }
            // Several ways lead to the same state; without this, each level would multiply them.
            below.sort_unstable();
            below.dedup();
            self.find(tree, child, &below, budget, masked)?;
        }
        Ok(())
    }
}

/// A path, and how many of its steps lead to a value.
type State = (usize, usize);
type States = Vec<State>;

/// Returns the texts and numbers at and below these places, as they stand in JSON and as they are.
fn values(tree: &Tree<'_>, places: &[u32], budget: &mut Budget) -> Result<BTreeSet<String>, Unjudged> {
    let mut values = BTreeSet::new();
    let mut add = |text: &str| {
        if text.chars().count() >= SHORTEST {
            values.insert(text.to_owned());
        }
    };
    for node in places.iter().flat_map(|place| tree.with_all_below(*place)) {
        // A new one is put in its place among the others, and takes memory.
        budget.spend(8)?;
        budget.spend_bytes(tree.written(node).len())?;
        match tree.kind(node) {
            Kind::Text => {
                let raw = tree.raw_text(node);
                add(raw);
                add(&String::from_utf8_lossy(&decoded(raw)));
            }
            Kind::Number => add(tree.written(node)),
            Kind::Null | Kind::False | Kind::True | Kind::Array | Kind::Object => {}
        }
    }
    Ok(values)
}

impl NotifyDef {
    /// Returns the mask of the row; `None`: nothing is masked.
    pub(crate) fn parsed_mask(&self) -> Option<Result<Mask, String>> {
        self.mask.as_deref().filter(|text| !text.trim().is_empty()).map(str::parse)
    }
}
