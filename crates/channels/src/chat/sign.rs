//! The signature that DingTalk and Feishu require: HMAC-SHA256 as Base64. Each of them chooses the key and the message.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Utc};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

pub(super) fn signature(key: &str, message: &str) -> String {
    match Hmac::<Sha256>::new_from_slice(key.as_bytes()) {
        Ok(mut mac) => {
            mac.update(message.as_bytes());
            STANDARD.encode(mac.finalize().into_bytes())
        }
        // Not reachable: HMAC takes keys of any length (RFC 2104).
        Err(_) => String::new(),
    }
}

pub(super) fn since_1970(now: DateTime<Utc>) -> Duration {
    (now - DateTime::UNIX_EPOCH).to_std().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_that_of_the_standards_example() {
        // RFC 4231, test case 2, as Base64.
        let hex = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        let bytes: Vec<u8> = (0..64).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
        let got = signature("Jefe", "what do ya want for nothing?");
        assert_eq!(got, STANDARD.encode(bytes));
    }
}
