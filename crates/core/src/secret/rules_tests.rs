//! Which secrets rows may use: rules, the default, and where files are read.

use super::*;
use crate::secret::ExposeSecret;

fn reference(text: &str) -> SecretRef {
    text.parse().unwrap()
}

fn rule(pattern: &str) -> SecretRule {
    SecretRule::new(pattern).unwrap()
}

#[test]
fn rows_may_use_what_a_rule_names_for_their_definition_and_host() {
    let (later, unknown) = (Destination::Later, Destination::Unknown);
    let pay = rule("env:PAY_*").definitions(["pay", "pay/*"]).hosts(["API.pay.example", "*.eu.pay.example"]);
    let rules = SecretRules::none().allow(pay).allow(rule("env:ERP_KEY")).allow(rule("file:/srv/keys/"));
    let may = |definition: &str, text: &str, to| rules.check(definition, &reference(text), to).is_ok();
    for (definition, text, to, expected) in [
        ("pay", "env:PAY_KEY", later, true),
        ("pay/card", "env:PAY_KEY", Destination::Host("api.pay.EXAMPLE"), true),
        ("pay/card", "env:PAY_KEY", Destination::Host("a.eu.pay.example"), true),
        ("pay/card", "env:PAY_KEY", Destination::Host("eu.pay.example"), false),
        ("pay/card", "env:PAY_KEY", Destination::Host("x-api.pay.example"), false),
        ("pay/card", "env:PAY_KEY", unknown, false),
        ("payroll", "env:PAY_KEY", later, false),
        ("order", "env:ERP_KEY", unknown, true),
        ("order", "env:ERP_KEY2", later, false),
        ("order", "env:PATH", later, false),
        ("order", "file:/srv/keys/a/b", unknown, true),
        ("order", "file:/srv/keys", later, false),
        ("order", "file:/srv/keys/../x", later, false),
        ("order", "file:/srv/keys-too/a", later, false),
    ] {
        assert_eq!(may(definition, text, to), expected, "{definition} {text} {to:?}");
    }
    let refused = rules.check("order", &reference("env:PATH"), later).unwrap_err().to_string();
    assert!(refused.contains("\"env:PATH\"") && refused.contains("--allow-secret env:PATH"), "{refused}");
}

#[test]
fn default_is_variables_of_our_own_and_one_folder() {
    for (given, folder) in [
        (None, FOLDER),
        (Some("/run/credentials/notify.service"), "/run/credentials/notify.service"),
        (Some(""), FOLDER),
        (Some("credentials"), FOLDER),
        (Some("/run/../etc"), FOLDER),
    ] {
        let rules = SecretRules::by_default(given.map(OsString::from));
        let may = |text: &str| rules.check("order", &reference(text), Destination::Unknown).is_ok();
        assert!(may("env:NOTIFY_SECRET_ERP") && !may("env:HOME") && !may("file:/etc/passwd"), "{given:?}");
        assert!(may(&format!("file:{folder}/erp")) && !may(&format!("file:{folder}")), "{given:?}");
    }
}

#[test]
fn rule_with_limits_takes_its_secrets_out_of_the_default() {
    let pay = rule("env:NOTIFY_SECRET_PAY").definitions(["pay/*"]).hosts(["api.pay.example"]);
    let shop = rule("env:NOTIFY_SECRET_SHOP");
    let rules = SecretRules::by_default(None).allow(pay).allow(shop);
    let may = |definition: &str, text: &str, to| rules.check(definition, &reference(text), to).is_ok();
    let (right, wrong) = (Destination::Host("api.pay.example"), Destination::Host("evil.example"));
    for (definition, text, to, expected) in [
        ("pay/card", "env:NOTIFY_SECRET_PAY", right, true),
        ("pay/card", "env:NOTIFY_SECRET_PAY", wrong, false),
        ("order", "env:NOTIFY_SECRET_PAY", right, false),
        ("order", "env:NOTIFY_SECRET_PAY", Destination::Later, false),
        ("order", "env:NOTIFY_SECRET_PAY2", wrong, true),
        ("order", "env:NOTIFY_SECRET_SHOP", wrong, true),
    ] {
        assert_eq!(may(definition, text, to), expected, "{definition} {text} {to:?}");
    }
    let refused = rules.check("pay/card", &reference("env:NOTIFY_SECRET_PAY"), wrong).unwrap_err().to_string();
    assert!(refused.contains("not for \"evil.example\"; to allow it, add the host: "), "{refused}");
}

#[test]
fn wrong_patterns_are_refused() {
    for pattern in ["", "PATH", "env:", "file:keys/", "file:/a/../b", "file:/a*", "https://x"] {
        assert!(
            SecretRule::new(pattern).is_err_and(|problem| problem.to_string().contains("file:/folder/")),
            "{pattern}"
        );
    }
    for pattern in ["env:A", "env:A_*", "file:/a/b", "file:/a/"] {
        assert_eq!(rule(pattern).to_string(), pattern);
    }
    assert_eq!(rule("file:/a/*"), rule("file:/a/"));
}

#[test]
#[cfg(unix)]
fn file_is_read_where_its_links_end_and_no_secret_of_the_program_is() {
    let root = std::env::temp_dir().join(format!("secret-rules-{}", std::process::id()));
    let folder = root.join("allowed");
    std::fs::create_dir_all(folder.join("..data")).unwrap();
    std::fs::write(folder.join("..data/erp"), "key\n").unwrap();
    std::fs::write(folder.join("password"), "own").unwrap();
    std::fs::write(root.join("outside"), "outside").unwrap();
    std::fs::write(folder.join("large"), "x".repeat(FILE_LIMIT + 1)).unwrap();
    let link = |from: &str, to: PathBuf| std::os::unix::fs::symlink(to, folder.join(from)).unwrap();
    // As Kubernetes mounts a secret.
    link("erp", "..data/erp".into());
    link("out", root.join("outside"));
    link("own", folder.join("password"));
    let of = |name: &str| reference(&format!("file:{}", folder.join(name).display()));
    let rules = SecretRules::none().allow(rule(&format!("file:{}/", folder.display()))).keep(of("password"));
    let read = |name: &str| {
        let allowing = rules.allowing("order", &of(name), Destination::Unknown)?;
        rules.read(&of(name), &allowing)
    };
    let read = |name: &str| read(name).map_err(|error: SecretError| error.to_string());
    assert_eq!(read("erp").unwrap().expose_secret(), "key");
    for (name, problem) in [
        ("out", "leads out of the folder that the program allows; to allow it, name the file where it ends"),
        ("own", "of the program itself"),
        ("password", "of the program itself"),
        ("large", "more than 65536 bytes"),
        ("missing", "No such file"),
        ("..data", "no regular file"),
    ] {
        let error = read(name).unwrap_err();
        assert!(error.contains(problem) && error.contains(&format!("/{name}\"")), "{name}: {error}");
    }
    // A limit holds for each path to the file.
    let limited =
        SecretRules::by_default(Some(folder.clone().into())).allow(rule(&of("erp").to_string()).definitions(["pay"]));
    let read = |definition: &str, name: &str| {
        let allowing = limited.allowing(definition, &of(name), Destination::Unknown)?;
        limited.read(&of(name), &allowing).map(|secret| secret.expose_secret().to_owned())
    };
    assert_eq!(read("pay", "erp").unwrap(), "key");
    assert!(read("order", "erp").is_err());
    let around = read("order", "..data/erp").unwrap_err().to_string();
    assert!(around.contains("name the file as the rule does"), "{around}");
    assert_eq!(read("order", "password").unwrap(), "own");
    std::fs::remove_dir_all(&root).unwrap();
}

#[test]
fn address_of_ipv6_is_the_same_host_in_each_form() {
    for pattern in ["::1", "[::1]", "0:0:0:0:0:0:0:1"] {
        assert!(is_host(pattern, "::1") && is_host(pattern, "[::1]"), "{pattern}");
        assert!(!is_host(pattern, "[::2]") && !is_host(pattern, "1.1.1.1") && !is_host(pattern, "::1.example.org"));
    }
}
