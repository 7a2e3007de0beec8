//! Checks that the server of a URL accepts connections. The tests sign in.

use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

/// Connects to the URL's host and port, and returns both for a message, without a password of the URL.
pub(crate) fn reach(url: &str, default_port: u16) -> Result<String> {
    let Some((host, port)) = host_and_port(url, default_port) else {
        return Err(anyhow!("it must be a URL of the form scheme://user:password@host:port/database"));
    };
    let shown = format!("{host}:{port}");
    let addresses = (host.as_str(), port).to_socket_addrs().with_context(|| format!("{shown} has no address"))?;
    let mut outcome = Err(anyhow!("{shown} has no address"));
    for address in addresses {
        match TcpStream::connect_timeout(&address, Duration::from_secs(5)) {
            Ok(_) => return Ok(shown),
            Err(error) => outcome = Err(error).with_context(|| format!("nothing answers at {shown}")),
        }
    }
    outcome
}

/// The host and port of a URL. An address of IP version 6 stands in brackets there, but not here.
fn host_and_port(url: &str, default_port: u16) -> Option<(String, u16)> {
    let rest = url.split_once("://")?.1;
    let authority = rest.split(['/', '?', '#']).next()?;
    let place = authority.rsplit('@').next()?;
    let (host, port) = match place.strip_prefix('[') {
        Some(bracketed) => {
            let (host, behind) = bracketed.split_once(']')?;
            (host, behind.strip_prefix(':'))
        }
        None => match place.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        },
    };
    let port = match port {
        Some(port) => port.parse().ok()?,
        None => default_port,
    };
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_port_are_found_in_a_url() {
        for (url, host, port) in [
            ("postgres://postgres@127.0.0.1:5433/notify", "127.0.0.1", 5433),
            ("postgres://u:p%40ss@db.example/notify?sslmode=require", "db.example", 5432),
            ("mysql://u:a@b@db.example:3307", "db.example", 3307),
            ("postgres://[::1]:6000/notify", "::1", 6000),
            ("postgres://[::1]/notify", "::1", 5432),
        ] {
            assert_eq!(host_and_port(url, 5432), Some((host.to_owned(), port)), "{url}");
        }
        for url in ["127.0.0.1:5432", "postgres:///notify", "postgres://host:port/notify"] {
            assert_eq!(host_and_port(url, 5432), None, "{url}");
        }
    }

    #[test]
    fn a_server_that_does_not_answer_is_named_without_its_password() -> Result<()> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let url = |port: u16| format!("postgres://user:secret@127.0.0.1:{port}/notify");
        assert_eq!(reach(&url(port), 5432)?, format!("127.0.0.1:{port}"));
        // Port 1 is below the ports that the system gives to other programs, and no server of ours has it.
        let message = format!("{:#}", reach(&url(1), 5432).err().context("a server listens on port 1")?);
        assert!(message.contains("127.0.0.1:1") && !message.contains("secret"), "{message}");
        Ok(())
    }
}
