//! The example services in Python, Node.js, PHP and Java: finds the programs and their drivers, and installs the packages of the lock
//! files into `target/tools/services`.
//!
//! `psql` is one of [`crate::clients`].

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, anyhow, bail};

use crate::packages::Examples;
use crate::receivers;
use crate::servers::programs::{find, usual_folders};

const EXAMPLES: Examples = Examples("services");

/// What to install so that all of them run.
pub const HOW_TO_INSTALL: &str = "Python 3 with pip and libpq, Node.js with npm, PHP with PDO, and a JDK with three JDBC drivers \
    in /usr/share/java (Debian and Ubuntu: `apt-get install python3 python3-pip libpq5 nodejs npm php-cli php-pgsql php-mysql php-sqlite3 \
    default-jdk-headless libpostgresql-jdbc-java libmariadb-java libxerial-sqlite-jdbc-java`)";

/// The library of PostgreSQL's clients.
const LIBPQ: [&str; 1] = ["libpq5"];

const PHP_PACKAGES: [&str; 4] = ["php-cli", "php-pgsql", "php-mysql", "php-sqlite3"];

const JAVA_PACKAGES: [&str; 4] =
    ["default-jdk-headless", "libpostgresql-jdbc-java", "libmariadb-java", "libxerial-sqlite-jdbc-java"];

/// JDBC's drivers, where Debian has them.
const JARS: [&str; 3] = ["postgresql.jar", "mariadb-java-client.jar", "sqlite-jdbc.jar"];

/// PDO's drivers.
const PHP_MODULES: [&str; 3] = ["pdo_pgsql", "pdo_mysql", "pdo_sqlite"];

/// Returns the packages of Debian and Ubuntu that have what is missing of the programs, the drivers of PHP and Java, and the library that psycopg
/// uses.
#[must_use]
pub fn missing_packages() -> Vec<&'static str> {
    let mut packages = receivers::missing_packages();
    let parts: [(bool, &[&str]); 3] =
        [(has_libpq(), &LIBPQ), (check_php().is_ok(), &PHP_PACKAGES), (check_java().is_ok(), &JAVA_PACKAGES)];
    packages.extend(parts.iter().filter(|(installed, _)| !installed).flat_map(|(_, packages)| *packages));
    packages
}

/// Returns a command that runs a service in Python; installs its packages when they are missing.
///
/// # Errors
/// Fails when a program is missing or the packages cannot be installed, and says what to do.
pub fn python(file: &str) -> Result<Command> {
    EXAMPLES.python(&program("python3")?, file)
}

/// Returns a command that runs a service in Node.js, as [`python`].
///
/// # Errors
/// As [`python`].
pub fn node(file: &str) -> Result<Command> {
    EXAMPLES.node(&program("node")?, &program("npm")?, file)
}

/// Returns a command that runs the service in PHP.
///
/// # Errors
/// Fails when PHP or a driver of PDO is missing, and says what to install.
pub fn php() -> Result<Command> {
    let mut service = Command::new(check_php()?);
    service.arg(EXAMPLES.sources("php").join("with_pdo.php"));
    Ok(service)
}

/// Returns a command that compiles and runs the service in Java. Its arguments are read as UTF-8.
///
/// # Errors
/// Fails when the JDK or a driver is missing, and says what to install.
pub fn java() -> Result<Command> {
    let mut service = Command::new(check_java()?);
    let jars: Vec<PathBuf> = JARS.into_iter().map(jar).collect();
    service.env("CLASSPATH", std::env::join_paths(jars)?).env("LC_ALL", "C.UTF-8");
    service.arg(EXAMPLES.sources("java").join("WithJdbc.java"));
    Ok(service)
}

/// Returns the path of a script for `psql`.
#[must_use]
pub fn psql_script(file: &str) -> PathBuf {
    EXAMPLES.sources("psql").join(file)
}

/// Whether psycopg finds the library of PostgreSQL.
fn has_libpq() -> bool {
    let find = "import ctypes.util, sys; sys.exit(ctypes.util.find_library('pq') is None)";
    Command::new("python3").args(["-c", find]).output().is_ok_and(|it| it.status.success())
}

/// Returns the path of PHP. Fails when a driver is missing.
fn check_php() -> Result<PathBuf> {
    let php = program("php")?;
    let modules = String::from_utf8_lossy(&Command::new(&php).arg("-m").output()?.stdout).into_owned();
    match PHP_MODULES.into_iter().find(|module| !modules.lines().any(|line| line == *module)) {
        Some(missing) => bail!("the module `{missing}` of PHP is missing: install {HOW_TO_INSTALL}"),
        None => Ok(php),
    }
}

/// Returns the path of Java. Fails when its compiler or a driver is missing.
fn check_java() -> Result<PathBuf> {
    program("javac")?;
    match JARS.into_iter().map(jar).find(|jar| !jar.is_file()) {
        Some(missing) => bail!("{} is missing: install {HOW_TO_INSTALL}", missing.display()),
        None => program("java"),
    }
}

fn jar(name: &str) -> PathBuf {
    Path::new("/usr/share/java").join(name)
}

fn program(name: &'static str) -> Result<PathBuf> {
    find(&usual_folders(), &[name]).ok_or_else(|| anyhow!("`{name}` is missing: install {HOW_TO_INSTALL}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_program_is_named_with_every_package_to_install() {
        let message = program("no-such-program").map_err(|error| error.to_string()).unwrap_err();
        let packages = [&LIBPQ[..], &PHP_PACKAGES, &JAVA_PACKAGES].concat();
        for word in ["no-such-program", "apt-get install"].iter().chain(&packages) {
            assert!(message.contains(word), "`{word}` is missing: {message}");
        }
    }
}
