//! The objects that a dump can leave out, as the migrations create them: functions, procedures, views, triggers and indexes.
//!
//! They are read from the scripts of the migrations, so no other list names them. Tables and constraints are not among them: without these
//! the rows are lost, too.

use std::fmt;

/// A kind of object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Sort {
    Function,
    Procedure,
    View,
    Trigger,
    Index,
}

/// An object of the schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) sort: Sort,
    /// Of a function with the types of its parameters, because several have one name.
    pub(crate) name: String,
    /// The statement that creates it, without its end.
    pub(crate) create: String,
    /// The migration that creates it.
    pub(crate) version: i64,
}

impl Sort {
    /// Returns the word of the catalogues.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::Procedure => "procedure",
            Self::View => "view",
            Self::Trigger => "trigger",
            Self::Index => "index",
        }
    }

    fn of(word: &str) -> Option<Self> {
        [Self::Function, Self::Procedure, Self::View, Self::Trigger, Self::Index]
            .into_iter()
            .find(|sort| word.eq_ignore_ascii_case(sort.as_str()))
    }

    /// True for the last line of its statement.
    fn ends_with(self, line: &str) -> bool {
        match self {
            Self::Function => line == "$$;",
            Self::Procedure => line == "//",
            Self::Trigger => line == "END;",
            Self::View | Self::Index => line.ends_with(';'),
        }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Returns the objects of the migrations up to `version`, in the order in which they are created.
pub(crate) fn objects(migrations: &[(i64, &'static str, &'static str)], version: i64) -> Vec<Object> {
    migrations.iter().filter(|(of, ..)| *of <= version).flat_map(|(of, _, script)| of_script(*of, script)).collect()
}

fn of_script(version: i64, script: &str) -> Vec<Object> {
    let mut found = Vec::new();
    let mut open: Option<(Sort, String, String)> = None;
    // The table whose definition contains the line. MySQL creates indexes there.
    let mut table = None;
    for line in script.lines() {
        if open.is_none() {
            open = begin(line);
            table = table_of(line).or(table.filter(|_| !line.starts_with(')')));
            if let Some((name, create)) = table.and_then(|table| key_of(table, line)) {
                found.push(Object { sort: Sort::Index, name, create, version });
            }
        }
        let Some((sort, name, mut create)) = open.take() else { continue };
        let is_last = sort.ends_with(line);
        if !(is_last && sort == Sort::Procedure) {
            create.push_str(line);
            create.push('\n');
        }
        match is_last {
            true => {
                let create = create.trim_end().trim_end_matches(';').to_owned();
                let name = if sort == Sort::Function { with_types(&name, &create) } else { name };
                found.push(Object { sort, name, create, version });
            }
            false => open = Some((sort, name, create)),
        }
    }
    found
}

/// The words of a line, without the brackets behind a name.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split([' ', '(', ',']).filter(|word| !word.is_empty())
}

/// Returns the kind and the name of the object whose statement begins with this line.
fn begin(line: &str) -> Option<(Sort, String, String)> {
    let mut words = words(line.strip_prefix("CREATE ")?).filter(|word| !["OR", "REPLACE", "UNIQUE"].contains(word));
    let sort = Sort::of(words.next()?)?;
    Some((sort, words.next()?.to_owned(), String::new()))
}

fn table_of(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("CREATE TABLE ")?;
    words(rest.strip_prefix("IF NOT EXISTS ").unwrap_or(rest)).next()
}

/// Returns the name of the index in a line of a table's definition, and the statement that adds it.
fn key_of(table: &str, line: &str) -> Option<(String, String)> {
    let key = line.trim().trim_end_matches(',');
    let name = words(key.strip_prefix("UNIQUE ").unwrap_or(key).strip_prefix("KEY ")?).next()?;
    Some((name.to_owned(), format!("ALTER TABLE {table} ADD {key}")))
}

/// Returns the name of a function of PostgreSQL with the types of its parameters, as its catalogue writes them.
fn with_types(name: &str, create: &str) -> String {
    let list = create.split_once('(').and_then(|(_, rest)| rest.split_once(") RETURNS")).map_or("", |(list, _)| list);
    let types = list.split(',').filter_map(|parameter| parameter.split_whitespace().nth(1));
    let types: Vec<&str> =
        types.map(|name| if name == "timestamptz" { "timestamp with time zone" } else { name }).collect();
    format!("{name}({})", types.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(script: &str) -> Vec<String> {
        of_script(1, script).into_iter().map(|object| format!("{} {}", object.sort.as_str(), object.name)).collect()
    }

    #[test]
    fn objects_are_found_in_the_form_of_each_database() {
        let script = "CREATE TABLE notify_a (\n    id int PRIMARY KEY,\n    KEY notify_a_x (x),\n    UNIQUE KEY notify_a_y (y, z)\n);\n\
            CREATE UNIQUE INDEX notify_b_z\n    ON notify_b (z);\nCREATE INDEX notify_b_w ON notify_b(w);\n-- CREATE INDEX notify_c ON c (c);\n\
            CREATE OR REPLACE FUNCTION notify_f(a text DEFAULT 'x', b timestamptz) RETURNS text LANGUAGE sql AS $$\nSELECT 1;\n$$;\n\
            DROP PROCEDURE IF EXISTS notify_p\n//\nCREATE PROCEDURE notify_p(\n    IN a int\n)\nBEGIN\n    SELECT 1;\nEND\n//\n\
            DROP VIEW IF EXISTS notify_v;\nCREATE VIEW notify_v (id) AS\n    SELECT 1;\n\
            CREATE TRIGGER notify_t INSTEAD OF INSERT ON notify_v\nBEGIN\n    SELECT 1;\nEND;\n";
        assert_eq!(
            named(script),
            [
                "index notify_a_x",
                "index notify_a_y",
                "index notify_b_z",
                "index notify_b_w",
                "function notify_f(text, timestamp with time zone)",
                "procedure notify_p",
                "view notify_v",
                "trigger notify_t"
            ]
        );
        let found = of_script(1, script);
        assert_eq!(found[1].create, "ALTER TABLE notify_a ADD UNIQUE KEY notify_a_y (y, z)");
        assert_eq!(found[5].create, "CREATE PROCEDURE notify_p(\n    IN a int\n)\nBEGIN\n    SELECT 1;\nEND");
        assert_eq!(found[7].create, "CREATE TRIGGER notify_t INSTEAD OF INSERT ON notify_v\nBEGIN\n    SELECT 1;\nEND");
    }
}
