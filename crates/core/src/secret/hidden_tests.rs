//! Tests of which spellings of a secret are removed, and of what bounds the work.

use super::*;

fn hidden(secret: &str) -> Hidden {
    Hidden::of([&SecretString::from(secret)])
}

#[test]
fn secret_is_removed_in_each_spelling() {
    for (secret, spellings) in [
        (
            "AbC/d",
            &[
                "AbC/d",
                r"AbC\/d",
                "AbC%2fd",
                "AbC%2Fd",
                "%41bC%2fd",
                r"AbC\u002Fd",
                r"\u0041bC/d",
                "AbC%2f%64",
                r"AbC\\\/d",
                r"AbC\\u002fd",
                r"\x41bC/\x64",
                "AbC%252fd",
                "AbC\r\n/d",
                "AbC&#x2F;d",
                "AbC&#47;d",
                "AbC&#0047;d",
                "AbC&#X002f;d",
                "AbC&sol;d",
                "&#65;bC&#x2f;&#100;",
                "AbC&amp;#x2f;d",
            ][..],
        ),
        (
            "k/ey \"ü\" 7+",
            &[
                r#"k\/ey \"\u00fc\" 7+"#,
                r#"k/ey \"\u00FC\" 7\u002B"#,
                r#"k/ey \u0022ü\u0022 7\u002b"#,
                "k%2Fey+%22%C3%BC%22+7%2B",
                "k%2fey%20%22%c3%bc%22%207%2b",
                "k/ey &quot;ü&quot; 7+",
                "k/ey &#34;&uuml;&#34; 7&plus;",
                "k/ey &QUOT;&#xFC;&QUOT; 7&#43;",
                r#"k/ey "\xc3\xbc" 7+"#,
            ],
        ),
        (
            "a~!*'()&<>b",
            &[
                "a~!*'()&<>b",
                r"a~!*'()\u0026\u003c\u003Eb",
                "a%7E%21%2A%27%28%29%26%3C%3Eb",
                "a~!*&#39;()&amp;&lt;&gt;b",
                "a~!*&apos;()&#38;&#60;&#62;b",
                "a~!*&#x27;()&AMP;&LT;&GT;b",
            ],
        ),
        ("100%25\\n", &["100%25\\n", "100%2525\\\\n", "100%2525%5Cn"]),
        ("a\\u0041b", &["a\\u0041b", "a\\\\u0041b", "a%5Cu0041b"]),
        (
            "😀k\ney",
            &[r"\ud83d\uDE00k\ney", "%F0%9F%98%80k%0aey", "😀k\ney", "&#128512;k\ney", "&#x1F600;k&NewLine;ey"],
        ),
        ("whsec_MfKQ9r8GKYqrTwjU", &["whsec_MfKQ9r8GKYqrTwjU", "MfKQ9r8GKYqrTwjU", "MfKQ9r8G%4bYqrTwjU"]),
    ] {
        for spelling in spellings {
            let cleaned = hidden(secret).clean(&format!("before {spelling} behind"));
            assert_eq!(cleaned, "before … behind", "{spelling}");
        }
    }
}

#[test]
fn secret_is_removed_from_base64_wherever_it_stands_in_it() {
    let secret = "s3cret?>of ~mine";
    // What `base64` prints for the secret behind none, one, two and three bytes, and the form for URLs.
    for (encoded, left) in [
        ("czNjcmV0Pz5vZiB+bWluZQ==", "…Q=="),
        ("OnMzY3JldD8+b2Ygfm1pbmU=", "On…U="),
        ("YTpzM2NyZXQ/Pm9mIH5taW5l", "YTp…"),
        ("YTpzM2NyZXQ_Pm9mIH5taW5l", "YTp…"),
        ("YTpzM2NyZXQ%2FPm9mIH5taW5l", "YTp…"),
        ("YTpzM2NyZXQ\\/Pm9mIH5taW5l", "YTp…"),
        ("YTpzM2Ny\r\nZXQ/Pm9m\nIH5taW5l", "YTp…"),
        ("YTpzM2Ny\\nZXQ&#x2F;Pm9mIH5taW5l", "YTp…"),
    ] {
        assert_eq!(hidden(secret).clean(encoded), left, "{encoded}");
    }
    // Behind `user:`, in lines of 76 and of 64 characters.
    let secret =
        "a-long-t0ken-with-more-bytes-than-a-piece-has-and-than-a-line-of-base64-has-so-it-is-in-3-lines-0123456789";
    let encoded = "dXNlcjphLWxvbmctdDBrZW4td2l0aC1tb3JlLWJ5dGVzLXRoYW4tYS1waWVjZS1oYXMtYW5kLXRoYW4tYS1saW5lLW9mLWJhc2U2NC1oYXMt\
                   c28taXQtaXMtaW4tMy1saW5lcy0wMTIzNDU2Nzg5";
    for length in [76, 64, encoded.len()] {
        let lines: Vec<_> = encoded.as_bytes().chunks(length).map(|line| str::from_utf8(line).unwrap()).collect();
        assert_eq!(hidden(secret).clean(&lines.join("\n")), "dXNlcjp…", "{length}");
    }
}

#[test]
fn other_texts_stay_as_they_are() {
    let hidden = Hidden::of([&SecretString::from("AbC/d"), &SecretString::from("")]);
    for text in ["", "abc/d", "AbC/", "AbC%2", "AbC\\u002", "100 % of \\ & +", "ü", "&lt; line\n"] {
        assert_eq!(hidden.clean(text), text);
    }
}

#[test]
fn secret_of_less_than_four_bytes_stays() {
    let text = "the broker at host says: p@ss";
    assert_eq!(hidden("amqp://u:p@host").clean(text), text);
    assert_eq!(hidden("the").clean(text), text);
    assert_eq!(hidden("p@ss").clean(text), "the broker at host says: …");
    // It has three without the escapes.
    assert_eq!(hidden("%70%40s").clean("p@s"), "p@s");
}

#[test]
fn parts_of_urls_and_lines_of_keys_are_secrets() {
    let url = "https://chat.example/hook/T0KEN-IN-PATH?access_token=t0ken-in%2Fquery&v=1";
    let text = "no hook T0KEN-IN-PATH with t0ken-in/query at chat.example, code 1";
    assert_eq!(hidden(url).clean(text), "no hook … with … at chat.example, code 1");
    for (secret, text, left) in [
        ("amqp://shop:p%40ss@host/v", "shop: p@ss, p%40ss", "shop: …, …"),
        ("nats://a:word@x, nats://t0ken@y,b:other@z", "word or t0ken or other or a", "… or … or … or a"),
        ("redis://u:pa,ssw0rd@h", "no pa,ssw0rd", "no …"),
        ("https://x.example/hook?S3CRETTOKENQ", "no S3CRETTOKENQ", "no …"),
        ("https://x.example/hook#S3CRETTOKENQ", "no S3CRETTOKENQ", "no …"),
        ("https://api.example/bot123456:ABCDEFGH/send", "no 123456:ABCDEFGH", "no 123456:…"),
    ] {
        assert_eq!(hidden(secret).clean(text), left, "{secret}");
    }
    let key = "-----BEGIN X-----\nSUAMLK2ZNL35WSMW37E7UD4VZ7ELPKW7DHC3BWBSD2GCZ7IUQQXZIORRBU\nshort\n-----END X-----";
    assert_eq!(hidden(key).clean("SUAMLK2ZNL35WSMW37E7UD4VZ7ELPKW7DHC3BWBSD2GCZ7IUQQXZIORRBU"), "…");
    assert_eq!(hidden(key).clean(&key.replace('\n', "\\n")), "…");
}

#[test]
fn beginning_of_a_secret_at_the_cut_is_removed() {
    let hidden = hidden("t0ken/ofü");
    for (cut, left) in [
        ("no t0k", "no …"),
        ("no t0ken%2", "no …"),
        ("no t0ken\\u00", "no …"),
        ("no t0ken&#x0", "no …"),
        ("no t0ken%2Fof%C3", "no …"),
        ("no dDBrZW4vb2", "no …"),
        ("no token", "no token"),
        ("no token%2", "no token%2"),
        ("t0ken/ofü x", "… x"),
    ] {
        assert_eq!(hidden.clean_beginning(cut), left, "{cut}");
    }
    assert_eq!(hidden.clean("no t0k"), "no t0k");
}

#[test]
fn long_text_is_cut_before_it_is_searched() {
    for secret in ["t0ken-of-mine", "ü-t0ken-of-mine-with-more-bytes-than-a-piece-has-and-than-an-overlap-has-0123"] {
        let hidden = hidden(secret);
        for padding in (0..secret.len() + 10).step_by(7) {
            let text = "x".repeat(SEARCHED - padding) + secret + &"y".repeat(100_000);
            let cleaned = hidden.clean(&text);
            assert!(cleaned.len() <= SEARCHED + MARK.len_utf8());
            assert!(
                cleaned.trim_start_matches('x').trim_end_matches('y').chars().all(|letter| letter == MARK),
                "{padding}"
            );
        }
    }
    assert_eq!(Hidden::default().clean(&"ü".repeat(SEARCHED)).len(), SEARCHED);
}

#[test]
fn text_is_not_shown_if_the_secrets_are_too_large() {
    let secrets: Vec<_> = (0..3000).map(|number| SecretString::from(format!("t0ken-of-mine-{number}"))).collect();
    let hidden = Hidden::of(&secrets);
    assert_eq!(hidden.clean("no t0ken-of-mine-7"), UNSEARCHED);
    assert_eq!(hidden.clean("no"), "no");
}

#[test]
fn automaton_is_made_for_the_first_text_with_secrets() {
    let hidden = hidden("t0ken-of-mine");
    assert_eq!((hidden.clean(""), hidden.clean("ok")), (String::new(), "ok".to_owned()));
    assert!(hidden.search.get().is_none());
    assert_eq!(hidden.clean("stored"), "stored");
    assert!(hidden.search.get().is_some());
    assert!(Hidden::default().search.get().is_none());
}
