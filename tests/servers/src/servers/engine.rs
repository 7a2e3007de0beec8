//! The differences between the servers' products, for the code that runs any of them.

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use rustix::process::Signal;

use super::place::Place;

/// A server's product whose programs are installed.
///
/// It only returns the commands to run. [`Server`](super::Server) runs them, waits and stops, which is the same for all.
pub(super) trait Engine: Send + Sync {
    /// The product's name in messages.
    fn name(&self) -> &'static str;

    /// The folder of the server program, for messages.
    fn programs(&self) -> &Path;

    /// The folder that the programs see as `/`, where it is not the machine's own.
    fn root(&self) -> Option<&Path> {
        None
    }

    /// The URL on this port: that of the database `notify`, where it is a database.
    fn url(&self, port: u16) -> String;

    /// The command that fills the empty data directory, and ends.
    fn initialise(&self, place: &Place) -> Result<Command>;

    /// The command that serves in the foreground until it gets a signal.
    fn serve(&self, place: &Place, port: u16) -> Command;

    /// The command that runs one SQL statement as the superuser. Only a database has one.
    fn ask(&self, _place: &Place, _port: u16, _way: Way, _sql: &str) -> Option<Command> {
        None
    }

    /// Checks that the server in this place responds. A database is asked by [`Engine::ask`] instead.
    fn check_session(&self, _place: &Place, _port: u16) -> Result<()> {
        Ok(())
    }

    /// The signal for an orderly shutdown that does not wait for clients to leave.
    fn graceful(&self) -> Signal;

    /// The signal, and its name for `kill -s`, for the quickest end that leaves nothing behind in
    /// the operating system. The data is lost anyway.
    fn discard(&self) -> (Signal, &'static str);
}

/// How the client program reaches the server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// The socket in the server's own directory, in no particular database. Only our server responds there.
    Socket,
    /// The TCP port, in the database `notify`: the way that the URL describes.
    Tcp,
}
