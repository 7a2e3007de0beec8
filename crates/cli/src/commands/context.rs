//! `context add|use|list|remove`: the file of contexts. They connect to nothing.

use clap::{Args, Subcommand};
use serde_json::json;
use solid_notify::definition::SecretRef;

use crate::ask;
use crate::contexts::{Context, Contexts, SCHEMES, has_password, names_a_store, shown, with_password};
use crate::exit::{Exit, Failure, Outcome};
use crate::global::Global;
use crate::output::{self, Output};
use crate::table::Rows;

/// Commands for contexts.
#[derive(Debug, Subcommand)]
pub(crate) enum ContextCommand {
    /// Add a context, or replace one; the first one is chosen at once
    Add(NewContext),
    /// Choose a context for the commands that follow
    Use { name: String },
    /// List contexts
    List,
    /// Remove a context
    Remove { name: String },
}

/// A context on the command line.
#[derive(Debug, Args)]
pub(crate) struct NewContext {
    name: String,
    /// The store, without a password
    store: String,
    /// Where the password is: env:NAME or file:/path
    #[arg(long, value_name = "REFERENCE")]
    password: Option<String>,
    /// Ask before each change
    #[arg(long)]
    production: bool,
    /// Refuse changes
    #[arg(long)]
    read_only: bool,
}

/// Runs a command for contexts.
pub(crate) fn run(global: &Global, command: ContextCommand) -> Outcome {
    let out = Output { json: global.json };
    let path = Contexts::path(global)?;
    let mut contexts = Contexts::read(&path)?;
    match command {
        ContextCommand::Add(new) => {
            let NewContext { name, store: url, password, production, read_only } = new;
            check(&name, &url, password.is_some())?;
            // The error does not contain the text, which may be the password itself.
            let password = password.map(|text| text.parse::<SecretRef>()).transpose();
            let password = password.map_err(|problem| Failure::invalid(format!("--password: {problem}")))?;
            if has_password(&url) {
                output::warn("the password in the URL is stored as plain text; use --password env:NAME or file:/path");
            }
            if contexts.contexts.contains_key(&name) {
                ask::confirm(&format!("this will replace the context {name:?}. Continue?"), global.yes)?;
            }
            contexts.contexts.insert(name.clone(), Context { url, password, production, read_only });
            contexts.current.get_or_insert(name.clone());
            contexts.write(&path)?;
            out.show(&json!({ "result": "added", "name": name }), || format!("added the context {name:?}"))?;
        }
        ContextCommand::Use { name } => {
            let url = shown(&contexts.get(&name)?.url);
            contexts.current = Some(name.clone());
            contexts.write(&path)?;
            out.show(&json!({ "result": "chosen", "name": name }), || format!("commands are for {name:?} now: {url}"))?;
        }
        ContextCommand::List => {
            let current = contexts.current.as_deref();
            let all = contexts.contexts.iter().map(|(name, context)| {
                json!({ "name": name, "current": current == Some(name), "url": shown(&context.url),
                    "password": context.password, "production": context.production, "read_only": context.read_only })
            });
            let all: Vec<_> = all.collect();
            out.show(&all, || {
                let mut rows = Rows::new(&["", "name", "url", "rules"]);
                for (name, context) in &contexts.contexts {
                    let mark = if current == Some(name) { "*" } else { "" }.to_owned();
                    let rules = [(context.production, "production"), (context.read_only, "read-only")];
                    let rules: Vec<&str> = rules.into_iter().filter(|(on, _)| *on).map(|(_, word)| word).collect();
                    rows.row([mark, name.clone(), shown(&context.url), rules.join(", ")]);
                }
                rows.text("no contexts; `solid-notify context add NAME URL` adds one")
            })?;
        }
        ContextCommand::Remove { name } => {
            contexts.get(&name)?;
            contexts.contexts.remove(&name);
            contexts.current = contexts.current.filter(|current| *current != name);
            contexts.write(&path)?;
            out.show(&json!({ "result": "removed", "name": name }), || format!("removed the context {name:?}"))?;
        }
    }
    Ok(Exit::Done)
}

/// Checks what the file would keep.
fn check(name: &str, url: &str, has_reference: bool) -> Outcome<()> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if name.is_empty() || name.len() > 100 || !name.chars().all(plain) {
        return Err(Failure::invalid(format!("{name:?} is no name of a context: expected letters, digits, - _ and .")));
    }
    if !names_a_store(url) {
        return Err(
            Failure::invalid("the URL names no store").next(format!("begin it with one of {}:", SCHEMES.join(": ")))
        );
    }
    if !has_reference {
        return Ok(());
    }
    if has_password(url) {
        return Err(Failure::usage("the URL has a password, and --password names another one: leave one of them out"));
    }
    match with_password(url, "x").is_ok() {
        true => Ok(()),
        false => Err(Failure::invalid("a URL of this form has no place for a password: leave --password out")),
    }
}
