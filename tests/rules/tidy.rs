//! Rules that reviews forget: file sizes, headers, names, words, where SQL may be, dependencies of crates, the list of mutants.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use solid_notify::alert::{Alert, AlertKind, AlertReason};

/// The most lines of a file. A longer file must be split.
const LONGEST_FILE: usize = 400;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Every Rust file of the project, with its text.
fn sources() -> Vec<(String, String)> {
    let mut files = Vec::new();
    for folder in ["bench", "crates", "demo", "examples", "tests", "xtask"] {
        collect(&root().join(folder), &["rs"], &mut files);
    }
    assert!(files.len() > 60, "only {} files found", files.len());
    files
}

/// Adds the files with these extensions. Hidden folders and folders of builds are left out.
fn collect(folder: &Path, extensions: &[&str], files: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            collect(&path, extensions, files);
        } else if path.extension().is_some_and(|extension| extensions.iter().any(|known| extension == *known)) {
            let name = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
            files.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
}

fn complain(rule: &str, offenders: Vec<String>) {
    assert!(offenders.is_empty(), "{rule}:\n  {}", offenders.join("\n  "));
}

#[test]
fn no_file_is_longer_than_four_hundred_lines() {
    let long = sources().into_iter().map(|(name, text)| (text.lines().count(), name));
    complain(
        "too long",
        long.filter(|(lines, _)| *lines > LONGEST_FILE).map(|(lines, name)| format!("{name}: {lines}")).collect(),
    );
}

/// Git on Windows checks out a symbolic link as a file with a path in it, unless the user has the right to create links.
#[test]
fn no_file_is_a_symbolic_link() {
    let (mut folders, mut links) = (vec![root()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let kind = entry.file_type().unwrap();
            if [".git", "target"].iter().any(|name| entry.file_name() == *name) {
                continue;
            }
            match kind.is_symlink() {
                true => links.push(entry.path().display().to_string()),
                false if kind.is_dir() => folders.push(entry.path()),
                false => {}
            }
        }
    }
    complain("a symbolic link: name the file itself", links);
}

/// A case in the list of a suite is a function, too, so this checks every function.
#[test]
fn test_names_are_at_most_70_characters() {
    let names = sources().into_iter().flat_map(|(file, text)| {
        let name = |line: &str| {
            let rest = &line[line.find("fn ")? + 3..];
            let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_')?;
            (end > 70).then(|| rest[..end].to_owned())
        };
        let numbered = (1..).zip(text.lines());
        numbered.filter_map(|(n, line)| Some(format!("{file}:{n}: {}", name(line)?))).collect::<Vec<_>>()
    });
    complain("a name of more than 70 characters", names.collect());
}

/// Words that hide which component acts, and words that a reader whose native language is another one may not know.
#[test]
fn texts_avoid_the_words_of_the_style_guide() {
    let words = [
        "nobody",
        "somebody",
        "whoever",
        "lest",
        "befall",
        "befalls",
        "befallen",
        "befell",
        "hasten",
        "hastens",
        "greet",
        "greets",
        "is told",
        "are told",
        "was told",
        "were told",
        "be told",
        "came to",
    ];
    // A folder and the text of its lines that may have such a word: the account `nobody` of the operating system.
    let allowed = [("tests/servers/src/servers/", "\"nobody\"]")];
    let own_name = "tests/rules/tidy.rs";
    let is_part = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
    let has = |line: &str, word: &str| {
        line.match_indices(word)
            .any(|(at, _)| !is_part(line[..at].chars().next_back()) && !is_part(line[at + word.len()..].chars().next()))
    };
    let mut files = Vec::new();
    collect(&root(), &["rs", "sql", "lua", "md", "toml"], &mut files);
    let found = files.into_iter().filter(|(file, _)| file != own_name).flat_map(|(file, text)| {
        let is_allowed = |line: &str| allowed.iter().any(|(of, text)| file.starts_with(of) && line.contains(text));
        // The parts of a name are words, too.
        let breaks = |line: &str| {
            let spoken = line.to_lowercase().replace('_', " ");
            words.iter().any(|word| has(&spoken, word)) && !is_allowed(line)
        };
        let numbered = (1..).zip(text.lines()).filter(|(_, line)| breaks(line));
        numbered.map(|(n, line)| format!("{file}:{n}: {}", line.trim())).collect::<Vec<_>>()
    });
    complain("words to replace by plain ones", found.collect());
}

#[test]
fn every_file_says_first_what_it_is_for() {
    let silent = sources().into_iter().filter(|(_, text)| !text.starts_with("//!"));
    complain("no `//!` at the top", silent.map(|(name, _)| name).collect());
}

#[test]
fn there_are_no_drawer_modules() {
    let drawers = ["utils", "util", "common", "helpers", "helper", "types", "misc", "manager"];
    let named = sources().into_iter().filter(|(name, _)| {
        let path = Path::new(name);
        let is_drawer = |part: &std::ffi::OsStr| {
            drawers.iter().any(|drawer| part.to_string_lossy().trim_end_matches(".rs") == *drawer)
        };
        path.iter().any(is_drawer)
    });
    complain("a drawer", named.map(|(name, _)| name).collect());
}

#[test]
fn sql_stands_in_the_crate_sql_and_nowhere_else_in_the_library() {
    let sql = ["SELECT ", "INSERT INTO", "UPDATE notify", "DELETE FROM", "notify_msg_history WHERE", "FOR UPDATE"];
    // The shop of the demo is an application, and tests of the program look into its database.
    let others = ["crates/sql/src/", "crates/sql/build/", "crates/cli/src/demo/", "crates/cli/tests/"];
    let misplaced = sources()
        .into_iter()
        .filter(|(name, _)| name.starts_with("crates/") && !others.iter().any(|folder| name.starts_with(folder)))
        .flat_map(|(name, text)| {
            let code = |line: &&str| !line.trim_start().starts_with("//");
            let found = text.lines().filter(code).filter(|line| sql.iter().any(|word| line.contains(word)));
            found.map(|line| format!("{name}: {}", line.trim())).collect::<Vec<_>>()
        });
    complain("SQL outside of crates/sql", misplaced.collect());
}

#[test]
fn only_the_dialect_files_differ_per_database() {
    // A statement for one database alone soon becomes a copy. The statements of adds, claims and settles, and the shortcuts, are
    // written out where their whole form differs. Each database has a catalog of its own, which the last files read.
    let families = ["Kind::{", "Kind::Postgres", "Kind::Sqlite", "Kind::MySql"];
    let allowed = [
        "kind.rs",
        "pieces.rs",
        "postgres.rs",
        "mysql.rs",
        "sqlite.rs",
        "statement.rs",
        "statements.rs",
        "shortcuts/insert_bare.rs",
        "shortcuts/insert_known.rs",
        "shortcuts/settle_at_once.rs",
        "examine/grants.rs",
        "restore/mod.rs",
        "restore/ids.rs",
    ];
    let found = sources().into_iter().filter(|(name, text)| {
        name.starts_with("crates/sql/src/")
            && !allowed.iter().any(|file| name.ends_with(file))
            && families.iter().any(|family| text.contains(family))
    });
    complain("differs per database outside of the dialect files", found.map(|(name, _)| name).collect());
}

#[test]
fn the_list_of_statements_has_every_topic() {
    // docs/sql and the tests of the plans see only what this file lists.
    let list = fs::read_to_string(root().join("crates/sql/src/statements.rs")).unwrap();
    let topics = |text: String| {
        let declared = text.split("\nstatements! {\n    ").skip(1);
        declared.filter_map(|rest| Some(rest.split_once(':')?.0.to_owned())).collect::<Vec<_>>()
    };
    let missing = sources().into_iter().filter(|(name, _)| name.starts_with("crates/sql/src/"));
    let missing =
        missing.flat_map(|(_, text)| topics(text)).filter(|topic| !list.contains(&format!("::{topic}::of(kind)")));
    complain("not in crates/sql/src/statements.rs", missing.collect());
}

#[test]
fn dependencies_point_inwards() {
    // The crates of this workspace that each may depend on; dev-dependencies are not checked.
    let allowed: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("core", &[][..]),
        ("sweeper", &["core"][..]),
        ("testkit", &["core"][..]),
        ("conformance", &["core"][..]),
        ("simulate", &["core"][..]),
        ("channels", &["core", "redis-connection", "sweeper"][..]),
        ("ack-http", &["core"][..]),
        ("redis", &["core", "redis-connection"][..]),
        ("redis-connection", &[][..]),
        ("timed", &["redis-connection"][..]),
        ("sql", &["core"][..]),
        ("cli", &["solid-notify"][..]),
        (
            "solid-notify",
            &["ack-http", "channels", "core", "redis", "simulate", "sql", "sweeper", "testkit", "timed"][..],
        ),
    ]);
    for (name, may) in &allowed {
        let manifest = fs::read_to_string(root().join("crates").join(name).join("Cargo.toml")).unwrap();
        let dependencies = manifest.split("\n[").find(|part| part.starts_with("dependencies]")).unwrap();
        for (other, _) in allowed.iter().filter(|(other, _)| !may.contains(other)) {
            let crate_name =
                if *other == "solid-notify" { "solid-notify.".to_owned() } else { format!("solid-notify-{other}.") };
            assert!(!dependencies.contains(&crate_name), "{name} must not depend on {other}");
        }
    }
    let folders =
        fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut folders: Vec<String> = folders.collect();
    folders.sort_unstable();
    let mut known: Vec<&str> = allowed.into_keys().collect();
    known.sort_unstable();
    assert_eq!(folders, known, "add the dependencies that a new crate may have to this test");
}

#[test]
fn core_knows_no_database_http_mail_or_broker() {
    let manifest = fs::read_to_string(root().join("crates/core/Cargo.toml")).unwrap();
    for word in ["sqlx", "http", "hyper", "reqwest", "axum", "lettre", "lapin", "async-nats", "redis"] {
        assert!(!manifest.contains(word), "core depends on {word}");
    }
}

#[test]
fn the_architecture_page_lists_every_crate_and_its_sql_files() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(page.contains(&format!("crates/{name}")), "ARCHITECTURE.md does not mention crates/{name}");
    }
    for file in ["statements.rs", "kind.rs", "store.rs", "transition.rs", "sweep.rs", "settle.rs"] {
        assert!(page.contains(file), "ARCHITECTURE.md does not mention {file}");
    }
}

#[test]
fn the_page_on_tests_lists_every_program_and_its_modules() {
    let page = fs::read_to_string(root().join("tests/README.md")).unwrap();
    let mut manifests = Vec::new();
    collect(&root().join("tests"), &["toml"], &mut manifests);
    let (mut missing, mut programs) = (Vec::new(), 0);
    for (manifest, text) in manifests {
        let package = manifest.trim_start_matches("tests/").trim_end_matches("Cargo.toml");
        for program in text.split("[[test]]").skip(1) {
            let value = |key: &str| {
                program
                    .lines()
                    .find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"'))
                    .unwrap()
            };
            let (name, file) = (value("name"), format!("{package}{}", value("path")));
            let text = fs::read_to_string(root().join("tests").join(&file)).unwrap();
            // The modules of schedules are the parts of one test, and those of sending are the topics.
            let modules = text.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
            let modules = modules.filter(|_| !["schedules", "sending"].contains(&name));
            let named = |module: &str| page.contains(&format!("{module}.rs")) || page.contains(&format!("{module}/"));
            missing.extend(modules.filter(|module| !named(module)).map(|module| format!("{file}: {module}")));
            let place = file.trim_end_matches("main.rs");
            missing.extend((!page.contains(place) || !page.contains(&format!("`{name}`"))).then(|| file.clone()));
            programs += 1;
        }
    }
    assert!(programs >= 12, "only {programs} programs found");
    complain("not in tests/README.md", missing);
}

#[test]
fn the_book_lists_every_column_of_notify_def() {
    let chapter = fs::read_to_string(root().join("docs/src/notify-def.md")).unwrap();
    let missing = solid_notify::NotifyDef::COLUMNS.iter().filter(|column| !chapter.contains(&format!("| `{column}`")));
    complain("not in the table of docs/src/notify-def.md", missing.map(ToString::to_string).collect());
}

#[test]
fn the_book_has_the_title_of_each_alert() {
    let book = fs::read_to_string(root().join("docs/src/alerts.md")).unwrap();
    for reason in AlertReason::ALL {
        let mut alert = Alert::new(AlertKind::Raised, reason, "sync", "");
        alert.notice_id = Some(7);
        let (row, words) = (format!("| `{}` |", reason.as_str()), alert.title().replace("sync: ", "| ") + " |");
        assert!(book.lines().any(|line| line.starts_with(&row) && line.ends_with(&words)), "{row} … {words}");
    }
}

#[test]
fn the_book_lists_every_cargo_feature() {
    let chapter = fs::read_to_string(root().join("docs/src/features.md")).unwrap();
    let (table, _) = chapter.split_once("## Crates").unwrap();
    let manifest = fs::read_to_string(root().join("crates/solid-notify/Cargo.toml")).unwrap();
    let (features, _) = manifest.split_once("\n[features]\n").unwrap().1.split_once("\n[dependencies]").unwrap();
    let names: Vec<&str> = features.lines().filter_map(|line| Some(line.split_once(" = [")?.0)).collect();
    assert!(names.len() > 10, "only {names:?}");
    let listed: Vec<&str> = table.lines().filter_map(|line| line.split('|').nth(1)).collect();
    let is_listed = |name: &str| listed.iter().any(|cell| cell.contains(&format!("`{name}`")));
    let missing = names.into_iter().filter(|name| *name != "default" && !is_listed(name));
    complain("not in the table of docs/src/features.md", missing.map(str::to_owned).collect());
}

#[test]
fn nothing_is_unfinished_or_switched_off() {
    let words = ["todo!(", "unimplemented!(", concat!("#[", "ignore"), concat!("FIX", "ME")];
    let own_name = "tests/rules/tidy.rs";
    let found =
        sources().into_iter().filter(|(name, text)| name != own_name && words.iter().any(|word| text.contains(word)));
    complain("unfinished", found.map(|(name, _)| name).collect());
}

#[test]
fn the_project_speaks_of_itself_alone() {
    let text_files = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];
    let words = ["/home/", "/tmp/", "issue #"];
    for file in text_files {
        let text = fs::read_to_string(root().join(file)).unwrap();
        for word in words {
            assert!(!text.contains(word), "{file} contains {word:?}");
        }
    }
}
