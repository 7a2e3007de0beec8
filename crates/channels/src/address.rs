//! Which addresses a row may have a channel connect to: public ones, and those of networks that the program allows.
//!
//! [`AllowedNetworks`] decides about addresses, and about what a name resolves to. `lookup.rs` resolves names, so that each connection goes to
//! an address that was checked. What the program itself configures (a mailer, the chats of alerts, a proxy) is not limited.

use std::fmt::Display;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use solid_notify_sweeper::Failure;

use crate::error::ChannelError;

/// Networks of IPv4 that are not the public internet, after the registry of special-purpose addresses (RFC 6890) and its updates. The
/// metadata services of clouds are in them, except for the last entry: the one of Azure has a public address.
const REFUSED_V4: &[(Ipv4Net, &str)] = &[
    (net(0, 0, 0, 0, 8), "unspecified"),
    (net(10, 0, 0, 0, 8), "private"),
    (net(100, 64, 0, 0, 10), "shared by a carrier"),
    (net(127, 0, 0, 0, 8), "loopback"),
    (net(169, 254, 0, 0, 16), "link-local"),
    (net(172, 16, 0, 0, 12), "private"),
    (net(192, 0, 0, 0, 24), "reserved for protocols"),
    (net(192, 0, 2, 0, 24), "reserved for documentation"),
    (net(192, 88, 99, 0, 24), "a relay of 6to4"),
    (net(192, 168, 0, 0, 16), "private"),
    (net(198, 18, 0, 0, 15), "reserved for benchmarks"),
    (net(198, 51, 100, 0, 24), "reserved for documentation"),
    (net(203, 0, 113, 0, 24), "reserved for documentation"),
    (net(224, 0, 0, 0, 4), "multicast"),
    (net(240, 0, 0, 0, 4), "reserved or broadcast"),
    (net(168, 63, 129, 16, 32), "a metadata service"),
];

/// The only network of IPv6 from which public addresses are assigned (RFC 4291).
const PUBLIC_V6: Ipv6Net = net6(0x2000, 0, 0, 3);

/// Networks within [`PUBLIC_V6`] that are not the public internet. The first one has Teredo, ORCHID and benchmarks.
const REFUSED_V6: &[(Ipv6Net, &str)] = &[
    (net6(0x2001, 0, 0, 23), "reserved for protocols"),
    (net6(0x2001, 0xdb8, 0, 32), "reserved for documentation"),
    (net6(0x3fff, 0, 0, 20), "reserved for documentation"),
];

/// The prefix of NAT64 whose last 32 bits are an address of IPv4 (RFC 6052).
const NAT64: Ipv6Net = net6(0x64, 0xff9b, 0, 96);
/// The prefix of 6to4, behind which an address of IPv4 follows (RFC 3056).
const SIX_TO_FOUR: Ipv6Net = net6(0x2002, 0, 0, 16);

const fn net(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn net6(a: u16, b: u16, c: u16, prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0), prefix)
}

/// The address is in no public network, and the program does not allow it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the address {address} is refused because it is {kind}: if the receiver is to be there, allow its network: in Rust by \
     `allow_networks(…)` of the channel, in `solid-notify serve` by allow_networks, in `solid-notify run` by --allow-network"
)]
pub(crate) struct RefusedAddress {
    address: IpAddr,
    kind: &'static str,
}

/// A name has no address that may be connected to. The text is the same where no name server knows the name and where its addresses are
/// refused: a person who may edit rows must not learn which names the sender's own network has.
#[derive(Debug, thiserror::Error)]
#[error(
    "the name of the host has no address that may be reached: no name server knows it, or its network is not allowed (in Rust by \
     `allow_networks(…)` of the channel, in `solid-notify serve` by allow_networks, in `solid-notify run` by --allow-network)"
)]
pub(crate) struct NoAddress;

impl From<NoAddress> for io::Error {
    fn from(error: NoAddress) -> Self {
        // The kind decides the class of the failure.
        Self::new(io::ErrorKind::HostUnreachable, error)
    }
}

/// The networks that are not public and that rows may have channels connect to all the same: the same ones for all channels of a program.
///
/// They are no part of a definition, because a person who may edit rows must not reach the internal services of the sender. Servers that the
/// program itself gives to a channel need not be in them.
///
/// ```
/// # fn example(sweeper: solid_notify_sweeper::SweeperBuilder) -> Result<(), solid_notify_channels::ChannelError> {
/// # #[cfg(all(feature = "plain-webhook", feature = "plain-chat"))] {
/// use solid_notify_channels::{AllowedNetworks, ChannelExt, Chat, Webhook};
///
/// let networks = AllowedNetworks::new(["10.20.0.0/16", "fd00:1::/32"])?;
/// let webhook = Webhook::builder().allow_networks(&networks).build()?;
/// let sweeper = sweeper.channel(webhook).channel(Chat::new().allow_networks(&networks));
/// # }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedNetworks(Arc<[IpNet]>);

impl AllowedNetworks {
    /// Allows networks such as `10.0.0.0/8` and `fd00::/8`, or single addresses such as `127.0.0.1`.
    ///
    /// # Errors
    /// A text that is neither.
    pub fn new<I>(networks: I) -> Result<Self, ChannelError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        networks.into_iter().map(|text| network(text.as_ref())).collect::<Result<_, _>>().map(Self)
    }

    /// Checks one address. A form of IPv6 that leads to an address of IPv4 is judged by that one.
    pub(crate) fn check(&self, address: IpAddr) -> Result<(), RefusedAddress> {
        let target = target(address);
        if self.0.iter().any(|network| network.contains(&target) || network.contains(&address)) {
            return Ok(());
        }
        refusal(target).map_or(Ok(()), |kind| Err(RefusedAddress { address, kind }))
    }

    /// Checks the host of a URL, if it is an address. A name is checked when it is resolved.
    pub(crate) fn check_host(&self, host: &str) -> Result<(), RefusedAddress> {
        let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        address.parse().map_or(Ok(()), |address| self.check(address))
    }

    /// The same for an attempt whose host the row names itself.
    ///
    /// # Errors
    /// The notice waits, because the next one would have the same host, and another node may allow it.
    pub(crate) fn admit(&self, host: &str) -> Result<(), Failure> {
        self.check_host(host).map_err(|refused| Failure::wait(format!("handler_config: {refused}")))
    }

    /// Returns those addresses of a name that may be connected to, of what a lookup has found.
    pub(crate) fn of_name<E: Display>(
        &self,
        host: &str,
        found: Result<impl Iterator<Item = SocketAddr>, E>,
    ) -> Result<Vec<SocketAddr>, NoAddress> {
        let is_allowed = |found: &SocketAddr| match self.check(found.ip()) {
            Ok(()) => true,
            Err(refused) => {
                tracing::debug!(host, %refused, "an address of a receiver is not used");
                false
            }
        };
        let allowed: Vec<SocketAddr> = match found {
            Ok(found) => found.filter(is_allowed).collect(),
            Err(error) => {
                tracing::debug!(host, %error, "the name of a receiver is not found");
                Vec::new()
            }
        };
        if allowed.is_empty() { Err(NoAddress) } else { Ok(allowed) }
    }
}

fn network(text: &str) -> Result<IpNet, ChannelError> {
    let network = text.parse::<IpNet>().or_else(|error| text.parse::<IpAddr>().map(IpNet::from).map_err(|_| error));
    network.map_err(|error| ChannelError::setup_failed(format!("`{text}` is no network such as `10.0.0.0/8`"), error))
}

/// Returns the address at which packets to this one arrive.
fn target(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else {
        return address;
    };
    let [.., a, b, c, d] = v6.octets();
    let [_, _, e, f, g, h, ..] = v6.octets();
    match v6.to_ipv4_mapped() {
        Some(v4) => v4.into(),
        None if NAT64.contains(&v6) => Ipv4Addr::new(a, b, c, d).into(),
        None if SIX_TO_FOUR.contains(&v6) => Ipv4Addr::new(e, f, g, h).into(),
        None => address,
    }
}

/// Returns why an address is no public one.
fn refusal(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(v4) => REFUSED_V4.iter().find(|(network, _)| network.contains(&v4)).map(|(_, kind)| *kind),
        IpAddr::V6(v6) if v6.is_loopback() => Some("loopback"),
        IpAddr::V6(v6) if v6.is_multicast() => Some("multicast"),
        IpAddr::V6(v6) if !PUBLIC_V6.contains(&v6) => Some("private, link-local or reserved"),
        IpAddr::V6(v6) => REFUSED_V6.iter().find(|(network, _)| network.contains(&v6)).map(|(_, kind)| *kind),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(allowed: &[&str], address: &str) -> Result<(), RefusedAddress> {
        AllowedNetworks::new(allowed).unwrap().check(address.parse().unwrap())
    }

    #[test]
    fn address_that_is_not_public_is_refused_in_each_form() {
        let v4 = [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "168.63.129.16",
        ];
        for address in v4 {
            let octets = address.parse::<Ipv4Addr>().unwrap().octets();
            let [a, b, c, d] = octets;
            let six_to_four = format!("2002:{a:02x}{b:02x}:{c:02x}{d:02x}::1");
            for form in [address.to_owned(), format!("::ffff:{address}"), format!("64:ff9b::{address}"), six_to_four] {
                assert!(check(&[], &form).is_err(), "{form}");
            }
            assert!(check(&[], &format!("::{address}")).is_err(), "the compatible form of {address}");
        }
        let v6 = [
            "::",
            "::1",
            "fe80::1",
            "febf::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "2001:db8::1",
            "3fff::1",
            "2001::1",
            "2001:2::1",
            "2001:10::1",
            "64:ff9b:1::1",
            "100::1",
            "fec0::1",
            "5f00::1",
        ];
        for address in v6 {
            assert!(check(&[], address).is_err(), "{address}");
        }
    }

    #[test]
    fn public_address_passes() {
        for address in
            ["1.1.1.1", "100.128.0.1", "172.32.0.1", "9.255.255.255", "11.0.0.0", "198.20.0.1", "168.63.129.17"]
        {
            assert_eq!(check(&[], address), Ok(()), "{address}");
            assert_eq!(check(&[], &format!("::ffff:{address}")), Ok(()), "{address}");
            assert_eq!(check(&[], &format!("64:ff9b::{address}")), Ok(()), "{address}");
        }
        for address in ["2606:4700:4700::1111", "2001:4860:4860::8888", "2a00::1", "2002:0808:0808::1"] {
            assert_eq!(check(&[], address), Ok(()), "{address}");
        }
    }

    #[test]
    fn program_allows_networks() {
        assert_eq!(check(&["10.0.0.0/8"], "10.1.2.3"), Ok(()));
        assert_eq!(check(&["10.0.0.0/8"], "::ffff:10.1.2.3"), Ok(()));
        assert!(check(&["10.0.0.0/8"], "192.168.0.1").is_err());
        assert_eq!(check(&["fd00:1::/32"], "fd00:1::7"), Ok(()));
        assert!(check(&["fd00:1::/32"], "fd00:2::7").is_err());
    }
}
