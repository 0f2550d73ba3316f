//! The configuration that applies when there is none.

/// The built-in Corefile: answers everything with *whoami* and logs it, on `port`.
pub fn default_corefile(port: &str) -> String {
    format!(".:{port} {{\nwhoami\nlog\n}}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ParseOptions, Source, parse};

    #[test]
    fn parses_to_whoami_and_log() {
        let options = ParseOptions { directives: Some(&["log", "whoami"]), environment: &|_| None };
        let corefile = parse(&Source::new("Corefile", default_corefile("1053")), &options).expect("valid");
        let [block] = corefile.blocks.as_slice() else { panic!("one block: {corefile:?}") };
        assert_eq!(block.keys.iter().map(|key| key.text()).collect::<Vec<_>>(), [".:1053"]);
        assert_eq!(block.directives.iter().map(|directive| &*directive.name).collect::<Vec<_>>(), ["whoami", "log"]);
    }
}
