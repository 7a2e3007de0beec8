//! `doctor`: everything that may stand in the way of a promise, what it means, and what mends it.

use clap::Args;
use solid_notify::operate::{Finding, Severity};

use crate::exit::{Exit, Outcome};
use crate::output::harmless;
use crate::session::Session;

/// What to show.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Show what is well, too
    #[arg(long, short)]
    verbose: bool,
}

/// Examines the store. The exit code is 1 if there is a problem.
pub(crate) async fn run(session: &Session, doctor: &Doctor) -> Outcome {
    let findings = session.operator.examine().await;
    session.out.show(&findings, || text(&findings, doctor.verbose))?;
    let is_well = findings.iter().all(|finding| finding.severity < Severity::Problem);
    Ok(if is_well { Exit::Done } else { Exit::Failed })
}

/// Returns the findings for people: each that is not well with its meaning and its remedy, the others in one line.
fn text(findings: &[Finding], verbose: bool) -> String {
    let mut text = String::new();
    let mut well = 0;
    for finding in findings {
        if finding.severity == Severity::Fine && !verbose {
            well += 1;
            continue;
        }
        text.push_str(&format!("{:<8} {}: {}\n", finding.severity.as_str(), finding.check, harmless(&finding.found)));
        for (label, line) in [("means", finding.meaning), ("mend", finding.remedy.as_str())] {
            if !line.is_empty() {
                text.push_str(&format!("         {label}: {}\n", harmless(line)));
            }
        }
    }
    if well > 0 {
        text.push_str(&format!("{well} checks found nothing to mend; --verbose shows them\n"));
    }
    text
}
