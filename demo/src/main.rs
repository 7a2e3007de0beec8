//! `cargo demo`: the program `solid-notify` without its feature `full`. It compiles only what the story needs. `crates/cli/src/demo` tells the story.

fn main() -> std::process::ExitCode {
    solid_notify_cli::main()
}
