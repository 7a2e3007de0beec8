//! Writes the Rust of a file: a struct for each statement, with a field for each argument, and the positions of each row's columns.

use std::fmt::Write;

use super::Dialect;
use super::parse::{Argument, File, Row, Statement, Ty};
use super::render::{CLOCK, Library, Text};

/// Returns a module for each file, and the list of all statements.
pub fn rust(files: &[(String, &File)], library: &Library<'_>) -> Result<String, String> {
    let (mut code, mut names) = (String::new(), String::new());
    for (module, file) in files {
        if file.rows.is_empty() && file.statements.is_empty() {
            continue;
        }
        _ = writeln!(code, "/// The statements of `{module}.sql`.\npub(crate) mod {module} {{");
        for row in &file.rows {
            code.push_str(&positions(row));
        }
        for statement in &file.statements {
            code.push_str(&query(statement, library)?);
            let of = camel(&statement.name);
            _ = writeln!(names, "    ({:?}, <{module}::{of} as crate::dialect::query::Query>::TEXTS),", statement.name);
        }
        code.push_str("}\n");
    }
    _ = writeln!(code, "/// The name and the texts of each statement.");
    _ = writeln!(code, "pub(crate) const ALL: &[(&str, crate::dialect::query::Texts)] = &[\n{names}];");
    Ok(code)
}

/// A struct with the position of each column.
fn positions(row: &Row) -> String {
    let Row { name, doc, columns, .. } = row;
    let mut code = docs(doc);
    _ = writeln!(code, "#[allow(dead_code)] // Not every column is read by its name.\npub(crate) struct {name} {{");
    for (column, _) in columns {
        _ = writeln!(code, "    pub(crate) {column}: usize,");
    }
    _ = writeln!(
        code,
        "}}\nimpl {name} {{\n    /// The position of each column.\n    pub(crate) const AT: Self = Self {{"
    );
    for (at, (column, _)) in columns.iter().enumerate() {
        _ = writeln!(code, "        {column}: {at},");
    }
    _ = writeln!(code, "    }};");
    _ = writeln!(code, "    /// How many there are: the position of a column that a statement selects behind them.");
    _ = writeln!(code, "    #[allow(dead_code)]\n    pub(crate) const COUNT: usize = {};\n}}", columns.len());
    code
}

/// A struct with the arguments, and its texts.
fn query(statement: &Statement, library: &Library<'_>) -> Result<String, String> {
    let Statement { at, name, doc, arguments, .. } = statement;
    let texts = Dialect::ALL.into_iter().map(|dialect| library.text(statement, dialect));
    let texts = texts.collect::<Result<Vec<Option<Text>>, String>>()?;
    let is_used = |name: &str| texts.iter().flatten().any(|text| text.values.iter().any(|value| value == name));
    if let Some(unused) = arguments.iter().find(|argument| !is_used(&argument.name)) {
        return Err(format!("{at}: {name} does not use its argument :{}", unused.name));
    }
    let has_clock = is_used(CLOCK);
    let borrows = |argument: &Argument| matches!(argument.ty, Ty::Text | Ty::OptionalText | Ty::Ids);
    let life = if arguments.iter().any(borrows) { "<'a>" } else { "" };
    let of = camel(name);
    let mut code = docs(doc);
    _ = writeln!(code, "#[derive(Debug, Clone, Copy)]\npub(crate) struct {of}{life} {{");
    if has_clock {
        _ = writeln!(code, "    pub(crate) {CLOCK}: crate::dialect::query::Clock,");
    }
    for Argument { name, ty } in arguments {
        _ = writeln!(code, "    pub(crate) {name}: {},", rust_type(*ty));
    }
    let count = arguments.len() + usize::from(has_clock);
    _ = writeln!(code, "}}\nimpl{} crate::dialect::query::Query for {of}{life} {{", life);
    _ = writeln!(code, "    const NAME: &'static str = {name:?};");
    _ = writeln!(code, "    const TEXTS: crate::dialect::query::Texts = [");
    for text in &texts {
        match text {
            None => code.push_str("        None,\n"),
            Some(text) => code.push_str(&constant(text, statement, has_clock)),
        }
    }
    _ = writeln!(code, "    ];");
    _ = writeln!(code, "    type Arguments<'s> = [crate::dialect::query::Arg<'s>; {count}] where Self: 's;");
    _ = writeln!(code, "    fn arguments(&self) -> Self::Arguments<'_> {{");
    let clock = has_clock.then_some(CLOCK);
    let fields = clock.into_iter().chain(arguments.iter().map(|argument| argument.name.as_str()));
    let fields: Vec<String> = fields.map(|field| format!("self.{field}.into()")).collect();
    _ = writeln!(code, "        [{}]\n    }}\n}}", fields.join(", "));
    Ok(code)
}

fn constant(text: &Text, statement: &Statement, has_clock: bool) -> String {
    let position = |name: &String| {
        let declared = statement.arguments.iter().position(|argument| argument.name == *name);
        declared.map_or(0, |at| at + usize::from(has_clock))
    };
    // The positions of the arguments of the struct.
    let positions: Vec<usize> = text.values.iter().map(position).collect();
    let order: Vec<usize> = text.order.iter().filter_map(|number| positions.get(*number).copied()).collect();
    format!(
        "        Some(crate::dialect::query::Text {{ sql: {:?}, numbered: {:?}, first: {}, order: &{order:?} }}),\n",
        text.sql,
        text.numbered,
        if has_clock { 1 } else { 2 }
    )
}

fn docs(lines: &[String]) -> String {
    lines.iter().map(|line| format!("/// {line}\n")).collect()
}

fn rust_type(ty: Ty) -> &'static str {
    match ty {
        Ty::Int => "i64",
        Ty::OptionalInt => "Option<i64>",
        Ty::Text => "&'a str",
        Ty::OptionalText => "Option<&'a str>",
        Ty::Bool => "bool",
        Ty::Ids => "&'a [i64]",
    }
}

/// `claim_slice` as `ClaimSlice`.
pub fn camel(name: &str) -> String {
    let word = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase().to_string() + letters.as_str()).unwrap_or_default()
    };
    name.split('_').map(word).collect()
}
