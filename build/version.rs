//! The words of the version block, `OS/ARCH, RUNTIME-VERSION, GITCOMMIT`, from what the compiler and cargo say.

/// The target's architecture in Go's words, which operators know from CoreDNS's version block and from image names.
pub(crate) fn go_architecture(architecture: &str, endian: &str) -> String {
    let little = endian == "little";
    match architecture {
        "x86_64" => "amd64",
        "x86" => "386",
        "aarch64" => "arm64",
        "loongarch64" => "loong64",
        "powerpc64" if little => "ppc64le",
        "powerpc64" => "ppc64",
        "mips64" if little => "mips64le",
        "mips" if little => "mipsle",
        other => other,
    }
    .to_owned()
}

/// The release in the output of `rustc --version`: `1.95.0` of `rustc 1.95.0 (59807616e 2026-04-14)`; empty when there is none.
pub(crate) fn rustc_release(output: &str) -> &str {
    output.split_whitespace().nth(1).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{go_architecture, rustc_release};

    #[test]
    fn architectures_are_named_as_go_names_them() {
        for (architecture, endian, expected) in [
            ("x86_64", "little", "amd64"),
            ("x86", "little", "386"),
            ("aarch64", "little", "arm64"),
            ("arm", "little", "arm"),
            ("riscv64", "little", "riscv64"),
            ("powerpc64", "little", "ppc64le"),
            ("powerpc64", "big", "ppc64"),
            ("mips64", "little", "mips64le"),
            ("mips64", "big", "mips64"),
            ("s390x", "big", "s390x"),
        ] {
            assert_eq!(go_architecture(architecture, endian), expected, "{architecture} {endian}");
        }
    }

    #[test]
    fn the_release_is_the_second_word() {
        for (output, expected) in [
            ("rustc 1.95.0 (59807616e 2026-04-14)\n", "1.95.0"),
            ("rustc 1.97.0-nightly (0123abc 2026-05-01)", "1.97.0-nightly"),
            ("rustc", ""),
            ("", ""),
        ] {
            assert_eq!(rustc_release(output), expected, "{output:?}");
        }
    }
}
