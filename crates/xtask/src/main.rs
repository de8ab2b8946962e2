//! The checks a change has to pass, and the files made from others: `cargo xtask help`.
//! Knows files, cargo and git. Never what the other crates do.
//! Start reading at [`main`], then `steps`.

mod beside;
mod circles;
mod clients;
mod deny;
mod dist;
mod doc_tests;
mod glossary;
mod instructions;
mod layers;
mod licences;
mod links;
mod packages;
mod quotes;
mod repository;
mod sbom;
mod sizes;
mod soak;
mod steps;
mod structure;
mod subjects;
mod tidy;
mod wording;

use dist::Targets;
use std::process::ExitCode;

const HELP: &str = "\
cargo xtask check    format, lints, tidiness, dependencies: no tests, for every commit
cargo xtask test     all of check, links of the sources, all tests, then the package, the instructions and the
                     interop suites of the published binary, which is built beside
cargo xtask tidy [--lower]
                     only tidiness: layers, sizes, circles, names of types, wording, words of docs/glossary.md,
                     subjects of commits, clippy.toml copies, file names; --lower writes down the sizes and counts
                     that have fallen
cargo xtask layers   only the layers
cargo xtask instructions [--accept]
                     count the hot path's instructions and compare them with, or make them, the baseline
cargo xtask deny     only what deny.toml says of dependencies: bans, licences, sources
cargo xtask dist [--host]
                     build what is published of a version into target/published: static binaries, symbols,
                     SBOMs, a Debian package and a container image; --host: for this system alone
cargo xtask sbom [TARGET]
                     print what the binary is built from, in CycloneDX
cargo xtask soak [MINUTES]
                     ten minutes of mixed load, beside clients that mean harm, on a node that is killed
                     every 20 s; nothing may be lost.
                     LEVERET_BINARY=FILE names the binary, otherwise it is built for release
cargo xtask docs     regenerate docs/configuration.md and others, and the programs in pages
cargo xtask pages    regenerate only what pages show of files in interop/: builds nothing
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match args.as_slice() {
        ["check"] => Ok(steps::check()),
        ["test"] => Ok(steps::test()),
        ["tidy", "--lower"] => sizes::lower().map(|()| true),
        ["tidy"] => tidy::all().map(|problems| steps::print_problems(&problems)),
        ["layers"] => layers::problems().map(|problems| steps::print_problems(&problems)),
        ["deny"] => deny::problems().map(|problems| steps::print_problems(&problems)),
        ["dist"] => dist::dist(Targets::All),
        ["dist", "--host"] => dist::dist(Targets::Host),
        ["sbom"] => dist::print_sbom(dist::GNU),
        ["sbom", target] => dist::print_sbom(target),
        ["instructions"] => instructions::check(),
        ["instructions", "--accept"] => instructions::accept().map(|()| true),
        ["soak"] => soak::run(soak::MINUTES),
        ["soak", minutes] => match minutes.parse() {
            Ok(minutes) => soak::run(minutes),
            Err(_) => Err(anyhow::anyhow!("not a number of minutes: {minutes}")),
        },
        ["docs"] => steps::docs().map(|()| true),
        ["pages"] => steps::pages().map(|()| true),
        ["help" | "--help" | "-h"] => {
            steps::say(HELP.trim_end());
            Ok(true)
        }
        _ => {
            steps::say(HELP.trim_end());
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            steps::say(&format!("xtask: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
