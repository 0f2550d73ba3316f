//! The command line, in the style of Go's flags.
//!
//! `-conf X`, `-conf=X`, `--conf X` and `--conf=X` are the same. clap knows the last two, so arguments are put into
//! that form first, by a table of the flags there are.

use std::path::PathBuf;

use clap::Parser;
use coredns_plugin::clock;

use crate::server::Origin;

/// Flags with a value.
const VALUES: [&str; 4] = ["conf", "dns.port", "p", "pidfile"];
/// Flags that are set or not; `-x=true` and `-x=false` say it explicitly.
const SWITCHES: [&str; 4] = ["plugins", "version", "quiet", "validate"];

const USAGE: &str = "\
Usage of coredns-rs:
  -conf string
    \tCorefile to load (default \"Corefile\"); \"stdin\" reads it from standard input
  -dns.port string
    \tDefault port (default \"53\")
  -p string
    \tDefault port (default \"53\")
  -pidfile string
    \tPath to write pid file
  -plugins
    \tList installed plugins
  -quiet
    \tQuiet mode (no initialization output)
  -validate
    \tCheck the Corefile, print all errors and warnings, open nothing, and exit with 0 or 1
  -version
    \tShow version
";

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Where the Corefile comes from.
    pub origin: Origin,
    /// The port of keys that name none.
    pub dns_port: String,
    /// Where to write the process number.
    pub pidfile: Option<PathBuf>,
    /// Print the names of the plugins and end.
    pub plugins: bool,
    /// Print the version and end.
    pub version: bool,
    /// Print neither zones nor version at the start.
    pub quiet: bool,
    /// Check the Corefile and end.
    pub validate: bool,
}

/// Why the command line is not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// What is printed to standard error.
    pub message: String,
    /// The exit code: 0 for help, 1 for surplus arguments, 2 for a bad flag.
    pub code: u8,
}

#[derive(Debug, Parser)]
#[command(disable_help_flag = true, disable_version_flag = true, args_override_self = true)]
struct Flags {
    #[arg(long, default_value = "")]
    conf: String,
    #[arg(long = "dns.port", default_value = "53")]
    dns_port: String,
    #[arg(long, default_value = "")]
    pidfile: String,
    #[arg(long, action = clap::ArgAction::Set, default_value = "false")]
    plugins: bool,
    #[arg(long, action = clap::ArgAction::Set, default_value = "false")]
    version: bool,
    #[arg(long, action = clap::ArgAction::Set, default_value = "false")]
    quiet: bool,
    #[arg(long, action = clap::ArgAction::Set, default_value = "false")]
    validate: bool,
    surplus: Vec<String>,
}

/// Reads the command line, without the program's name.
///
/// # Errors
/// What to print and which code to exit with.
pub fn parse(arguments: &[String]) -> Result<Options, Refused> {
    let normal = normalize(arguments)?;
    let flags = Flags::try_parse_from(std::iter::once("coredns-rs".to_owned()).chain(normal)).map_err(|error| {
        let text = error.to_string();
        bad_flag(text.lines().next().unwrap_or("bad arguments"))
    })?;
    if !flags.surplus.is_empty() {
        // This one line has date and time before it, as CoreDNS logs it.
        let now = stamp(u64::from(clock::unix_seconds()));
        let message = format!("{now} extra command line arguments: [{}]\n", flags.surplus.join(" "));
        return Err(Refused { message, code: 1 });
    }
    let origin = match flags.conf.as_str() {
        "" => Origin::Default,
        "stdin" => Origin::Stdin,
        path => Origin::File(PathBuf::from(path)),
    };
    Ok(Options {
        origin,
        dns_port: flags.dns_port,
        pidfile: (!flags.pidfile.is_empty()).then(|| PathBuf::from(flags.pidfile)),
        plugins: flags.plugins,
        version: flags.version,
        quiet: flags.quiet,
        validate: flags.validate,
    })
}

/// Date and time in UTC as Go's log prints them, from seconds since 1970.
fn stamp(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years of a calendar that begins in March have their leap day at the end; 719,468 days lie between its year 0
    // and 1970, and 146,097 are 400 years.
    let day = days + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}/{month:02}/{of_month:02} {hour:02}:{minute:02}:{second:02}")
}

fn bad_flag(text: &str) -> Refused {
    Refused { message: format!("{text}\n{USAGE}"), code: 2 }
}

/// Puts Go-style flags into the form `--name=value`; everything from the first word that is no flag on is surplus.
fn normalize(arguments: &[String]) -> Result<Vec<String>, Refused> {
    let mut normal = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == "--" || !argument.starts_with('-') || argument == "-" {
            let surplus = std::iter::once(argument).filter(|word| *word != "--").chain(rest);
            normal.push("--".to_owned());
            normal.extend(surplus.cloned());
            break;
        }
        let flag = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-')).unwrap_or(argument);
        if flag.is_empty() || flag.starts_with(['-', '=']) {
            return Err(bad_flag(&format!("bad flag syntax: {argument}")));
        }
        let (name, value) = flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value.to_owned())));
        if matches!(name, "h" | "help") {
            return Err(Refused { message: USAGE.to_owned(), code: 0 });
        }
        let value = if VALUES.contains(&name) {
            value
                .or_else(|| rest.next().cloned())
                .ok_or_else(|| bad_flag(&format!("flag needs an argument: -{name}")))?
        } else if SWITCHES.contains(&name) {
            switch(name, value.as_deref().unwrap_or("true"))?.to_string()
        } else {
            return Err(bad_flag(&format!("flag provided but not defined: -{name}")));
        };
        // `-p` and `-dns.port` set the same thing, and the last one wins.
        let name = if name == "p" { "dns.port" } else { name };
        normal.push(format!("--{name}={value}"));
    }
    Ok(normal)
}

/// The spellings of a truth value that Go's flags take.
fn switch(name: &str, value: &str) -> Result<bool, Refused> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(bad_flag(&format!("invalid boolean value \"{value}\" for -{name}: parse error"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, Refused> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn all_spellings_of_a_flag() {
        for line in ["-conf X", "-conf=X", "--conf X", "--conf=X", "-conf Y -conf X"] {
            assert_eq!(parsed(line).map(|options| options.origin), Ok(Origin::File("X".into())), "{line}");
        }
        for line in ["-dns.port 5353", "-p 5353", "-p=5353", "--dns.port=5353", "-p 1 -dns.port 5353"] {
            assert_eq!(parsed(line).map(|options| options.dns_port), Ok("5353".to_owned()), "{line}");
        }
        assert_eq!(parsed("-conf stdin").map(|options| options.origin), Ok(Origin::Stdin));
        assert_eq!(parsed("-conf -").map(|options| options.origin), Ok(Origin::File("-".into())));
        assert_eq!(parsed("").map(|options| options.origin), Ok(Origin::Default));
    }

    #[test]
    fn switches_take_a_value_behind_an_equals_sign_only() {
        assert_eq!(parsed("-quiet").map(|options| options.quiet), Ok(true));
        assert_eq!(parsed("--quiet=false").map(|options| options.quiet), Ok(false));
        assert_eq!(parsed("-quiet true").map_err(|refused| refused.code), Err(1));
        assert_eq!(parsed("-quiet=maybe").map_err(|refused| refused.code), Err(2));
    }

    #[test]
    fn surplus_arguments() {
        for (line, text) in [("a b", "[a b]"), ("-quiet x -conf y", "[x -conf y]"), ("-- -quiet", "[-quiet]")] {
            let refused = parsed(line).expect_err(line);
            assert_eq!(refused.code, 1, "{line}");
            assert!(refused.message.ends_with(&format!(" extra command line arguments: {text}\n")), "{refused:?}");
        }
        for (seconds, text) in [
            (0, "1970/01/01 00:00:00"),
            (951_782_399, "2000/02/28 23:59:59"),
            (951_782_400, "2000/02/29 00:00:00"),
            (951_868_800, "2000/03/01 00:00:00"),
            (1_735_689_599, "2024/12/31 23:59:59"),
            (4_107_542_400, "2100/03/01 00:00:00"),
        ] {
            assert_eq!(stamp(seconds), text, "{seconds}");
        }
    }

    #[test]
    fn refusals_and_their_codes() {
        for (line, code, text) in [
            ("-nope", 2, "flag provided but not defined: -nope"),
            ("-conf", 2, "flag needs an argument: -conf"),
            ("---p", 2, "bad flag syntax: ---p"),
            ("-=x", 2, "bad flag syntax: -=x"),
            ("-h", 0, "Usage of coredns-rs:"),
            ("--help", 0, "Usage of coredns-rs:"),
        ] {
            let refused = parsed(line).expect_err(line);
            assert_eq!(refused.code, code, "{line}");
            assert!(refused.message.starts_with(text), "{line}: {}", refused.message);
        }
    }
}
