//! `cargo demo` is the first command of a newcomer. It compiles few crates and no C but SQLite, and `cargo run --example orders` compiles none of them again.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// The most packages below the demo. A command that needs more of them belongs to the feature `full` of `crates/cli`.
const MOST_PACKAGES: usize = 240;

/// Packages that cost more than the story gains: TLS, other stores, terminals, brokers.
const REFUSED: [&str; 11] = [
    "async-nats",
    "aws-lc-sys",
    "h2",
    "lapin",
    "lettre",
    "ratatui",
    "redis",
    "ring",
    "rustls",
    "sqlx-mysql",
    "sqlx-postgres",
];

/// Runs `cargo tree` without a network, and returns its lines, each once.
fn tree(arguments: &[&str]) -> BTreeSet<String> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["tree", "--offline", "--locked", "--prefix", "none", "--no-dedupe"]).args(arguments);
    let output = command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()).output().unwrap();
    assert!(output.status.success(), "cargo tree {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(|line| line.replace(" (proc-macro)", "")).collect()
}

/// The name of a package in a line of a tree.
fn name(line: &str) -> &str {
    line.split(' ').next().unwrap()
}

#[test]
fn demo_compiles_few_packages_and_no_c_but_sqlite() {
    let packages = tree(&["--package", "solid-notify-demo", "--edges", "normal,build"]);
    assert!(packages.len() > 100, "{packages:?}");
    let refused: Vec<_> = packages.iter().filter(|line| REFUSED.contains(&name(line))).collect();
    assert!(
        refused.is_empty(),
        "the demo compiles {refused:?}: put what needs them behind the feature `full` of crates/cli"
    );
    let needs_c =
        tree(&["--package", "solid-notify-demo", "--edges", "normal,build", "--invert", "cc", "--depth", "1"]);
    let needs_c: Vec<_> = needs_c.iter().map(|line| name(line)).collect();
    assert_eq!(needs_c, ["cc", "libsqlite3-sys"], "the demo compiles C beside SQLite");
    assert!(
        packages.len() <= MOST_PACKAGES,
        "the demo compiles {} packages; at most {MOST_PACKAGES} keep it fast: {packages:?}",
        packages.len()
    );
}

/// Cargo compiles a package again when one of its features differs, and then everything that depends on it. A command without `--package` unites the
/// features of all default members; an example also those of their tests.
#[test]
fn examples_compile_nothing_again_that_the_demo_compiled() {
    let format = ["--format", "{p} [{f}]"];
    let names = tree(&["--package", "solid-notify-demo", "--edges", "normal,build"]);
    let names: BTreeSet<_> = names.iter().map(|line| name(line)).collect();
    let by_demo = tree(&[&["--edges", "normal,build"], &format[..]].concat());
    let by_example = tree(&[&["--edges", "normal,build,dev"], &format[..]].concat());
    // The facade only re-exports, and the program is not part of the examples.
    let own = ["solid-notify", "solid-notify-cli", "solid-notify-demo"];
    let again: Vec<_> = by_demo
        .difference(&by_example)
        .filter(|line| names.contains(name(line)) && !own.contains(&name(line)))
        .collect();
    assert!(
        again.is_empty(),
        "`cargo run --example orders` has other features of {again:?}: add what is missing to demo/Cargo.toml or examples/Cargo.toml"
    );
}
