//! [`Mask`]: the parts of a parameter that people must not see (the column `mask`), and the texts that people see instead.
//!
//! The JSON is rewritten as text, so that whatever is not masked keeps its bytes: digits of amounts, and the order of members.
//! Which ways out lead to people is decided by their callers; see `docs/decisions/0108-people-see-masked-parameters.md`.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::NotifyDef;
use super::spelled::replaced;
use crate::cipher::{ENCRYPTED, is_encrypted};
use crate::notice::{NoticeRecord, Response};

/// What people see instead of a masked value.
pub const MASKED: &str = "***";
/// Masked texts and numbers that are shorter than this are not looked for in error texts, because they would be found in any text.
const SHORTEST: usize = 3;
/// A parameter that nests deeper is masked as a whole. Parameters that the library adds are less deep.
const DEEPEST: usize = 100;

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
    /// be read is masked as a whole.
    pub fn masked(&self, param: &str) -> String {
        self.apply(param).map_or_else(|| format!("\"{MASKED}\""), |(shown, _)| shown)
    }

    /// Returns a text, such as the message of an error, without the masked values of `param`: texts and numbers of at least three
    /// characters, also where the text spells them with other escapes of JSON (`\u00e9`, `\/`). If the parameter cannot be read, nothing
    /// of the text is left.
    pub fn without_values_of(&self, param: &str, text: String) -> String {
        self.apply(param).map_or_else(|| MASKED.to_owned(), |(_, values)| replaced(&text, &values, MASKED))
    }

    /// Returns a response as people see it. It may repeat the parameter, so a body that is a JSON object or array is masked like a
    /// parameter and has none of the masked values of `param`; of another body nothing is left. The number of an HTTP status stays;
    /// another status has none of the masked values.
    pub fn masked_response(&self, param: &str, response: Response) -> Response {
        let status = |text: String| if is_http(&text) { text } else { self.without_values_of(param, text) };
        let body = |text: String| match self.apply(&text).filter(|_| text.trim_start().starts_with(['{', '['])) {
            Some((shown, _)) => self.without_values_of(param, shown),
            None => MASKED.to_owned(),
        };
        response.shown(status, body)
    }

    /// Returns the masked parameter, and the texts and numbers that were masked.
    fn apply(&self, param: &str) -> Option<(String, Vec<String>)> {
        let paths: Vec<&[Step]> = self.0.iter().map(Vec::as_slice).collect();
        let (mut shown, mut values) = (String::with_capacity(param.len()), Vec::new());
        mask(serde_json::from_str::<&RawValue>(param).ok()?.get(), &paths, DEEPEST, &mut shown, &mut values)?;
        values.sort_unstable();
        values.dedup();
        Some((shown, values))
    }
}

/// Appends a value as people see it, and collects what is masked in it. `None`: it is too deep.
fn mask(json: &str, paths: &[&[Step]], depth: usize, shown: &mut String, values: &mut Vec<String>) -> Option<()> {
    let mut here = Vec::new();
    paths.iter().for_each(|path| reach(path, &mut here));
    if here.iter().any(|path| path.is_empty()) {
        collect(json, depth, values)?;
        shown.push_str(&format!("\"{MASKED}\""));
        return Some(());
    }
    let children = match json.as_bytes().first() {
        Some(b'{' | b'[') if !here.is_empty() => children(json)?,
        _ => {
            shown.push_str(json);
            return Some(());
        }
    };
    let depth = depth.checked_sub(1)?;
    let (open, close) = if json.starts_with('{') { ('{', '}') } else { ('[', ']') };
    shown.push(open);
    for (n, (name, child)) in children.into_iter().enumerate() {
        if n > 0 {
            shown.push(',');
        }
        let next = |path| match <[Step]>::split_first(path)? {
            (Step::Anywhere, _) => Some(path),
            (Step::All, rest) => Some(rest),
            (Step::Name(wanted), rest) => (Some(wanted) == name.as_ref()).then_some(rest),
        };
        let below: Vec<&[Step]> = here.iter().copied().filter_map(next).collect();
        if let Some(name) = &name {
            shown.push_str(&serde_json::to_string(name).ok()?);
            shown.push(':');
        }
        mask(child, &below, depth, shown, values)?;
    }
    shown.push(close);
    Some(())
}

/// Adds the paths that a path is at a value: itself, and behind [`Step::Anywhere`] what follows.
fn reach<'a>(path: &'a [Step], here: &mut Vec<&'a [Step]>) {
    here.push(path);
    if let Some((Step::Anywhere, rest)) = path.split_first() {
        reach(rest, here);
    }
}

/// Adds the texts and numbers of a masked value, as they stand in JSON and as they are.
fn collect(json: &str, depth: usize, values: &mut Vec<String>) -> Option<()> {
    let mut add = |text: &str| {
        if text.chars().count() >= SHORTEST {
            values.push(text.to_owned());
        }
    };
    match json.as_bytes().first()? {
        b'"' => {
            add(&serde_json::from_str::<String>(json).ok()?);
            add(json.get(1..json.len() - 1)?);
        }
        b'{' | b'[' => {
            let depth = depth.checked_sub(1)?;
            for (_, child) in children(json)? {
                collect(child, depth, values)?;
            }
        }
        b't' | b'f' | b'n' => {}
        _ => add(json),
    }
    Some(())
}

/// Returns true for the number of an HTTP status.
fn is_http(status: &str) -> bool {
    status.parse::<u16>().is_ok_and(|number| (100..600).contains(&number))
}

type Child<'a> = (Option<String>, &'a str);

/// Returns the members of an object, with their names and also those of the same name, or the elements of an array.
fn children(json: &str) -> Option<Vec<Child<'_>>> {
    struct Children;

    impl<'de> Visitor<'de> for Children {
        type Value = Vec<Child<'de>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object or an array")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut children = Vec::new();
            while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
                children.push((Some(name), value.get()));
            }
            Ok(children)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            let mut children = Vec::new();
            while let Some(value) = seq.next_element::<&RawValue>()? {
                children.push((None, value.get()));
            }
            Ok(children)
        }
    }

    serde_json::Deserializer::from_str(json).deserialize_any(Children).ok()
}

impl NotifyDef {
    /// Returns the mask of the row; `None`: nothing is masked.
    pub(crate) fn parsed_mask(&self) -> Option<Result<Mask, String>> {
        self.mask.as_deref().filter(|text| !text.trim().is_empty()).map(str::parse)
    }

    /// Returns a parameter of one of its notices as people see it: [`ENCRYPTED`] instead of one that is still encrypted. If the column
    /// `mask` is invalid, nothing of it is shown.
    pub fn masked(&self, param: &str) -> String {
        match self.parsed_mask() {
            _ if is_encrypted(param) => format!("\"{ENCRYPTED}\""),
            None => param.to_owned(),
            Some(Ok(mask)) => mask.masked(param),
            Some(Err(_)) => format!("\"{MASKED}\""),
        }
    }
}

impl NoticeRecord {
    /// Returns the record as people see it, by the row of its definition as it is now: the parameter and the responses masked, and the
    /// description, the errors and the reason without the masked values. Without the row nothing of the parameter is shown, and nothing of
    /// one that is still encrypted, because this process has no cipher or not its key.
    #[must_use]
    pub fn for_people(mut self, definition: Option<&NotifyDef>) -> Self {
        if is_encrypted(&self.param) {
            if definition.and_then(NotifyDef::parsed_mask).is_some() {
                // The texts of the handler were stored without any value of the parameter; this one may be the application's.
                self.description = self.description.map(|_| MASKED.to_owned());
            }
            self.param = format!("\"{ENCRYPTED}\"");
            return self;
        }
        let mask = match definition.map(NotifyDef::parsed_mask) {
            Some(None) => return self,
            Some(Some(mask)) => mask.ok(),
            None => None,
        };
        let of_attempts = self.errors.iter_mut().filter_map(|error| error.response.as_mut());
        for response in of_attempts.chain(self.response.iter_mut().map(|last| &mut last.response)) {
            let stored = response.clone();
            *response = match &mask {
                Some(mask) => mask.masked_response(&self.param, stored),
                None => stored.shown(|status| status, |_| MASKED.to_owned()),
            };
        }
        if let Some(mask) = &mask {
            let shown = |text: &mut String| *text = mask.without_values_of(&self.param, std::mem::take(text));
            self.description.iter_mut().for_each(shown);
            self.end_reason.iter_mut().for_each(shown);
            self.errors.iter_mut().for_each(|error| shown(&mut error.message));
        } else {
            // An invalid mask, or no row: what it would hide is unknown.
            let hide = |text: &mut String| MASKED.clone_into(text);
            self.description.iter_mut().for_each(hide);
            self.end_reason.iter_mut().for_each(hide);
            self.errors.iter_mut().for_each(|error| hide(&mut error.message));
        }
        self.param = definition.map_or_else(|| format!("\"{MASKED}\""), |row| row.masked(&self.param));
        self
    }
}
