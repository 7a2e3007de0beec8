//! The program `solid-notify`. All of it is in the library of this package, so that tests can run it, too.

fn main() -> std::process::ExitCode {
    solid_notify_cli::main()
}
