//! Whether acks can be stored, by the checks of them.

use super::*;

#[tokio::test(start_paused = true)]
async fn outage_of_acks_alone_lasts_until_they_are_checked_again() {
    let health = Health::new(Duration::ZERO, Duration::ZERO);
    assert_eq!(health.no_acks().as_deref(), Some("it starts"));
    health.checked_acks(Ok(()));
    assert_eq!(health.no_acks(), None);
    health.checked_acks(Err(StoreError::new("checking acks", FaultKind::Outage, "one master is gone")));
    assert_eq!(health.no_acks().as_deref(), Some("the database does not answer"));
    // A beat reaches another master.
    health.recovered(Duration::ZERO);
    assert!(health.no_acks().is_some_and(|why| why.contains("one master is gone")));
    health.checked_acks(Ok(()));
    assert_eq!(health.no_acks(), None);
}

#[tokio::test(start_paused = true)]
async fn acks_that_a_lock_stops_are_missed_at_the_second_check() {
    let health = Health::new(Duration::ZERO, Duration::ZERO);
    let locked = || Err(StoreError::new("checking acks", FaultKind::Slow, "a lock"));
    health.checked_acks(Ok(()));
    assert!(!health.doubts_acks());
    health.checked_acks(locked());
    assert!(health.no_acks().is_none() && health.doubts_acks());
    health.checked_acks(locked());
    assert!(health.no_acks().is_some_and(|why| why.contains("does not store acks")));
    health.checked_acks(Ok(()));
    assert!(health.no_acks().is_none() && !health.doubts_acks());
    health.writes();
    assert!(!health.doubts_acks());
    tokio::time::advance(BEAT / 2).await;
    assert!(health.doubts_acks(), "outcomes take long");
    health.wrote(&[], None);
    assert!(!health.doubts_acks());
    let error = locked().unwrap_err();
    health.claimed(Some(&error));
    assert!(health.doubts_acks() && health.not_sending(Duration::ZERO).is_none());
    tokio::time::advance(ROUND + 2 * BEAT).await;
    health.sweeps();
    health.claimed(Some(&error));
    assert_eq!(health.not_sending(Duration::ZERO), None);
    tokio::time::advance(Duration::from_millis(1)).await;
    assert!(health.not_sending(Duration::ZERO).is_some_and(|why| why.contains("nothing could be claimed for 20 s")));
    health.claimed(None);
    assert!(!health.doubts_acks() && health.not_sending(Duration::ZERO).is_none());
}
