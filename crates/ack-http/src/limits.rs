//! How many requests are accepted: of each peer, and in this process. The numbers are those of [`crate::AckRouter`].

use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use governor::clock::{Clock, MonotonicClock};
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::HashMapStateStore;
use governor::state::{InMemoryState, NotKeyed};
use governor::{NotUntil, Quota, RateLimiter};

type Limiter<K, S, C> = RateLimiter<K, S, C, NoOpMiddleware<<C as Clock>::Instant>>;

/// Limits per second. A second's requests may come at once.
pub(crate) struct Limits<C: Clock = MonotonicClock> {
    process: Option<Limiter<NotKeyed, InMemoryState, C>>,
    peers: Option<Limiter<IpAddr, HashMapStateStore<IpAddr>, C>>,
    clock: C,
    /// Requests of peers since the process began.
    requests: AtomicU32,
}

/// Peers that have not called for a while are forgotten each time after this many requests.
const REQUESTS_PER_CLEANING: u32 = 1024;

impl<C: Clock + Clone> Limits<C> {
    /// Creates limits; 0 means none.
    pub(crate) fn new(per_process: u32, per_peer: u32, clock: C) -> Self {
        let quota = |limit| NonZeroU32::new(limit).map(Quota::per_second);
        Self {
            process: quota(per_process).map(|quota| RateLimiter::direct_with_clock(quota, clock.clone())),
            peers: quota(per_peer).map(|quota| RateLimiter::hashmap_with_clock(quota, clock.clone())),
            clock,
            requests: AtomicU32::new(0),
        }
    }

    /// Counts a request that calls the store.
    ///
    /// # Errors
    /// The time to wait.
    pub(crate) fn check_process(&self) -> Result<(), Duration> {
        self.process.as_ref().map_or(Ok(()), |limiter| limiter.check().map_err(|until| self.wait(&until)))
    }

    /// Counts a request of a peer.
    ///
    /// # Errors
    /// The time to wait.
    pub(crate) fn check_peer(&self, peer: IpAddr) -> Result<(), Duration> {
        let Some(limiter) = &self.peers else {
            return Ok(());
        };
        if self.requests.fetch_add(1, Ordering::Relaxed) % REQUESTS_PER_CLEANING == REQUESTS_PER_CLEANING - 1 {
            limiter.retain_recent();
            limiter.shrink_to_fit();
        }
        limiter.check_key(&network(peer)).map_err(|until| self.wait(&until))
    }

    fn wait(&self, until: &NotUntil<C::Instant>) -> Duration {
        until.wait_time_from(self.clock.now())
    }
}

/// Returns what one peer has: an IPv4 address, or the /64 network of an IPv6 address.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) >> 64 << 64).into(),
        address => address,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use governor::clock::FakeRelativeClock;

    use super::*;

    fn peer(address: &str) -> IpAddr {
        address.parse().unwrap()
    }

    #[test]
    fn process_and_each_peer_have_their_own_limit() {
        let clock = FakeRelativeClock::default();
        let limits = Limits::new(3, 2, clock.clone());
        for _ in 0..3 {
            assert_eq!(limits.check_process(), Ok(()));
        }
        assert!(limits.check_process().is_err());
        for _ in 0..2 {
            assert_eq!(limits.check_peer(peer("192.0.2.1")), Ok(()));
        }
        assert_eq!(limits.check_peer(peer("192.0.2.1")), Err(Duration::from_millis(500)));
        assert_eq!(limits.check_peer(peer("192.0.2.2")), Ok(()), "another peer");
        clock.advance(Duration::from_millis(500));
        assert_eq!(limits.check_peer(peer("192.0.2.1")), Ok(()));
        assert!(limits.check_peer(peer("192.0.2.1")).is_err());
        assert_eq!(limits.check_process(), Ok(()));
    }

    #[test]
    fn addresses_of_one_peer_share_its_limit() {
        let limits = Limits::new(0, 1, FakeRelativeClock::default());
        assert_eq!(limits.check_peer(peer("2001:db8::1")), Ok(()));
        assert!(limits.check_peer(peer("2001:db8::ffff:2")).is_err(), "the same /64");
        assert_eq!(limits.check_peer(peer("2001:db8:0:1::1")), Ok(()));
        assert_eq!(limits.check_peer(peer("192.0.2.1")), Ok(()));
        assert!(limits.check_peer(peer("::ffff:192.0.2.1")).is_err(), "the same IPv4 address");
    }

    #[test]
    fn limit_0_is_none() {
        let limits = Limits::new(0, 0, FakeRelativeClock::default());
        assert!((0..10_000).all(|_| limits.check_process().is_ok() && limits.check_peer(peer("192.0.2.1")).is_ok()));
    }

    #[test]
    fn peers_are_forgotten_when_they_no_longer_matter() {
        let clock = FakeRelativeClock::default();
        let limits = Limits::new(0, 1, clock.clone());
        for number in 0..3 * REQUESTS_PER_CLEANING {
            assert_eq!(limits.check_peer(std::net::Ipv4Addr::from(number).into()), Ok(()));
            clock.advance(Duration::from_millis(10));
        }
        let known = limits.peers.unwrap().len();
        assert!(known < 2 * REQUESTS_PER_CLEANING as usize, "{known}");
    }
}
