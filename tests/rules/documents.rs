//! The documents: each relative link leads somewhere, in the book to a file of the book, the table of names has the public API, and
//! `docs/sql` has every statement as each database gets it. The module `snippets` compares the code in documents with its source.
//! `tests/channels/config_tables.rs` compares the tables of channels with their types.
//!
//! With `WRITE_DOCUMENTS=1` in the environment, snippets and statements are written instead of compared.
//! `tests/rules/tidy.rs` checks what tables of the documents list.

mod snippets;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use solid_notify_sql::Dialect;
use solid_notify_sql::statement_texts;
use sqlformat::{FormatOptions, QueryParams};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("cannot read {file}: {error}"))
}

/// Returns the Markdown files of a folder and of its subfolders, relative to the root.
fn markdown(folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join(folder)).unwrap() {
        let name = format!("{folder}/{}", entry.unwrap().file_name().into_string().unwrap());
        if root().join(&name).is_dir() {
            found.extend(markdown(&name));
        } else if name.ends_with(".md") {
            found.push(name);
        }
    }
    found.sort_unstable();
    found
}

/// Returns the files that show code: the README and the book.
fn guides() -> Vec<String> {
    let mut files = markdown("docs/src");
    assert!(files.len() >= 20, "only {} chapters found", files.len());
    files.push("README.md".to_owned());
    files
}

/// Writes a file that has changed. The tests of this file run at the same time and read the others.
fn write(file: &str, text: &str) {
    if fs::read_to_string(root().join(file)).ok().as_deref() != Some(text) {
        fs::write(root().join(file), text).unwrap();
    }
}

fn writes() -> bool {
    std::env::var_os("WRITE_DOCUMENTS").is_some()
}

#[test]
fn every_guide_program_and_the_quick_start_are_examples_that_run() {
    let (manifest, run) = (read("examples/Cargo.toml"), read("xtask/src/test.rs"));
    for entry in fs::read_dir(root().join("examples")).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let Some(name) = file.strip_suffix(".rs") else { continue };
        assert!(manifest.contains(&format!("name = \"{name}\"")), "examples/Cargo.toml does not have {name}");
        assert!(run.contains(&format!("\"{name}\"")), "EXAMPLES of xtask/src/test.rs does not have {name}");
    }
}

/// Returns the names that a snapshot of the public API has directly under a path.
fn names_under(snapshot: &str, path: &str) -> BTreeSet<String> {
    let text = read(&format!("docs/api/{snapshot}.txt"));
    let name = |line: &str| {
        let item = line.trim_start_matches("#[non_exhaustive] ").strip_prefix("pub ")?;
        let item = item.split(' ').find(|word| word.contains("::"))?;
        let below = item.strip_prefix(path)?.strip_prefix("::")?;
        let (name, rest) =
            below.split_at(below.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(below.len()));
        (!name.is_empty() && !rest.starts_with("::")).then(|| name.to_owned())
    };
    text.lines().filter_map(name).collect()
}

/// Modules of the crate that users name whose content is in the snapshot of another crate.
const ELSEWHERE: [(&str, &str, &str); 9] = [
    ("ack_http", "solid-notify-ack-http", "solid_notify_ack_http"),
    ("channels", "solid-notify-channels", "solid_notify_channels"),
    ("metrics", "solid-notify-core", "solid_notify_core::metrics"),
    ("redis", "solid-notify-redis", "solid_notify_redis"),
    ("retry", "solid-notify-core", "solid_notify_core::retry"),
    ("simulate", "solid-notify-simulate", "solid_notify_simulate"),
    ("testkit", "solid-notify-sweeper", "solid_notify_sweeper::testing"),
    ("testkit", "solid-notify-testkit", "solid_notify_testkit"),
    ("timed", "solid-notify-timed", "solid_notify_timed"),
];

#[test]
fn the_chapter_on_names_has_every_name_and_its_module() {
    let text = read("docs/src/names.md");
    let mut listed: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for row in text.lines().filter(|line| line.starts_with("| `solid_notify")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let names = cells[3].split(", ").map(|name| name.trim_matches('`').to_owned());
        listed.entry(cells[1].trim_matches('`')).or_default().extend(names);
    }
    // A module has rows of its own, so the rows of the root do not repeat it.
    let modules: Vec<String> =
        listed.keys().filter_map(|path| path.strip_prefix("solid_notify::")).map(str::to_owned).collect();
    listed.get_mut("solid_notify").unwrap().extend(modules);
    for (path, names) in &mut listed {
        let mut public = names_under("solid-notify", path);
        let module = path.strip_prefix("solid_notify::").unwrap_or_default();
        for (_, snapshot, path) in ELSEWHERE.iter().filter(|(name, ..)| *name == module) {
            public.extend(names_under(snapshot, path));
        }
        names.sort_unstable();
        assert_eq!(
            *names,
            public.into_iter().collect::<Vec<_>>(),
            "docs/src/names.md (left) differs from docs/api at {path}"
        );
    }
}

#[test]
fn every_chapter_with_rust_code_shows_where_its_names_are() {
    let shows = |text: &str| text.contains("](names.md)") || text.contains("\nuse solid_notify");
    let chapters = guides().into_iter().filter(|file| read(file).contains("\n```rust"));
    let silent: Vec<String> = chapters.filter(|file| !shows(&read(file))).collect();
    assert!(silent.is_empty(), "show the imports, or link to names.md: {silent:?}");
}

/// Returns the anchor that GitHub and mdBook give a heading.
fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    heading.trim().to_lowercase().chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Returns the lines of a document that are not in a code block.
fn prose(text: &str) -> Vec<&str> {
    let mut in_code = false;
    let outside = |line: &&str| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !in_code && !fence
    };
    text.lines().filter(outside).collect()
}

fn anchors(text: &str) -> BTreeSet<String> {
    let heading = |line: &&str| line.starts_with('#').then(|| anchor(line.trim_start_matches('#')));
    prose(text).iter().filter_map(heading).collect()
}

/// Returns the targets of the links in a text.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose(text) {
        for (at, _) in line.match_indices("](") {
            found.extend(line[at + 2..].split_once(')').map(|(target, _)| target.to_owned()));
        }
    }
    found
}

#[test]
fn every_relative_link_of_a_document_leads_to_a_file_and_a_heading() {
    let mut files = guides();
    files.extend(markdown("docs/decisions"));
    files.extend(
        ["ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "bench/README.md", "docs/path-of-a-notice.md"]
            .map(str::to_owned),
    );
    let (mut broken, mut count) = (Vec::new(), 0);
    for file in &files {
        let text = read(file);
        let folder = root().join(file).parent().unwrap().to_owned();
        for target in links(&text).iter().filter(|target| !target.contains("://") && !target.starts_with("mailto:")) {
            count += 1;
            let (path, fragment) = target.split_once('#').unwrap_or((target, ""));
            let path = if path.is_empty() { root().join(file) } else { folder.join(path) };
            let there = match fragment {
                "" => path.exists(),
                fragment => fs::read_to_string(&path).is_ok_and(|text| anchors(&text).contains(fragment)),
            };
            if !there {
                broken.push(format!("{file}: {target}"));
            }
        }
    }
    assert!(count >= 100, "only {count} links found");
    assert!(broken.is_empty(), "links that lead nowhere:\n  {}", broken.join("\n  "));
}

/// The rendered book has only the files of `docs/src`.
#[test]
fn no_link_of_a_chapter_leads_out_of_the_book() {
    let chapters = markdown("docs/src").into_iter().map(|file| (links(&read(&file)), file));
    let outside = chapters.flat_map(|(targets, file)| {
        targets.into_iter().filter(|target| target.starts_with("..")).map(move |target| format!("{file}: {target}"))
    });
    let outside: Vec<String> = outside.collect();
    assert!(outside.is_empty(), "name these files in code font instead:\n  {}", outside.join("\n  "));
}

#[test]
fn the_summary_of_the_book_lists_every_chapter() {
    let summary = read("docs/src/SUMMARY.md");
    let listed: BTreeSet<String> = links(&summary).into_iter().collect();
    let chapters = markdown("docs/src").into_iter().map(|file| file.replace("docs/src/", ""));
    let chapters: BTreeSet<String> = chapters.filter(|file| file != "SUMMARY.md").collect();
    assert_eq!(listed, chapters);
}

#[test]
fn the_readme_stays_short() {
    let lines = read("README.md").lines().count();
    assert!(lines <= 150, "README.md has {lines} lines; move what is over 150 to docs/src");
}

/// Returns all statements of a database, formatted for reviewers.
fn statements<DB: Dialect>(name: &str) -> String {
    let options = FormatOptions {
        max_inline_block: 100,
        max_inline_arguments: Some(100),
        max_inline_top_level: Some(100),
        joins_as_top_level: true,
        ..FormatOptions::default()
    };
    let mut text =
        format!("-- Every statement of the store on {name}, as the database gets it, in the order of the source.\n");
    if DB::NAME == "MySQL" {
        text.push_str("-- Placeholders are numbered here. The server gets `?`; a statement with a list of ids gets all values in its text.\n");
    }
    for (name, sql) in statement_texts::<DB>() {
        let sql = sqlformat::format(&sql, &QueryParams::None, &options);
        text.push_str(&format!("\n-- {name}\n{sql};\n"));
    }
    text
}

#[test]
fn every_statement_is_as_its_snapshot_shows() {
    for (file, rendered) in [
        ("docs/sql/postgres.sql", statements::<sqlx::Postgres>("PostgreSQL")),
        ("docs/sql/mysql.sql", statements::<sqlx::MySql>("MySQL and MariaDB")),
        ("docs/sql/sqlite.sql", statements::<sqlx::Sqlite>("SQLite")),
    ] {
        if writes() {
            write(file, &rendered);
        }
        let differs = read(file).lines().zip(rendered.lines()).position(|(kept, now)| kept != now);
        assert!(
            read(file) == rendered,
            "{file} is not what the store runs, from line {} on: run WRITE_DOCUMENTS=1 cargo test -p solid-notify-tests-rules -- documents::, and \
             review the difference",
            differs.map_or_else(|| read(file).lines().count(), |at| at + 1)
        );
    }
}
