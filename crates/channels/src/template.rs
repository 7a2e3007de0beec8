//! [`Template`]: a text of a `handler_config` with values of the notice in it, such as `Order {{ param.id }}`.
//!
//! The engine is minijinja, whose language is that of Jinja. Templates are checked when the configuration is read. A value that
//! does not exist is an error, so that no receiver gets a text with a gap.

mod fuel;
mod output;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::marker::PhantomData;

use minijinja::value::{Serde, Value, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Output, UndefinedBehavior, escape_formatter};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use solid_notify_core::ErrorClass;
use solid_notify_core::definition::{ExposeSecret, SecretRef};
use solid_notify_sweeper::Failure;

use crate::channel::AnyNotice;
use crate::field::parsed;
use crate::secrets::Secrets;
pub(crate) use fuel::reading;
use fuel::{FUEL, Fuel};
use output::Bounded;

/// A template is checked with this many steps, then with [`FUEL`]: what it takes until it fails is not known, and costs all of them.
const FEW: u64 = 1000;

/// How many bytes one rendering may make, where the place of the text has no limit of its own: as many as a parameter has by default.
pub const OUTPUT_LIMIT: usize = 1024 * 1024;

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
    engine.set_auto_escape_callback(|name| match name {
        Json::SUFFIX => AutoEscape::Json,
        Html::SUFFIX => AutoEscape::Html,
        Addresses::SUFFIX => AutoEscape::Custom(Addresses::SUFFIX.into()),
        _ => AutoEscape::None,
    });
    engine.set_formatter(|out, state, value| match state.auto_escape() {
        AutoEscape::Custom(_) => write_addresses(out, value),
        _ => escape_formatter(out, state, value),
    });
    engine
}

/// Writes each element of a list in a line of its own, and any other value within its line. A value that is null has no address.
fn write_addresses(out: &mut Output<'_>, value: &Value) -> Result<(), Error> {
    match value.kind() {
        ValueKind::None => {}
        ValueKind::Seq | ValueKind::Iterable => {
            for one in value.try_iter()? {
                out.write_char('\n')?;
                write_addresses(out, &one)?;
                out.write_char('\n')?;
            }
        }
        _ => out.write_str(&value.to_string().replace(['\n', '\r'], " "))?,
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
        let left = fuel::of_configuration();
        for steps in [FEW.min(left), left] {
            let filled = CHECK.with_borrow_mut(|engine| {
                engine.set_fuel(Some(steps));
                Bounded::to(OUTPUT_LIMIT).fill(engine, E::SUFFIX, &source, ())
            });
            match filled {
                Err(error) if error.kind() == ErrorKind::OutOfFuel && steps < left => {}
                // What takes too long without any value takes too long with each parameter.
                Err(error) if is_mistake(error.kind()) || error.kind() == ErrorKind::OutOfFuel => {
                    return Err(explained(&error, left));
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
        Ok(Self { source, escape: PhantomData })
    }

    /// Returns whether it contains anything to fill in.
    pub fn is_constant(&self) -> bool {
        !["{{", "{%", "{#"].iter().any(|mark| self.source.contains(mark))
    }

    /// Returns its source.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the text with the values filled in.
    ///
    /// # Errors
    /// A failure of the class `invalid`, because the same parameter fails again: a value that does not exist, a text of more than
    /// [`OUTPUT_LIMIT`]. It names the field, and no value.
    pub fn render(&self, field: &str, values: &Values) -> Result<String, Failure> {
        self.render_within(OUTPUT_LIMIT, field, values)
    }

    /// The same with another limit, in bytes.
    ///
    /// # Errors
    /// As [`Self::render`].
    pub fn render_within(&self, limit: usize, field: &str, values: &Values) -> Result<String, Failure> {
        if self.is_constant() {
            return Ok(self.source.clone());
        }
        let invalid = |problem: String| {
            Failure::retry(format!("handler_config: the template `{field}`: {problem}")).class(ErrorClass::Invalid)
        };
        let (mut output, left) = (Bounded::to(limit), values.fuel.left());
        let filled = ENGINE.with_borrow_mut(|engine| {
            engine.set_fuel(Some(left));
            output.fill(engine, E::SUFFIX, &self.source, values.all.clone())
        });
        match filled {
            Err(_) if output.is_full() => Err(invalid(format!("it makes more than {limit} bytes"))),
            Err(error) => Err(invalid(explained(&error, left))),
            Ok(used) => {
                values.fuel.take(used);
                String::from_utf8(output.into_bytes()).map_err(|_| invalid("it makes no text".to_owned()))
            }
        }
    }
}

/// Returns true for an error that does not depend on the values.
fn is_mistake(kind: ErrorKind) -> bool {
    use ErrorKind::{SyntaxError, TemplateNotFound, UnknownFilter, UnknownFunction, UnknownTest};
    matches!(kind, SyntaxError | TemplateNotFound | UnknownFilter | UnknownFunction | UnknownTest)
}

/// Returns what is wrong with a template, and where. A rendering error may quote a value of the parameter, so only its kind is shown.
/// `left`: the steps that it might take.
fn explained(error: &Error, left: u64) -> String {
    let what: Cow<'_, str> = match (error.kind(), error.detail()) {
        (kind, Some(detail)) if is_mistake(kind) => format!("{kind}: {detail}").into(),
        (ErrorKind::OutOfFuel, _) if left < FUEL => {
            format!("the templates take more than {FUEL} steps together").into()
        }
        (ErrorKind::OutOfFuel, _) => format!("it takes more than {FUEL} steps").into(),
        (kind, _) => kind.to_string().into(),
    };
    error.line().map_or_else(|| what.to_string(), |line| format!("{what} (line {line} of the template)"))
}

impl Template<Addresses> {
    /// Returns the addresses, without blank ones.
    ///
    /// # Errors
    /// Those of [`Template::render`].
    pub fn addresses(&self, field: &str, values: &Values) -> Result<Vec<String>, Failure> {
        let lines = self.render(field, values)?;
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

/// What templates can insert: `param` (the parameter), `notice` (see below), and `secrets` (the secrets that the configuration names).
///
/// `notice.id`, `notice.idempotency_key`, `notice.definition`, `notice.target`, `notice.attempt`, `notice.created` (RFC 3339),
/// `notice.test` (true for a test of an operator), and `notice.ack_token` where the definition has `need_confirm`.
pub struct Values {
    all: Value,
    /// What the templates of the notice may take.
    fuel: Fuel,
}

#[derive(Serialize)]
struct NoticeValues<'a> {
    id: i64,
    idempotency_key: String,
    definition: &'a str,
    target: Option<&'a str>,
    attempt: i64,
    created: String,
    test: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    ack_token: Option<String>,
}

impl Values {
    /// Reads the values of a notice. `ack_token`: the token for the receiver, where it is to ack. `names`: what templates call the secrets.
    ///
    /// # Errors
    /// A parameter that is not JSON.
    pub fn new(
        notice: &AnyNotice,
        ack_token: Option<String>,
        (names, secrets): (&BTreeMap<String, SecretRef>, &Secrets<'_>),
    ) -> Result<Self, Failure> {
        let param: serde_json::Value = serde_json::from_str(notice.raw_param())
            .map_err(|_| Failure::retry("the parameter is not JSON").class(ErrorClass::Invalid))?;
        let mut shown = BTreeMap::new();
        for (name, reference) in names {
            shown.insert(name, secrets.get(reference)?.expose_secret().to_owned());
        }
        let about = NoticeValues {
            id: notice.id(),
            idempotency_key: notice.idempotency_key(),
            definition: notice.definition(),
            target: notice.target(),
            attempt: notice.attempt(),
            created: notice.created().to_rfc3339_opts(chrono::SecondsFormat::Millis, true),
            test: notice.is_test(),
            ack_token,
        };
        let all = minijinja::context! {
            param => Value::from(Serde(&param)),
            notice => Value::from(Serde(&about)),
            secrets => Value::from(Serde(&shown)),
        };
        Ok(Self { all, fuel: Fuel::of(FUEL) })
    }

    /// Returns the same values with other secrets in place of the right ones, to see whether a text depends on them.
    #[cfg(feature = "plain-webhook")]
    pub fn with_other_secrets(&self, names: &BTreeMap<String, SecretRef>) -> Self {
        let others: BTreeMap<&String, &str> = names.keys().map(|name| (name, "other")).collect();
        let all = minijinja::context! { secrets => Value::from(Serde(&others)), ..self.all.clone() };
        Self { all, fuel: Fuel::of(self.fuel.left()) }
    }

    /// Makes values of something else than a notice.
    #[cfg(feature = "mail")]
    pub(crate) fn of(values: impl Serialize) -> Self {
        Self { all: Value::from(Serde(&values)), fuel: Fuel::of(FUEL) }
    }

    #[cfg(test)]
    fn of_param(param: &str) -> Self {
        let param: serde_json::Value = serde_json::from_str(param).unwrap();
        let all = minijinja::context! { param => Value::from(Serde(&param)) };
        Self { all, fuel: Fuel::of(FUEL) }
    }
}
