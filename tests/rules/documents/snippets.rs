//! The code in the README and in the book: each block of Rust, Python, JavaScript, PHP or Java is a region of a program that CI runs, each
//! block of SQL a region of a file whose statements a test runs, and the dependencies have the versions and features that the workspace has.
//!
//! A program marks a region by the comment lines `// [name]` and `// [end]`, in Python `# [name]` and `# [end]`, a file of statements by
//! `-- [name]` and `-- [end]`. In Markdown the line directly above the block names it: `<!-- examples/guide_adding.rs#keys -->`.
//!
//! A region has no hidden lines. The examples in doc comments are no regions: `cargo test --doc` runs them, and they may hide setup
//! lines (`# `), because docs.rs and editors leave these out.

use std::collections::BTreeMap;

use super::{guides, read, write, writes};

/// Removes the indentation that all lines have in common, and blank lines at both ends.
fn dedented(lines: &[&str]) -> String {
    let indent = |line: &&str| line.len() - line.trim_start().len();
    let common = lines.iter().filter(|line| !line.trim().is_empty()).map(indent).min().unwrap_or_default();
    let lines: Vec<&str> = lines.iter().map(|line| line.get(common..).unwrap_or_default().trim_end()).collect();
    lines.join("\n").trim_matches('\n').to_owned()
}

/// Returns the regions of a program or of a file of statements, by name.
fn regions(file: &str) -> BTreeMap<String, String> {
    let comment = match file.rsplit('.').next() {
        Some("sql") => "--",
        Some("py") => "#",
        _ => "//",
    };
    let mut regions = BTreeMap::new();
    let mut open: Option<(&str, Vec<&str>)> = None;
    let text = read(file);
    for line in text.lines() {
        let marker = line.trim().strip_prefix(comment).and_then(|rest| rest.strip_prefix(" [")?.strip_suffix(']'));
        match (marker, &mut open) {
            (Some("end"), _) => {
                let (name, lines) = open.take().unwrap_or_else(|| panic!("{file}: `{comment} [end]` ends no region"));
                let twice = regions.insert(name.to_owned(), dedented(&lines)).is_some();
                assert!(!twice, "{file}: the region `{name}` occurs twice");
            }
            (Some(name), Some((outer, _))) => panic!("{file}: the region `{name}` begins inside `{outer}`"),
            (Some(name), None) => open = Some((name, Vec::new())),
            (None, Some((_, lines))) => lines.push(line),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{file}: a region has no `{comment} [end]`");
    regions
}

/// A block of code in a document.
struct Snippet {
    /// The document and the line of the fence.
    place: String,
    /// What follows the back-ticks.
    info: String,
    /// The line above the fence.
    above: String,
    code: String,
}

impl Snippet {
    /// Returns the file and the region that the line above the block names.
    fn source(&self) -> Option<(&str, &str)> {
        self.above.strip_prefix("<!-- ")?.strip_suffix(" -->")?.split_once('#')
    }
}

/// Returns the blocks of a document whose info begins with a language, perhaps followed by other words.
fn snippets(file: &str, language: &str) -> Vec<Snippet> {
    let text = read(file);
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let Some(info) = lines[at].trim_start().strip_prefix("```") else {
            at += 1;
            continue;
        };
        let length = lines[at + 1..].iter().position(|line| line.trim() == "```");
        let end = at + 1 + length.unwrap_or_else(|| panic!("{file}:{}: the block has no end", at + 1));
        if info.split(|c: char| !c.is_alphanumeric()).next() == Some(language) {
            found.push(Snippet {
                place: format!("{file}:{}", at + 1),
                info: info.to_owned(),
                above: at.checked_sub(1).map(|above| lines[above].trim().to_owned()).unwrap_or_default(),
                code: dedented(&lines[at + 1..end]),
            });
        }
        at = end + 1;
    }
    found
}

/// How blocks of code begin, and the files that their regions are in.
const LANGUAGES: [(&str, &str); 6] = [
    ("rust,ignore", ".rs"),
    ("sql", ".sql"),
    ("python", ".py"),
    ("javascript", ".js"),
    ("php", ".php"),
    ("java", ".java"),
];

/// Returns the blocks of these languages.
fn with_a_source(file: &str) -> Vec<Snippet> {
    let languages = ["rust", "sql", "python", "javascript", "php", "java"];
    languages.into_iter().flat_map(|language| snippets(file, language)).collect()
}

/// Returns what is wrong with a snippet.
fn mistake(snippet: &Snippet) -> Option<String> {
    let Snippet { place, info, code, .. } = snippet;
    let Some((_, extension)) = LANGUAGES.iter().find(|(begins, _)| begins == info) else {
        return Some(format!(
            "{place}: the block begins with ```{info}; write ```rust,ignore, ```sql, ```python, ```javascript, ```php or ```java"
        ));
    };
    let Some((file, region)) = snippet.source() else {
        return Some(format!("{place}: no source above the block; write <!-- examples/program.rs#region -->"));
    };
    if !file.starts_with("examples/") && !file.starts_with("tests/") || !file.ends_with(extension) {
        return Some(format!("{place}: {file} is no program or statements of this language that CI runs"));
    }
    match regions(file).get(region) {
        None => Some(format!("{place}: {file} has no region `{region}`")),
        Some(text) if text != code => Some(format!("{place}: differs from {file}#{region}, which is:\n{text}\n")),
        Some(_) => None,
    }
}

/// Replaces the code of each snippet by the region that it names.
fn refresh(file: &str) {
    let mut text = read(file);
    for snippet in with_a_source(file) {
        let Some(region) = snippet.source().and_then(|(file, region)| regions(file).remove(region)) else { continue };
        let block = |code: &str| format!("{}\n```{}\n{code}\n```", snippet.above, snippet.info);
        text = text.replace(&block(&snippet.code), &block(&region));
    }
    write(file, &text);
}

#[test]
fn every_snippet_of_a_document_is_a_region_that_ci_runs() {
    if writes() {
        guides().iter().for_each(|file| refresh(file));
    }
    let all: Vec<Snippet> = guides().iter().flat_map(|file| with_a_source(file)).collect();
    assert!(all.len() >= 20, "only {} snippets found", all.len());
    let mistakes: Vec<String> = all.iter().filter_map(mistake).collect();
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

#[test]
fn files_in_the_book_are_those_that_tests_read() {
    let shown =
        [("notify-def.md", "examples/data/retries.toml"), ("serve.md", "crates/cli/tests/serve/every_key.toml")];
    for (chapter, file) in shown {
        let block = format!("<!-- {file} -->\n```toml\n{}```\n", read(file));
        assert!(read(&format!("docs/src/{chapter}")).contains(&block), "docs/src/{chapter} differs from {file}");
    }
}

/// The value of a key in a line of a manifest: `version = "1"` or `features = ["full"]`.
fn value<'a>(line: &'a str, key: &str, end: char) -> Option<&'a str> {
    let (_, rest) = line.split_once(key)?;
    Some(rest.split_once(end)?.0)
}

/// Returns the version that a line of a manifest asks for.
fn version(line: &str) -> Option<&str> {
    let (_, needed) = line.split_once(" = ")?;
    match needed.strip_prefix('"') {
        Some(short) => Some(short.split_once('"')?.0),
        None => value(needed, "version = \"", '"'),
    }
}

/// Returns whether a manifest has a dependency, and in this version.
fn asks_for(manifest: &str, name: &str, wanted: &str) -> bool {
    let lines = manifest.lines().filter(|line| line.split_once(" = ").is_some_and(|(of, _)| of == name));
    // The library's own version has three numbers.
    lines.filter_map(version).any(|version| version == wanted || version == format!("{wanted}.0"))
}

#[test]
fn every_dependency_of_a_document_has_the_version_of_the_workspace() {
    let manifests =
        ["Cargo.toml", "examples/Cargo.toml", "tests/channels/Cargo.toml", "tests/sweeping/Cargo.toml"].map(read);
    let features = read("crates/solid-notify/Cargo.toml");
    let (mut mistakes, mut count) = (Vec::new(), 0);
    for block in guides().iter().flat_map(|file| snippets(file, "toml")) {
        let lines = block.code.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
        let is_manifest = block.code.contains("dependencies]\n");
        for line in lines.filter(|line| is_manifest && !line.is_empty() && !line.starts_with('[')) {
            count += 1;
            let name = line.split(' ').next().unwrap_or_default();
            let wanted = version(line).unwrap_or_default();
            if !manifests.iter().any(|manifest| asks_for(manifest, name, wanted)) {
                mistakes.push(format!("{}: no manifest has {name} in version {wanted}", block.place));
            }
            let of_ours = value(line, "features = [", ']').filter(|_| name == "solid-notify").unwrap_or_default();
            let unknown = of_ours.split(", ").map(|name| name.trim_matches('"')).filter(|name| !name.is_empty());
            let unknown = unknown.filter(|name| !features.contains(&format!("\n{name} = [")));
            mistakes.extend(unknown.map(|name| format!("{}: there is no feature {name}", block.place)));
        }
    }
    assert!(count >= 20, "only {count} dependencies found");
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}
