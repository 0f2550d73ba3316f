//! `-validate`: every error and every remark, with its place, and nothing opened.

use std::net::TcpListener;

use crate::support::{Ended, run_to_end, scratch};

fn validate(corefile: &str) -> Ended {
    let scratch = scratch();
    scratch.write("Corefile", corefile);
    run_to_end(scratch.path(), &["-conf", "Corefile", "-validate"], "")
}

fn lines(ended: &Ended, level: &str) -> Vec<String> {
    ended.stdout.lines().filter(|line| line.starts_with(level)).map(str::to_owned).collect()
}

#[test]
fn all_errors_are_reported_with_place_and_remedy() {
    let ended = validate(
        "a.test:0 {\n    nonsense\n    bufsize 1\n    whoami\n}\n\
         b.test:0 {\n    bind nowhere\n    timeouts\n    whoami\n}\n\
         a.test:0 {\n    whoami\n}\n",
    );
    let errors = lines(&ended, "[ERROR]");
    for (place, text) in [
        ("Corefile:2", "Unknown directive 'nonsense'"),
        ("Corefile:3", "plugin/bufsize: "),
        ("Corefile:7", "plugin/bind: "),
        ("Corefile:8", "plugin/timeouts: "),
        ("Corefile:11", "cannot serve dns://a.test.:0 - it is already defined"),
    ] {
        let found = errors.iter().any(|line| line.contains(place) && line.contains(text));
        assert!(found, "{place} {text}: {errors:#?}");
    }
    assert_eq!(errors.len(), 5, "{errors:#?}");
    assert_eq!(ended.stdout.lines().last(), Some("5 errors, 0 warnings"));
    assert_eq!(ended.code, Some(1));
}

#[test]
fn remarks() {
    let table: &[(&str, &[&str])] = &[
        (".:0 {\n    whoami\n}\n", &[]),
        ("import nothing/*.conf\n.:0 {\n    whoami\n}\n", &["No files matching import glob pattern: "]),
        ("a.test:0 {\n}\n", &["no plugin in this block answers: all of its queries are REFUSED (Corefile:1); "]),
        (
            "a.test:0 {\n    whoami\n}\nb.test:0 {\n    multisocket 3\n    whoami\n}\n",
            &[
                "multisocket counts for nothing here: the block of line 1 is the first of the same listener (Corefile:4); ",
            ],
        ),
        ("a.test:0 {\n    multisocket 3\n    whoami\n}\nb.test:0 {\n    multisocket 3\n    whoami\n}\n", &[]),
        (
            "a.test:0 {\n    timeouts {\n        read 2s\n    }\n    whoami\n}\n\
             b.test:0 {\n    timeouts {\n        read 5s\n    }\n    whoami\n}\n",
            &[
                "timeouts of this block count for nothing where the block of line 7, which shares its listener, has others (Corefile:1); ",
            ],
        ),
        (
            "a.test:5300 {\n    bind 127.0.0.1\n    whoami\n}\nb.test:5300 {\n    whoami\n}\n",
            &[
                "this block gets no query sent to 127.0.0.1:5300: the block of line 1 is bound to that address on the same port (Corefile:5); ",
            ],
        ),
        (
            ".:0 {\n    bind 127.0.0.1 {\n        except 127.0.0.1\n    }\n    whoami\n}\n",
            &["plugin/bind: no address is left to listen on: this server block answers nothing (Corefile:4)"],
        ),
    ];
    for (corefile, wanted) in table {
        let ended = validate(corefile);
        let warnings = lines(&ended, "[WARNING]");
        assert_eq!(warnings.len(), wanted.len(), "{corefile}: {ended:?}");
        for text in *wanted {
            assert!(warnings.iter().any(|line| line.contains(text)), "{text}: {ended:?}");
        }
        assert!(warnings.iter().all(|line| line.contains("Corefile:")), "each has its place: {ended:?}");
        assert_eq!(ended.code, Some(0), "{corefile}: {ended:?}");
    }
}

#[test]
fn nothing_is_opened() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("bound").port();
    let ended = validate(&format!(".:{port} {{\n    bind 127.0.0.1\n    whoami\n}}\n"));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "0 errors, 0 warnings\n"));
}

#[test]
fn a_file_that_cannot_be_read_is_one_line() {
    let ended = run_to_end(scratch().path(), &["-validate", "-conf", "missing"], "");
    assert_eq!(ended.stderr, "loading Caddyfile via flag: open missing: no such file or directory\n");
    assert_eq!(ended.code, Some(1));
}
