//! Examples of READMEs as tests.

use coredns_plugin::corefile::{ParseOptions, Source, block_addresses, parse};
use coredns_plugin::{BlockConfig, Descriptor, Setup, Zones};

/// The text of each block that is fenced as `corefile`.
#[must_use]
pub fn readme_examples(readme: &str) -> Vec<String> {
    let mut examples = Vec::new();
    let mut lines = readme.lines();
    while lines.any(|line| line.trim_end() == "```corefile") {
        let example: Vec<&str> = lines.by_ref().take_while(|line| line.trim_end() != "```").collect();
        examples.push(example.join("\n") + "\n");
    }
    examples
}

/// Sets up every server block of every example, each directive that `plugins` (in the order of the chain) describes;
/// others must be in `directives`, and are passed over.
///
/// # Panics
/// Where there is no example, or one is refused.
#[must_use]
pub fn set_up_examples(plugins: &[&Descriptor], directives: &[&str], readme: &str) -> Vec<BlockConfig> {
    let examples = readme_examples(readme);
    assert!(!examples.is_empty(), "the README has no example");
    examples.iter().flat_map(|example| set_up_example(plugins, directives, example)).collect()
}

fn set_up_example(plugins: &[&Descriptor], directives: &[&str], example: &str) -> Vec<BlockConfig> {
    let options = ParseOptions { directives: Some(directives), environment: &|_| None };
    let refused = |error| panic!("{error}\n{example}");
    let corefile = parse(&Source::new("README.md", example), &options).unwrap_or_else(refused);
    let mut blocks = Vec::new();
    for block in &corefile.blocks {
        let keys = block_addresses(block, "53").unwrap_or_else(|error| panic!("{error}\n{example}"));
        let zones = Zones::new(keys.iter().filter_map(|key| key.zone.parse().ok()).collect());
        let mut config = BlockConfig { keys, zones, ..BlockConfig::default() };
        for plugin in plugins {
            if let Some(directive) = block.directive(plugin.name) {
                let mut setup = Setup::new(plugin.name, directive.dispenser(), &mut config);
                (plugin.setup)(&mut setup).unwrap_or_else(|error| panic!("{error}\n{example}"));
            }
        }
        blocks.push(config);
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_corefiles_are_examples() {
        let readme = "# x\n\n```corefile\n. {\n}\n```\n\n```sh\nls\n```\n\n```corefile\na {\n}\n```\n";
        assert_eq!(readme_examples(readme), [". {\n}\n", "a {\n}\n"]);
    }
}
