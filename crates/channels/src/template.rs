//! [`Template`]: a text of a `handler_config` with values of the notice in it, such as `Order {{ param.id }}`.
//!
//! The engine is minijinja, whose language is that of Jinja. Templates are checked when the configuration is read. A value that
//! does not exist is an error, so that no receiver gets a text with a gap.

mod compared;
mod depth;
mod filters;
mod fuel;
#[cfg(feature = "plain-webhook")]
mod in_url;
mod json;
mod operands;
mod output;
mod param;
#[cfg(test)]
mod param_tests;
#[cfg(test)]
mod tests;
mod tokens;
mod values;

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt::{self, Write as _};
use std::marker::PhantomData;

use minijinja::value::{Value, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Output, State, UndefinedBehavior, escape_formatter};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use solid_notify_core::ErrorClass;
use solid_notify_sweeper::Failure;

use crate::field::parsed;
pub(crate) use fuel::reading;
use fuel::{FUEL, READING};
#[cfg(feature = "plain-webhook")]
pub(crate) use in_url::{BEGIN, END};
use output::Bounded;
pub use values::Values;

/// A template is checked with this many steps, then with [`READING`]: what it takes until it fails is not known, and costs all of them.
const FEW: u64 = 1000;

/// How many bytes one rendering may make, where the place of the text has no limit of its own: as many as a parameter has by default.
pub const OUTPUT_LIMIT: usize = 1024 * 1024;

/// How deep loops of a template may call themselves.
const RECURSION: usize = 100;

/// How values are escaped in a template.
pub trait Escape: Send + Sync + 'static {
    /// The suffix by which the engine chooses the escaping.
    const SUFFIX: &'static str;
    /// The shape for the documentation, such as `template (text)`.
    const SHAPE: &'static str;
}

/// Values are inserted as they are.
#[derive(Debug, Clone, Copy)]
pub struct Text;

/// Values are inserted as JSON values: a text with its quotes.
#[derive(Debug, Clone, Copy)]
pub struct Json;

/// Values are escaped for HTML.
#[derive(Debug, Clone, Copy)]
pub struct Html;

/// Values are mail addresses: an inserted list has an address in each element, and an inserted text is one address whatever it contains.
#[derive(Debug, Clone, Copy)]
pub struct Addresses;

/// Values are parts of a URL: each stands between two marks, and its control characters are encoded.
#[derive(Debug, Clone, Copy)]
#[cfg(feature = "plain-webhook")]
pub struct InUrl;

#[cfg(feature = "plain-webhook")]
impl Escape for InUrl {
    const SUFFIX: &'static str = "url";
    const SHAPE: &'static str = "template (URL)";
}

impl Escape for Text {
    const SUFFIX: &'static str = "txt";
    const SHAPE: &'static str = "template (text)";
}

impl Escape for Json {
    const SUFFIX: &'static str = "json";
    const SHAPE: &'static str = "template (JSON)";
}

impl Escape for Html {
    const SUFFIX: &'static str = "html";
    const SHAPE: &'static str = "template (HTML)";
}

impl Escape for Addresses {
    const SUFFIX: &'static str = "addresses";
    const SHAPE: &'static str = "template (addresses)";
}

/// A template of a configuration.
#[derive(Clone)]
pub struct Template<E: Escape = Text> {
    source: String,
    /// The source with marked operands.
    marked: String,
    escape: PhantomData<E>,
}

thread_local! {
    /// Renders templates.
    static ENGINE: RefCell<Environment<'static>> = RefCell::new(engine(UndefinedBehavior::Strict));

    /// Renders templates without values when they are read, because the engine looks up names of filters only then.
    static CHECK: RefCell<Environment<'static>> = RefCell::new(engine(UndefinedBehavior::Chainable));
}

fn engine(undefined: UndefinedBehavior) -> Environment<'static> {
    let mut engine = Environment::new();
    engine.set_undefined_behavior(undefined);
    // Loops that call themselves, on a stack of two megabytes.
    engine.set_recursion_limit(RECURSION);
    engine.set_auto_escape_callback(|name| match name {
        Json::SUFFIX => AutoEscape::Json,
        Html::SUFFIX => AutoEscape::Html,
        Addresses::SUFFIX => AutoEscape::Custom(Addresses::SUFFIX.into()),
        #[cfg(feature = "plain-webhook")]
        InUrl::SUFFIX => AutoEscape::Custom(InUrl::SUFFIX.into()),
        _ => AutoEscape::None,
    });
    engine.set_formatter(write);
    filters::add_to(&mut engine);
    engine
}

/// Writes an inserted value.
fn write(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    match state.auto_escape() {
        #[cfg(feature = "plain-webhook")]
        AutoEscape::Custom(mode) if mode == InUrl::SUFFIX => in_url::write(out, value),
        AutoEscape::Custom(_) => write_addresses(out, value),
        _ if value.is_safe() => escape_formatter(out, state, value),
        AutoEscape::Json => Ok(out.write_str(&json::json(value)?)?),
        _ if value.as_str().is_some() => escape_formatter(out, state, value),
        _ => escape_formatter(out, state, &Value::from(json::inserted(value)?)),
    }
}

/// Writes each element of a list in a line of its own, and any other value within its line. A value that is null has no address.
fn write_addresses(out: &mut Output<'_>, value: &Value) -> Result<(), Error> {
    match value.kind() {
        _ if filters::is_null(value) => {}
        ValueKind::Seq | ValueKind::Iterable => {
            for one in value.try_iter()? {
                out.write_char('\n')?;
                write_addresses(out, &one)?;
                out.write_char('\n')?;
            }
        }
        _ => out.write_str(&json::inserted(value)?.replace(['\n', '\r'], " "))?,
    }
    Ok(())
}

impl<E: Escape> Template<E> {
    /// Reads a template.
    ///
    /// # Errors
    /// A text with the line of the mistake in the template.
    pub fn new(source: impl Into<String>) -> Result<Self, String> {
        let source = source.into();
        if source.len() > OUTPUT_LIMIT {
            return Err(format!("a template has at most {OUTPUT_LIMIT} bytes; this one has {}", source.len()));
        }
        depth::check(&source)?;
        CHECK.with_borrow(|engine| {
            let read = engine.template_from_named_str(E::SUFFIX, &source);
            read.map(drop).map_err(|error| explained(&error, READING, READING))
        })?;
        let marked = operands::marked(&source);
        let left = fuel::of_configuration();
        for steps in [FEW.min(left), left] {
            let filled = if steps <= FEW {
                tried::<E>(&marked, steps)
            } else {
                let marked = marked.clone();
                depth::on_large_stack(move || tried::<E>(&marked, steps)).map_err(|error| error.to_string())?
            };
            match filled {
                Err(error) if error.kind() == ErrorKind::OutOfFuel && steps < left => {}
                // What takes too long without any value takes too long with each parameter.
                Err(error) if is_mistake(error.kind()) || error.kind() == ErrorKind::OutOfFuel => {
                    return Err(explained(&error, left, READING));
                }
                Err(_) => {
                    fuel::take_of_configuration(steps);
                    break;
                }
                Ok(used) => {
                    fuel::take_of_configuration(used);
                    break;
                }
            }
        }
        Ok(Self { source, marked, escape: PhantomData })
    }

    /// Returns whether it contains anything to fill in.
    pub fn is_constant(&self) -> bool {
        !["{{", "{%", "{#"].iter().any(|mark| self.source.contains(mark))
    }

    /// Returns its source.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the text with the values filled in. What takes long is rendered on a thread that may block.
    ///
    /// # Errors
    /// A failure of the class `invalid`, because the same parameter fails again: a value that does not exist, a text of more than
    /// [`OUTPUT_LIMIT`]. It names the field, and no value.
    pub async fn render(&self, field: &str, values: &Values<'_>) -> Result<String, Failure> {
        self.render_within(OUTPUT_LIMIT, field, values).await
    }

    /// The same with another limit, in bytes.
    ///
    /// # Errors
    /// As [`Self::render`].
    pub async fn render_within(&self, limit: usize, field: &str, values: &Values<'_>) -> Result<String, Failure> {
        if self.is_constant() {
            return Ok(self.source.clone());
        }
        let (left, quick) = (values.fuel.left(), values.quick.left());
        // It is also parsed.
        let parsing = fuel::of_parsing(&self.marked);
        let here = quick.saturating_sub(parsing).min(left);
        if here > 0 {
            match fill::<E>(&self.marked, values.all.clone(), here, limit) {
                Ok((text, used)) => {
                    values.fuel.take(used);
                    values.quick.take(used + parsing);
                    return Ok(text);
                }
                Err(Unfilled::Steps(_)) if here < left => values.quick.take(quick),
                Err(problem) => return Err(problem.of(field)),
            }
        }
        let (marked, all) = (self.marked.clone(), values.all.clone());
        let filled = values.elsewhere(move || fill::<E>(&marked, all, left, limit)).await?;
        let (text, used) = filled.map_err(|problem| problem.of(field))?;
        values.fuel.take(used);
        Ok(text)
    }

    /// The same at once, on this thread, for a text of the program itself.
    ///
    /// # Errors
    /// As [`Self::render`].
    #[cfg(feature = "mail")]
    pub(crate) fn render_here(&self, field: &str, values: &Values<'_>) -> Result<String, Failure> {
        let filled = fill::<E>(&self.marked, values.all.clone(), values.fuel.left(), OUTPUT_LIMIT);
        filled.map(|(text, _)| text).map_err(|problem| problem.of(field))
    }
}

/// Fills a template in without any value.
fn tried<E: Escape>(source: &str, steps: u64) -> Result<u64, Error> {
    CHECK.with_borrow_mut(|engine| {
        engine.set_fuel(Some(steps));
        Bounded::to(OUTPUT_LIMIT).fill(engine, E::SUFFIX, source, ())
    })
}

/// Why a template was not filled in.
enum Unfilled {
    /// It takes more steps than it may.
    Steps(String),
    Else(String),
}

impl Unfilled {
    /// Returns the failure of the template of this field.
    fn of(self, field: &str) -> Failure {
        let (Self::Steps(problem) | Self::Else(problem)) = self;
        Failure::retry(format!("handler_config: the template `{field}`: {problem}")).class(ErrorClass::Invalid)
    }
}

/// Fills a template in. Returns the text, and how many steps that took.
fn fill<E: Escape>(source: &str, values: Value, steps: u64, limit: usize) -> Result<(String, u64), Unfilled> {
    let mut output = Bounded::to(limit);
    param::take_problem();
    let filled = ENGINE.with_borrow_mut(|engine| {
        engine.set_fuel(Some(steps));
        output.fill(engine, E::SUFFIX, source, values)
    });
    // Also of what a filter made of the value, which may be no error to the engine.
    let problem = param::take_problem();
    match filled {
        Err(error) if error.kind() == ErrorKind::OutOfFuel => Err(Unfilled::Steps(explained(&error, steps, FUEL))),
        _ if problem.is_some() => Err(Unfilled::Else(problem.unwrap_or_default())),
        Err(_) if output.is_full() => Err(Unfilled::Else(format!("it makes more than {limit} bytes"))),
        Err(error) => Err(Unfilled::Else(explained(&error, steps, FUEL))),
        Ok(used) => {
            let text = String::from_utf8(output.into_bytes());
            text.map(|text| (text, used)).map_err(|_| Unfilled::Else("it makes no text".to_owned()))
        }
    }
}

/// Returns true for an error that does not depend on the values.
fn is_mistake(kind: ErrorKind) -> bool {
    use ErrorKind::{SyntaxError, TemplateNotFound, UnknownFilter, UnknownFunction, UnknownTest};
    matches!(kind, SyntaxError | TemplateNotFound | UnknownFilter | UnknownFunction | UnknownTest)
}

/// Returns what is wrong with a template, and where. A rendering error may quote a value of the parameter, so only its kind is shown.
/// `left`: the steps that it might take, of `most` for all templates.
fn explained(error: &Error, left: u64, most: u64) -> String {
    let what: Cow<'_, str> = match (error.kind(), error.detail()) {
        (kind, Some(detail)) if is_mistake(kind) => format!("{kind}: {detail}").into(),
        (ErrorKind::OutOfFuel, _) if left < most => {
            format!("the templates take more than {most} steps together").into()
        }
        (ErrorKind::OutOfFuel, _) => format!("it takes more than {most} steps").into(),
        (kind, _) => kind.to_string().into(),
    };
    error.line().map_or_else(|| what.to_string(), |line| format!("{what} (line {line} of the template)"))
}

impl Template<Addresses> {
    /// Returns the addresses, without blank ones.
    ///
    /// # Errors
    /// Those of [`Template::render`].
    pub async fn addresses(&self, field: &str, values: &Values<'_>) -> Result<Vec<String>, Failure> {
        let lines = self.render(field, values).await?;
        Ok(lines.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect())
    }
}

impl<E: Escape> fmt::Debug for Template<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Template").field(&self.source).finish()
    }
}

impl<'de, E: Escape> Deserialize<'de> for Template<E> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parsed(deserializer, E::SHAPE, |text| Self::new(text))
    }
}

impl<E: Escape> JsonSchema for Template<E> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        E::SHAPE.into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": E::SHAPE })
    }
}
