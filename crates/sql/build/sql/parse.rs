//! Reads `.sql` files: statements, macros and rows, each with a head line, a comment, and the SQL of each dialect.

use super::Dialect;

/// What a file has.
#[derive(Debug, Default)]
pub struct File {
    pub macros: Vec<Macro>,
    pub rows: Vec<Row>,
    pub statements: Vec<Statement>,
}

/// A named piece of SQL with parameters. `{name(a, b)}` stands for it.
#[derive(Debug)]
pub struct Macro {
    pub at: Place,
    pub name: String,
    pub parameters: Vec<String>,
    pub sql: Sql,
}

/// The columns that a statement selects, in their order. `{Name}` stands for the list, and Rust reads them by their names.
#[derive(Debug)]
pub struct Row {
    pub at: Place,
    pub name: String,
    pub parameters: Vec<String>,
    pub doc: Vec<String>,
    pub columns: Vec<(String, String)>,
}

/// A statement.
#[derive(Debug)]
pub struct Statement {
    pub at: Place,
    pub name: String,
    pub doc: Vec<String>,
    pub arguments: Vec<Argument>,
    pub sql: Sql,
}

/// An argument of a statement, `:name` in its SQL.
#[derive(Debug)]
pub struct Argument {
    pub name: String,
    pub ty: Ty,
}

/// The type of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ty {
    Int,
    OptionalInt,
    Text,
    OptionalText,
    Bool,
    Ids,
}

/// The SQL of each dialect; `None`: it has none.
#[derive(Debug, Default)]
pub struct Sql([Option<String>; 3]);

/// A line of a file, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub file: String,
    pub line: usize,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

impl Sql {
    pub fn of(&self, dialect: Dialect) -> Option<&str> {
        self.0[dialect as usize].as_deref()
    }

    /// Returns the SQL of all dialects.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flatten().map(String::as_str)
    }

    fn add(&mut self, dialects: &[Dialect], line: &str) {
        for dialect in dialects {
            let sql = self.0[*dialect as usize].get_or_insert_default();
            sql.push_str(line);
            sql.push('\n');
        }
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }
}

impl Ty {
    fn read(word: &str) -> Option<Self> {
        Some(match word {
            "int" => Self::Int,
            "int?" => Self::OptionalInt,
            "text" => Self::Text,
            "text?" => Self::OptionalText,
            "bool" => Self::Bool,
            "ids" => Self::Ids,
            _ => return None,
        })
    }
}

/// The item that the lines belong to.
enum Item {
    None,
    Macro(Macro),
    Row(Row),
    Statement(Statement),
}

/// Reads a file. An error names the line.
pub fn parse(file: &str, text: &str) -> Result<File, String> {
    let (mut all, mut item, mut dialects) = (File::default(), Item::None, Dialect::ALL.to_vec());
    for (line, text) in (1..).zip(text.lines()) {
        let at = Place { file: file.to_owned(), line };
        let failed = |problem: &str| Err(format!("{at}: {problem}"));
        let Some(comment) = text.trim_start().strip_prefix("--") else {
            if text.trim().is_empty() {
                continue;
            }
            match &mut item {
                Item::None => return failed("SQL before the first `-- name:`, `-- macro:` or `-- row:`"),
                Item::Macro(of) => of.sql.add(&dialects, text),
                Item::Statement(of) => of.sql.add(&dialects, text),
                Item::Row(of) if text.starts_with([' ', '\t']) => match of.columns.last_mut() {
                    Some((_, sql)) => *sql = format!("{sql} {}", text.trim()),
                    None => return failed("a column must begin its line"),
                },
                Item::Row(of) => match text.split_once(" = ") {
                    Some((name, sql)) if is_name(name) => of.columns.push((name.to_owned(), sql.trim().to_owned())),
                    _ => return failed("expected a column as `name = its SQL`"),
                },
            }
            continue;
        };
        let comment = comment.trim();
        if let Some(head) = comment.strip_prefix("macro:") {
            let (name, parameters) = head_of(head).map_err(|problem| format!("{at}: {problem}"))?;
            all.take(std::mem::replace(&mut item, Item::Macro(Macro { at, name, parameters, sql: Sql::default() })))?;
            dialects = Dialect::ALL.to_vec();
        } else if let Some(head) = comment.strip_prefix("row:") {
            let (name, parameters) = head_of(head).map_err(|problem| format!("{at}: {problem}"))?;
            let row = Row { at, name, parameters, doc: Vec::new(), columns: Vec::new() };
            all.take(std::mem::replace(&mut item, Item::Row(row)))?;
        } else if let Some(head) = comment.strip_prefix("name:") {
            let name = head.trim().to_owned();
            if !is_name(&name) {
                return failed("a statement's name has small letters, digits and `_`");
            }
            let (doc, arguments) = (Vec::new(), Vec::new());
            let statement = Statement { at, name, doc, arguments, sql: Sql::default() };
            all.take(std::mem::replace(&mut item, Item::Statement(statement)))?;
            dialects = Dialect::ALL.to_vec();
        } else if let Some(list) = comment.strip_prefix("args:") {
            let Item::Statement(of) = &mut item else { return failed("only a statement has `-- args:`") };
            of.arguments.extend(arguments(list).map_err(|problem| format!("{at}: {problem}"))?);
        } else if let Some(of) = comment.strip_suffix(':').and_then(Dialect::list) {
            dialects = of;
        } else {
            match &mut item {
                Item::Statement(of) if of.sql.is_empty() => of.doc.push(comment.to_owned()),
                Item::Row(of) if of.columns.is_empty() => of.doc.push(comment.to_owned()),
                // It says why to the reader of the file.
                _ => {}
            }
        }
    }
    all.take(item)?;
    Ok(all)
}

impl File {
    fn take(&mut self, item: Item) -> Result<(), String> {
        match item {
            Item::None => {}
            // A macro without lines is an empty text.
            Item::Macro(of) => self.macros.push(of),
            Item::Row(of) if of.columns.is_empty() => return Err(format!("{}: {} has no columns", of.at, of.name)),
            Item::Row(of) => self.rows.push(of),
            Item::Statement(of) if of.sql.is_empty() => return Err(format!("{}: {} has no SQL", of.at, of.name)),
            Item::Statement(of) => self.statements.push(of),
        }
        Ok(())
    }
}

/// Reads `name` or `name(a, b)`.
fn head_of(head: &str) -> Result<(String, Vec<String>), String> {
    let head = head.trim();
    let (name, parameters) = match head.split_once('(') {
        Some((name, rest)) => (name, rest.strip_suffix(')').ok_or("`)` is missing")?),
        None => (head, ""),
    };
    let parameters: Vec<String> =
        parameters.split(',').map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect();
    match parameters.iter().all(|word| is_name(word)) {
        true => Ok((name.trim().to_owned(), parameters)),
        false => Err("a parameter has small letters, digits and `_`".to_owned()),
    }
}

/// Reads `def_id int, mark int?`.
fn arguments(list: &str) -> Result<Vec<Argument>, String> {
    let words = list.split(',').map(str::trim).filter(|word| !word.is_empty());
    words
        .map(|word| {
            let (name, ty) = word.split_once(' ').ok_or_else(|| format!("`{word}` has no type"))?;
            let known = "expected int, int?, text, text?, bool or ids";
            let ty = Ty::read(ty.trim()).ok_or_else(|| format!("`{word}`: {known}"))?;
            Ok(Argument { name: name.to_owned(), ty })
        })
        .collect()
}

pub fn is_name(word: &str) -> bool {
    let mut letters = word.bytes();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == b'_')
}
