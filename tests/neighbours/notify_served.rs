//! `notify-served`: the program `solid-notify`, for the tests of this package, which cannot name the binary of another package.

fn main() -> std::process::ExitCode {
    solid_notify_cli::main()
}
