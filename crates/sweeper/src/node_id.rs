//! The id of a node: unique per start, because a reused name would make an old lease look like one of this process.

/// Returns `name-pid-random`, at most 200 bytes.
pub(crate) fn node_id(name: Option<&str>) -> String {
    let host = || gethostname::gethostname().to_string_lossy().into_owned();
    let name = name.map_or_else(host, str::to_owned).replace('\0', "");
    let name: String = name.chars().take(40).collect();
    format!("{name}-{}-{:08x}", std::process::id(), fastrand::u32(..))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_starts_have_two_ids() {
        let (one, two) = (node_id(Some("node")), node_id(Some("node")));
        assert!(one != two && one.starts_with("node-"), "{one} {two}");
    }
}
