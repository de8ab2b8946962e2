//! Turns the scenarios into JSON, so that the program needs no parser of TOML.

use std::path::Path;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=scenarios");
    let out = env::var("OUT_DIR").expect("cargo names the directory");
    for file in fs::read_dir("scenarios").expect("the scenarios are beside this file") {
        let file = file.expect("the directory can be read").path();
        let text = fs::read_to_string(&file).expect("a scenario is text");
        let table: toml::Table = text.parse().unwrap_or_else(|error| panic!("{file:?}: {error}"));
        let name = file.file_stem().expect("a scenario has a name");
        let json = serde_json::to_string(&table).expect("TOML's values are JSON's too");
        fs::write(Path::new(&out).join(name).with_extension("json"), json)
            .expect("cargo's directory takes files");
    }
}
