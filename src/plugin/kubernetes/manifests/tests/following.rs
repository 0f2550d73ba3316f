use std::os::unix::fs::symlink;

use super::super::super::object::Address;
use super::*;

/// The cluster IP of a Service in namespace `n`.
fn address(fixture: &Fixture, name: &str) -> Option<String> {
    match fixture.sink.object(ObjectKind::Service, "n", name)? {
        Object::Service(service) => service.cluster_ips.first().map(Address::to_string),
        _ => None,
    }
}

#[test]
fn only_differences_are_delivered() {
    let text =
        |ip: &str| format!("{}---\n{}---\n{}", service("a", "10.0.0.1"), service("b", ip), service("c", "10.0.0.3"));
    let fixture =
        Fixture::new(&[("a.yaml", &text("10.0.0.2")), ("b.yaml", &service("d", "10.0.0.4"))], Selection::default());
    fixture.load();
    assert_eq!((fixture.sink.changes(), fixture.sink.names().len()), (4, 4));
    fixture.load();
    assert_eq!(fixture.sink.changes(), 4, "nothing new");
    fixture.write("a.yaml", &text("10.0.0.9"));
    fixture.load();
    assert_eq!(fixture.sink.changes(), 5, "one Service changed");
    assert_eq!(address(&fixture, "b").as_deref(), Some("10.0.0.9"));
    fixture.write("a.yaml", &format!("# comment\n{}", text("10.0.0.9")));
    fixture.load();
    assert_eq!(fixture.sink.changes(), 5, "a comment is no change");
    fixture.remove("a.yaml");
    fixture.load();
    assert_eq!(fixture.sink.names(), ["Service n/d"]);
    assert_eq!(fixture.sink.state.lock().expect("the lock").synced, 1, "synced is said once");
}

#[test]
fn a_broken_file_keeps_its_last_good_objects() {
    let good = format!("{}---\n{}", service("a", "10.0.0.1"), service("b", "10.0.0.2"));
    let fixture = Fixture::new(&[("a.yaml", &good), ("b.yaml", &service("c", "10.0.0.3"))], Selection::default());
    assert_eq!(fixture.load(), Vec::<String>::new());
    let changes = fixture.sink.changes();
    fixture.write("a.yaml", &format!("{}---\nkind: [\n", service("a", "10.0.0.9")));
    fixture.write("b.yaml", &service("c", "10.0.0.8"));
    let expected = ["a.yaml:6: unclosed bracket '['"];
    assert_eq!(fixture.load(), expected);
    assert_eq!(address(&fixture, "a").as_deref(), Some("10.0.0.1"), "also what precedes the error stays as it was");
    assert_eq!(address(&fixture, "c").as_deref(), Some("10.0.0.8"), "other files are followed");
    assert_eq!(fixture.sink.changes(), changes + 1);
    assert_eq!(fixture.load(), expected);
    assert_eq!((fixture.source.errors_total(), fixture.source.broken()), (1, 1));
    fixture.write("a.yaml", &service("a", "10.0.0.7"));
    assert_eq!(fixture.load(), Vec::<String>::new());
    assert_eq!(address(&fixture, "a").as_deref(), Some("10.0.0.7"));
    assert_eq!(fixture.sink.names(), ["Service n/a", "Service n/c"]);
    assert_eq!((fixture.source.errors_total(), fixture.source.broken()), (1, 0));
    fixture.write("a.yaml", "kind: [\n");
    fixture.load();
    fixture.write("a.yaml", &service("a", "10.0.0.7"));
    assert_eq!(fixture.load(), Vec::<String>::new(), "back to what is held");
    assert_eq!(fixture.source.errors_total(), 2);
}

#[test]
fn of_duplicates_the_last_counts() {
    let files = [("a.yaml", service("x", "10.0.0.1")), ("b.yaml", service("x", "10.0.0.2"))];
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    let fixture = Fixture::with_paths(&files, &["b.yaml", "."], Selection::default());
    fixture.load();
    assert_eq!(address(&fixture, "x").as_deref(), Some("10.0.0.1"), "the order of the paths");
    assert_eq!(fixture.sink.changes(), 1, "the other is never delivered");
    fixture.write("b.yaml", &service("x", "10.0.0.9"));
    fixture.load();
    assert_eq!(fixture.sink.changes(), 1);
    fixture.remove("a.yaml");
    fixture.load();
    assert_eq!(address(&fixture, "x").as_deref(), Some("10.0.0.9"), "the other takes over");
    fixture.write("a.yaml", &format!("{}---\n{}", service("x", "10.0.0.3"), service("x", "10.0.0.4")));
    fixture.load();
    assert_eq!(address(&fixture, "x").as_deref(), Some("10.0.0.4"), "also within a file");
    assert_eq!(fixture.sink.names(), ["Service n/x"]);
}

/// Runs `work` and gives the lines that it logged.
fn logged(work: impl FnOnce()) -> Vec<String> {
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);
    impl std::io::Write for Lines {
        fn write(&mut self, octets: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("the lock").extend_from_slice(octets);
            Ok(octets.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .without_time()
        .with_max_level(tracing::Level::WARN)
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, work);
    let octets = lines.0.lock().expect("the lock").clone();
    String::from_utf8(octets).expect("text").lines().map(|line| line.trim().to_owned()).collect()
}

#[test]
fn what_an_operator_should_know_is_logged_once() {
    let namespace = "---\n{apiVersion: v1, kind: Namespace, metadata: {name: n}}\n";
    let files = [("a.yaml", service("x", "10.0.0.1")), ("b.yaml", service("x", "10.0.0.2"))];
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    let fixture = Fixture::new(&files, Selection::default());
    let directory = fixture.path().display().to_string();
    let lines = logged(|| drop(fixture.load()));
    let expected = [
        format!(
            "WARN plugin/kubernetes: Service n/x is in {directory}/a.yaml and {directory}/b.yaml; the last one counts, remove the others"
        ),
        "WARN plugin/kubernetes: the manifests have objects in namespace n but no Namespace of that name, so no name in it exists; add the Namespace"
            .to_owned(),
    ];
    assert_eq!(lines, expected);
    fixture.write("a.yaml", &format!("{}{namespace}", service("x", "10.0.0.3")));
    assert_eq!(logged(|| drop(fixture.load())), Vec::<String>::new());
    fixture.write("b.yaml", &format!("{}---\nx: [\n", service("x", "10.0.0.4")));
    let lines = logged(|| {
        fixture.load();
        fixture.load();
    });
    let expected = format!(
        "ERROR plugin/kubernetes: {directory}/b.yaml:6: unclosed bracket '[' (what was read before stays in use)"
    );
    assert_eq!(lines, [expected]);
    fixture.write("b.yaml", &format!("{}---\n{}", service("y", "10.0.0.4"), service("y", "10.0.0.5")));
    let expected = format!(
        "WARN plugin/kubernetes: {directory}/b.yaml: Service n/y is there twice; the later one counts, remove the other"
    );
    assert_eq!(logged(|| drop(fixture.load())), [expected]);
}

#[test]
fn a_pod_being_deleted_keeps_its_last_state() {
    let pod = |meta: &str, ip: &str| {
        format!("{{apiVersion: v1, kind: Pod, metadata: {{name: p, namespace: n{meta}}}, status: {{podIP: {ip}}}}}")
    };
    let fixture = Fixture::new(&[("a.yaml", &pod("", "10.0.0.1"))], Selection { pods: true, ..Selection::default() });
    let held = |fixture: &Fixture| match fixture.sink.object(ObjectKind::Pod, "n", "p") {
        Some(Object::Pod(pod)) => pod.addresses.first().map(Address::to_string),
        _ => None,
    };
    fixture.load();
    assert_eq!(held(&fixture).as_deref(), Some("10.0.0.1"));
    fixture.write("a.yaml", &pod(", deletionTimestamp: now", "10.0.0.2"));
    fixture.load();
    assert_eq!(held(&fixture).as_deref(), Some("10.0.0.1"));
    fixture.remove("a.yaml");
    fixture.load();
    assert_eq!(held(&fixture), None);
}

#[test]
fn a_directory_that_cannot_be_listed_keeps_its_objects() {
    let fixture = Fixture::with_paths(&[("d/a.yaml", &service("a", "10.0.0.1"))], &["d"], Selection::default());
    fixture.load();
    std::fs::remove_dir_all(fixture.path().join("d")).expect("removed");
    assert_eq!(
        fixture.load(),
        ["d: no such file or directory; create it, or correct the path of the manifests option"]
    );
    assert_eq!(fixture.sink.names(), Vec::<String>::new(), "a deleted directory deletes its objects");
}

/// Replaces the file at the first batch, while the rest of it is still to be read.
struct Meddler<'f> {
    fixture: &'f Fixture,
    text: Mutex<Option<String>>,
}

impl Sink for Meddler<'_> {
    fn apply(&self, changes: Vec<Change>) {
        if let Some(text) = self.text.lock().expect("the lock").take() {
            self.fixture.write("a.yaml", &text);
        }
        self.fixture.sink.apply(changes);
    }

    fn retain(&self, kind: ObjectKind, keep: &dyn Fn(&ObjectKey) -> bool) {
        self.fixture.sink.retain(kind, keep);
    }

    fn synced(&self) {}
}

#[test]
fn a_file_that_changes_while_it_is_read_is_read_again() {
    let text = |ip: &str| (0..2_100).map(|at| format!("---\n{}", service(&format!("s{at}"), ip))).collect::<String>();
    let fixture = Fixture::new(&[("a.yaml", &text("10.0.0.1"))], Selection::default());
    let after = format!("{}---\n{}", service("s0", "10.0.0.2"), service("new", "10.0.0.2"));
    let meddler = Meddler { fixture: &fixture, text: Mutex::new(Some(after)) };
    fixture.source.load_once(&meddler);
    assert_eq!(fixture.load(), Vec::<String>::new());
    assert_eq!(fixture.sink.names(), ["Service n/new", "Service n/s0"]);
    assert_eq!(address(&fixture, "s0").as_deref(), Some("10.0.0.2"));
    let changes = fixture.sink.changes();
    fixture.load();
    assert_eq!(fixture.sink.changes(), changes, "and then it is at rest");
}

/// Runs the source beside `test`, which drives it through the file system.
fn while_running(fixture: &Fixture, poll: Duration, test: impl FnOnce()) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let config = Config { poll, ..Config::new(vec![fixture.path().to_owned()], Selection::default()) };
    let source = Arc::new(Manifests::new(config));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let sink: Arc<dyn Sink> = Arc::<Held>::clone(&fixture.sink);
    let task = runtime.spawn(source.run(sink, async move { drop(stopped.await) }));
    fixture.sink.wait_for("the first state", |state| state.synced == 1);
    test();
    stop.send(()).expect("the source runs until it is told");
    runtime.block_on(async {
        tokio::time::timeout(DEADLINE, task).await.expect("it ends in time").expect("it ends well")
    });
}

fn has(name: &str, ip: &str) -> impl Fn(&HeldState) -> bool {
    let key = ObjectKey { kind: ObjectKind::Service, namespace: "n".into(), name: name.into() };
    let ip = Address::parse(ip);
    move |state| matches!(state.objects.get(&key), Some(Object::Service(service)) if service.cluster_ips.first() == ip.as_ref())
}

/// Longer than a test waits: only a notice can be in time.
const NEVER: Duration = Duration::from_secs(3_600);

#[test]
fn a_notice_wakes_the_source() {
    let fixture = Fixture::new(&[("a.yaml", &service("a", "10.0.0.1"))], Selection::default());
    while_running(&fixture, NEVER, || {
        fixture.write("a.yaml", &service("a", "10.0.0.2"));
        fixture.sink.wait_for("the changed file", has("a", "10.0.0.2"));
        fixture.write("new.yaml.tmp", &service("b", "10.0.0.3"));
        std::fs::rename(fixture.path().join("new.yaml.tmp"), fixture.path().join("new.yaml")).expect("renamed");
        fixture.sink.wait_for("the renamed file", has("b", "10.0.0.3"));
        fixture.remove("a.yaml");
        fixture.sink.wait_for("the deleted file", |state| state.objects.len() == 1);
    });
}

/// As the kubelet does it: files are links through `..data`, a link to a directory that is replaced by a rename.
#[test]
fn swapped_links_of_a_config_map_are_followed() {
    let fixture = Fixture::new(&[("..1/a.yaml", &service("a", "10.0.0.1"))], Selection::default());
    symlink("..1", fixture.path().join("..data")).expect("a link");
    symlink("..data/a.yaml", fixture.path().join("a.yaml")).expect("a link");
    while_running(&fixture, NEVER, || {
        assert!(has("a", "10.0.0.1")(&fixture.sink.state.lock().expect("the lock")));
        fixture.write("..2/a.yaml", &service("a", "10.0.0.2"));
        symlink("..2", fixture.path().join("..data_tmp")).expect("a link");
        std::fs::rename(fixture.path().join("..data_tmp"), fixture.path().join("..data")).expect("renamed");
        std::fs::remove_dir_all(fixture.path().join("..1")).expect("removed");
        fixture.sink.wait_for("the swapped link", has("a", "10.0.0.2"));
        assert_eq!(fixture.sink.names(), ["Service n/a"]);
    });
}

/// Where no notice comes, as from a directory behind a link, the poll finds the change.
#[test]
fn the_poll_finds_what_no_notice_tells() {
    let fixture = Fixture::new(&[], Selection::default());
    let behind = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(behind.path().join("a"), service("a", "10.0.0.1")).expect("written");
    symlink(behind.path().join("a"), fixture.path().join("a.yaml")).expect("a link");
    while_running(&fixture, Duration::from_millis(20), || {
        std::fs::write(behind.path().join("a"), service("a", "10.0.0.2")).expect("written");
        fixture.sink.wait_for("the file behind the link", has("a", "10.0.0.2"));
    });
}
