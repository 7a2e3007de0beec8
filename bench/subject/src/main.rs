//! The subject as a program of its own, as `bench compare` builds it from two revisions. `bench count` runs the same code by `bench subject`.

use anyhow::Result;
use bench_subject::Arguments;
use clap::Parser;

/// Works on notices of one database for the bench.
#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    arguments: Arguments,
}

fn main() -> Result<()> {
    bench_subject::run(CommandLine::parse().arguments)
}
