use std::cell::Cell;
use std::io::Read;

use super::super::super::object::{Address, Service};
use super::super::super::selector::Selector;
use super::super::read::{Format, Problem, read};
use super::*;

/// Kinds and names in a text, or what is wrong with it.
fn names(text: &str, format: Format) -> Result<(Vec<String>, u64), Problem> {
    let mut names = Vec::new();
    let skipped = read(text.as_bytes(), format, &mut |kind, raw| {
        names.push(format!("{} {}", kind.as_str(), raw.metadata.0.name.0));
        Ok(())
    })?;
    Ok((names, skipped))
}

const A: &str = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n";
const B: &str = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: b\n";

#[test]
fn documents_are_told_apart() {
    let both = ["Service a", "Namespace b"];
    let texts = [
        format!("{A}---\n{B}"),
        format!("---\n{A}---\n{B}---\n"),
        format!("# comment\n---\n---\n# Source: x\n---\n{A}---   # next\n\n{B}...\n"),
        format!("%YAML 1.2\n---\n{A}...\n%YAML 1.2\n---\n{B}"),
        format!("{A}---\r\n{B}").replace('\n', "\r\n").replace("\r\r", "\r"),
        format!("--- {{apiVersion: v1, kind: Service, metadata: {{name: a}}}}\n---\n{B}"),
        format!("\u{feff}{A}---\n{B}"),
        format!("{A}---\n{B}").trim_end().to_owned(),
        format!("{A}text: |\n  ---\n  x\n  ---x\n---\n{B}"),
        format!(
            "{A}---\napiVersion: apps/v1\nkind: Deployment\nspec: {{selector: {{matchLabels: {{a: b}}}}, ports: 3}}\n---\n{B}"
        ),
    ];
    for text in texts {
        let (found, _) = names(&text, Format::Yaml).unwrap_or_else(|problem| panic!("{text}\n{problem:?}"));
        assert_eq!(found, both, "{text}");
    }
    for nothing in ["", "\n\n", "# only\n", "---\n", "---\n---\n...\n", "{}\n"] {
        assert_eq!(names(nothing, Format::Yaml), Ok((Vec::new(), 0)), "{nothing:?}");
    }
    let json = r#"{"kind":"Service","apiVersion":"v1","metadata":{"name":"a"}} {"apiVersion":"v1","metadata":{"name":"b"},"kind":"Namespace"}"#;
    assert_eq!(names(json, Format::Json), Ok((both.map(str::to_owned).to_vec(), 0)));
    assert_eq!(names(" \n", Format::Json), Ok((Vec::new(), 0)));
}

#[test]
fn lists_are_opened() {
    let item = |kind: &str, name: &str| {
        format!(r#"{{"apiVersion": "v1", "kind": "{kind}", "metadata": {{"name": "{name}"}}}}"#)
    };
    let (a, b, c) = (item("Service", "a"), item("Namespace", "b"), item("ConfigMap", "c"));
    let list = format!(r#"{{"apiVersion": "v1", "items": [{a}, {b}, {c}], "kind": "List", "metadata": {{}}}}"#);
    let both = (vec!["Service a".to_owned(), "Namespace b".to_owned()], 1);
    assert_eq!(names(&list, Format::Yaml), Ok(both.clone()));
    assert_eq!(names(&list, Format::Json), Ok(both.clone()));
    let block = "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Service\n  metadata:\n    name: a\n- metadata:\n    name: b\n  kind: Namespace\n  apiVersion: v1\n- {apiVersion: v1, kind: X}\nkind: List\n";
    assert_eq!(names(block, Format::Yaml), Ok(both));

    let typed = "apiVersion: v1\nkind: ServiceList\nitems:\n- metadata: {name: a}\n- metadata: {name: c}\n";
    assert_eq!(names(typed, Format::Yaml), Ok((vec!["Service a".to_owned(), "Service c".to_owned()], 0)));
    let slices =
        "apiVersion: discovery.k8s.io/v1\nkind: EndpointSliceList\nitems: [{metadata: {name: s}, endpoints: []}]\n";
    assert_eq!(names(slices, Format::Yaml), Ok((vec!["EndpointSlice s".to_owned()], 0)));
    for empty in ["{apiVersion: v1, kind: List, items: []}", "{apiVersion: v1, kind: List, items: null}"] {
        assert_eq!(names(empty, Format::Yaml), Ok((Vec::new(), 0)));
    }
    let others = "apiVersion: apps/v1\nkind: DeploymentList\nitems: [{metadata: {name: x}}]\n---\napiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: k}\n";
    assert_eq!(names(others, Format::Yaml), Ok((Vec::new(), 2)));
}

#[test]
fn odd_yaml_is_survivable() {
    let cases = [
        "apiVersion: v1\nkind: Service\nmetadata: {name: a, 1: x, true: y}\nspec: {1: a, true: b, ports: [{80: 1}]}\n",
        "apiVersion: v1\nkind: Service\nmetadata: {name: a, labels: {1: x, true: y, ~: z, k: [1, {b: c}], l: !x y}}\n",
        "apiVersion: v1\nkind: Service\nmetadata: &m {name: a}\nspec: {<<: *m, selector: *m}\n",
        "apiVersion: v1\nkind: Service\nmetadata:\n  <<: {name: a}\n",
        "apiVersion: \"v1\"\nkind: !!str Service\nmetadata: {name: \"a\"}\nspec: {x: .nan, y: 0x1F, z: 1_000, ports: .inf}\n",
        "{\"apiVersion\": \"v1\", \"kind\": \"Service\", \"metadata\": {\"name\": \"a\", \"labels\": null}}",
        "apiVersion: v1\nkind: Service\nmetadata: {name: a, annotations: {x: \"\\0\\x07\"}}\nspec: ~\nstatus: []\n",
    ];
    for text in cases {
        assert_eq!(names(text, Format::Yaml), Ok((vec!["Service a".to_owned()], 0)), "{text}");
    }
}

#[test]
fn errors_say_line_and_remedy() {
    let deep = format!("{A}---\nx: {}{}", "[".repeat(130), "]".repeat(130));
    let aliases = format!("a: &x 1\nb:\n{}", "- *x\n".repeat(1_001));
    let cases = [
        (format!("{A}---\n{B}x: [\n"), 9, "unclosed bracket"),
        (format!("{A}---\nkind: x\nkind: y\n"), 6, "duplicate mapping key: kind; remove one of the two"),
        ("a: b: c\n".to_owned(), 1, "mapping values are not allowed"),
        (format!("{A}---\n\nmetadata: {{name: x}}\n"), 6, "kind is missing; every object needs apiVersion and kind"),
        ("kind: Service\nmetadata: {name: x}\n".to_owned(), 1, "apiVersion is missing; a Service needs one"),
        ("apiVersion: v1\nkind: Service\n".to_owned(), 1, "metadata.name is missing; give the Service a name"),
        (
            "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Service\n  metadata: {}\n".to_owned(),
            4,
            "metadata.name is missing",
        ),
        (
            "apiVersion: v1\nitems: [{metadata: {name: x}}]\nkind: ServiceList\n".to_owned(),
            1,
            "1 items say no kind and stand before the list's own; write kind: ServiceList before items",
        ),
        ("- a\n".to_owned(), 1, "expected mapping start"),
        (deep, 5, "more than 128 levels of nesting; write the document out flatter"),
        (aliases, 1_003, "more than 1000 aliases; write them out"),
    ];
    for (text, line, what) in cases {
        let problem =
            super::super::watch::with_stack(|| names(&text, Format::Yaml)).expect("a thread").expect_err(what);
        assert_eq!(problem.line, Some(line), "{problem:?}");
        assert!(problem.what.contains(what), "{problem:?} lacks {what}");
    }
    let problem = names("{\"kind\": \"Service\",\n \"apiVersion\": }", Format::Json).expect_err("not JSON");
    assert_eq!(problem, Problem { line: Some(2), what: "expected value".to_owned() });
    let nested = format!("{{\"a\": {}{}}}", "[".repeat(200), "]".repeat(200));
    assert!(names(&nested, Format::Json).is_err());
}

#[test]
fn the_greatest_depth_is_read() {
    let text =
        format!("{A}x: {}{}\n", "[".repeat(super::super::DEPTH_MAX - 1), "]".repeat(super::super::DEPTH_MAX - 1));
    let found = super::super::watch::with_stack(|| names(&text, Format::Yaml)).expect("a thread");
    assert_eq!(found, Ok((vec!["Service a".to_owned()], 0)));
    let aliases = format!("{A}a: &x 1\nb:\n{}", "- *x\n".repeat(super::super::ALIASES_MAX));
    assert_eq!(names(&aliases, Format::Yaml).map(|(names, _)| names.len()), Ok(1));
}

/// A list of endless items, counting the octets taken from it.
struct Endless<'c> {
    taken: &'c Cell<usize>,
    format: Format,
    rest: std::io::Cursor<Vec<u8>>,
    item: usize,
    items: usize,
}

impl<'c> Endless<'c> {
    fn new(format: Format, items: usize, taken: &'c Cell<usize>) -> Self {
        let head = match format {
            Format::Yaml => "apiVersion: v1\nitems:\n",
            Format::Json => "{\"apiVersion\": \"v1\", \"items\": [",
        };
        Endless { taken, format, rest: std::io::Cursor::new(head.into()), item: 0, items }
    }
}

impl Read for Endless<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.rest.read(buffer)?;
        self.taken.set(self.taken.get() + read);
        if read > 0 || self.item > self.items {
            return Ok(read);
        }
        let last = self.item == self.items;
        let text = match self.format {
            Format::Yaml if last => "kind: List\n".to_owned(),
            Format::Json if last => "], \"kind\": \"List\"}".to_owned(),
            Format::Yaml => format!("- apiVersion: v1\n  kind: Service\n  metadata:\n    name: s{}\n", self.item),
            Format::Json => {
                let comma = if self.item == 0 { "" } else { "," };
                format!(
                    "{comma}{{\"apiVersion\": \"v1\", \"kind\": \"Service\", \"metadata\": {{\"name\": \"s{}\"}}}}",
                    self.item
                )
            }
        };
        self.item += 1;
        self.rest = std::io::Cursor::new(text.into());
        self.read(buffer)
    }
}

#[test]
fn items_come_before_the_rest_is_read() {
    // Readers on the way buffer at most this much; a list is not gathered.
    const BUFFERED: usize = 64 << 10;
    for format in [Format::Yaml, Format::Json] {
        let taken = Cell::new(0);
        let (mut first, mut ahead, mut seen, mut previous) = (None, 0, 0, 0);
        let outcome = read(Endless::new(format, 8_000, &taken), format, &mut |_, _| {
            seen += 1;
            first.get_or_insert_with(|| taken.get());
            ahead = ahead.max(taken.get() - previous);
            previous = taken.get();
            Ok(())
        });
        assert_eq!((outcome, seen), (Ok(0), 8_000), "{format:?}");
        assert!(first.is_some_and(|first| first <= BUFFERED), "{format:?}: {first:?} before the first item");
        assert!(ahead <= BUFFERED, "{format:?}: {ahead} between two items");
        assert!(taken.get() > 4 * BUFFERED, "{format:?}: the list is larger than any buffer");
    }
}

#[test]
fn large_states_come_in_batches() {
    let services: String = (0..2_100).map(|at| format!("---\n{}", service(&format!("s{at}"), "10.0.0.1"))).collect();
    let fixture = Fixture::new(&[("a.yaml", &services)], Selection::default());
    assert_eq!(fixture.load(), Vec::<String>::new());
    let batches = fixture.sink.state.lock().expect("the lock").batches.clone();
    assert_eq!(batches, [2_048, 52]);
    assert_eq!(fixture.source.objects(), 2_100);
}

#[test]
fn paths_are_files_directories_and_patterns() {
    let files: Vec<(String, String)> = [
        "one.yaml",
        "dir/b.yml",
        "dir/a.yaml",
        "dir/c.json",
        "dir/.hidden.yaml",
        "dir/note.txt",
        "dir/deep/x.yaml",
        "glob/x-1.yaml",
        "glob/x-2.yaml",
        "glob/y.yaml",
        "odd.txt",
    ]
    .iter()
    .map(|path| {
        let name = path.replace(['/', '.'], "-");
        let text = if path.ends_with("json") {
            format!("{{\"apiVersion\": \"v1\", \"kind\": \"Service\", \"metadata\": {{\"name\": \"{name}\"}}}}")
        } else {
            service(&name, "10.0.0.1").replace(", namespace: n", "")
        };
        ((*path).to_owned(), text)
    })
    .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let paths = ["one.yaml", "odd.txt", "dir", "glob/x-?.yaml", "glob/*-1.yaml", "no*thing"];
    let fixture = Fixture::with_paths(&files, &paths, Selection::default());
    assert_eq!(fixture.load(), Vec::<String>::new());
    let expected = ["dir-a-yaml", "dir-b-yml", "dir-c-json", "glob-x-1-yaml", "glob-x-2-yaml", "odd-txt", "one-yaml"];
    assert_eq!(fixture.sink.names(), expected.map(|name| format!("Service default/{name}")));
}

#[test]
fn only_regular_files_of_bearable_size_are_read() {
    let fixture =
        Fixture::with_paths(&[("ok.yaml", &service("a", "10.0.0.1"))], &[".", "missing.yaml"], Selection::default());
    let fifo = fixture.path().join("fifo.yaml");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().expect("mkfifo runs");
    assert!(made.success());
    let big = std::fs::File::create(fixture.path().join("big.yaml")).expect("a file");
    big.set_len(super::super::FILE_MAX_BYTES + 1).expect("a sparse file");
    let expected = [
        "missing.yaml: no such file or directory; create it, or correct the path of the manifests option",
        "big.yaml: cannot read: the file has 67108865 bytes and at most 67108864 are read; split it",
        "fifo.yaml: cannot read: not a regular file; name a file, a directory or a pattern of files",
    ];
    assert_eq!(fixture.load(), expected);
    assert_eq!(fixture.sink.names(), ["Service n/a"]);
    assert_eq!((fixture.source.errors_total(), fixture.source.broken()), (3, 3));
    fixture.load();
    assert_eq!(fixture.source.errors_total(), 3, "the same trouble counts once");
}

#[test]
fn the_selection_is_applied() {
    let text = "
{apiVersion: v1, kind: Service, metadata: {name: in, namespace: n, labels: {app: x}}}
---
{apiVersion: v1, kind: Service, metadata: {name: out, namespace: n, labels: {app: y}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: n, labels: {team: a}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: m}}
---
{apiVersion: v1, kind: Pod, metadata: {name: in, namespace: n, labels: {app: x}}, status: {podIP: 10.0.0.1}}
---
{apiVersion: v1, kind: Pod, metadata: {name: ended, namespace: n, labels: {app: x}}, status: {podIP: 10.0.0.2, phase: Failed}}
---
{apiVersion: v1, kind: Pod, metadata: {name: going, namespace: n, labels: {app: x}, deletionTimestamp: now}, status: {podIP: 10.0.0.2}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: plain, namespace: n, labels: {app: x}}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: imported, namespace: n, labels: {app: x, multicluster.kubernetes.io/service-name: i}}}
---
{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceImport, metadata: {name: i, namespace: n, labels: {app: x}}}
---
{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceImport, metadata: {name: out, namespace: n, labels: {team: a}}}
";
    let labels = Selection {
        labels: Selector::parse("app=x").expect("a selector"),
        namespace_labels: Selector::parse("team").expect("a selector"),
        ..Selection::default()
    };
    let always = ["Namespace /n", "Service n/in"];
    let cases: [(Selection, &[&str]); 4] = [
        (labels.clone(), &["EndpointSlice n/imported", "EndpointSlice n/plain"]),
        (Selection { endpoints: false, ..labels.clone() }, &[]),
        (
            Selection { endpoints: false, multicluster: true, ..labels.clone() },
            &["EndpointSlice n/imported", "ServiceImport n/i"],
        ),
        (Selection { endpoints: false, pods: true, ..labels }, &["Pod n/in"]),
    ];
    for (selection, more) in cases {
        let fixture = Fixture::new(&[("a.yaml", text)], selection);
        assert_eq!(fixture.load(), Vec::<String>::new());
        let expected: Vec<&str> = always.iter().chain(more).copied().collect();
        assert_eq!(fixture.sink.names(), expected);
    }
}

#[test]
fn objects_are_completed_as_the_api_server_would() {
    let text = "apiVersion: v1\nkind: Service\nmetadata: {name: a, resourceVersion: \"7\"}\nspec: {clusterIP: 10.0.0.1, ports: [{port: 80}]}\n";
    let fixture = Fixture::new(&[("a.yaml", text)], Selection::default());
    fixture.load();
    let Some(Object::Service(found)) = fixture.sink.object(ObjectKind::Service, "default", "a") else {
        panic!("the Service is in namespace default");
    };
    assert_eq!(found.ports.first().map(|port| (port.protocol.as_str(), port.number)), Some(("TCP", Some(80))));
    assert_eq!(found.version, Service::default().version, "a version in a file says nothing");
    assert_eq!(found.cluster_ips.first(), Address::parse("10.0.0.1").as_ref());
}

#[test]
fn zones_and_targets_are_kept_on_request() {
    let text = "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: s, namespace: n}\nendpoints: [{addresses: [10.0.0.1], zone: Z, targetRef: {name: p}}]\n";
    for (zones, target_names) in [(false, false), (true, false), (false, true)] {
        let fixture = Fixture::new(&[("a.yaml", text)], Selection { zones, target_names, ..Selection::default() });
        fixture.load();
        let slices = fixture.sink.slices();
        let endpoint = slices.first().and_then(|slice| slice.endpoints.first()).expect("an endpoint");
        assert_eq!(endpoint.zone.as_deref(), zones.then_some("z"));
        assert_eq!(endpoint.target_name.as_deref(), target_names.then_some("p"));
    }
}
