//! Types with more than one job, names that many types have, and files and modules of a crate that use each
//! other in a circle: counted from the sources of the product's crates, and held against the same list as
//! sizes.

use std::collections::BTreeMap;

use anyhow::Context as _;
use syn::visit::Visit;

use crate::sizes::Measures;
use crate::{circles, repository};

/// Fields of a type from which it needs a line in the list.
const FIELDS_MAX: usize = 12;
/// Inherent methods of a type from which it needs a line in the list.
const METHODS_MAX: usize = 25;

/// Types of one name from which the name needs a line in the list.
const NAMESAKES_MAX: usize = 2;

/// The type whose fields are those of the specification, however many.
const SPECIFIED: &str = "amqp091::Properties";

/// Crates that are tools or tests: their types may be as they like.
const TOOLS: &[&str] = &["bench", "counting", "instructions", "perf", "sim", "testing", "xtask"];

/// Adds the product's types and names above the limits, and what is in circles in each of its crates.
pub(crate) fn measure(found: &mut Measures) -> anyhow::Result<()> {
    let mut namesakes: BTreeMap<String, usize> = BTreeMap::new();
    for (name, sources) in crates(&repository::files()?)? {
        let structure = Structure::read(&sources);
        for (kind, of, number) in structure.above_the_limits() {
            let place = format!("{name}::{of}");
            if place != SPECIFIED {
                found.insert((kind, place), number);
            }
        }
        for (_, defined) in structure.fields.keys() {
            *namesakes.entry(defined.clone()).or_default() += 1;
        }
        for (module, n_files) in circles::files(&sources) {
            found.insert(("circle", format!("{name}/{}", module.join("/"))), n_files);
        }
        let n_top_modules = circles::n_top_modules(&sources);
        if n_top_modules > 0 {
            found.insert(("modules-in-circles", name), n_top_modules);
        }
    }
    let many = namesakes.into_iter().filter(|(_, n_types)| *n_types > NAMESAKES_MAX);
    found.extend(many.map(|(name, n_types)| (("namesakes", name), n_types)));
    Ok(())
}

/// A crate's sources by the paths of their modules; `lib.rs` and `main.rs` are the empty path.
pub(crate) type Sources = BTreeMap<Vec<String>, syn::File>;

fn crates(files: &[String]) -> anyhow::Result<BTreeMap<String, Sources>> {
    let mut crates: BTreeMap<String, Sources> = BTreeMap::new();
    for file in files {
        let Some((name, path)) = place(file) else { continue };
        let text = repository::read(file)?;
        let parsed = syn::parse_file(&text).with_context(|| format!("cannot parse {file}"))?;
        crates.entry(name.to_owned()).or_default().insert(path, parsed);
    }
    Ok(crates)
}

/// The crate and the module's path of a product's source; tests have none.
fn place(file: &str) -> Option<(&str, Vec<String>)> {
    let (name, path) = file.strip_prefix("crates/")?.split_once("/src/")?;
    let path: Vec<String> = path.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    let is_left_out = TOOLS.contains(&name) || path.iter().any(|part| part == "tests");
    let is_root = matches!(path.as_slice(), [root] if root == "lib" || root == "main");
    (!is_left_out).then_some((name, if is_root { Vec::new() } else { path }))
}

/// The types of a crate.
#[derive(Default)]
struct Structure {
    /// Fields by the type's module and name.
    fields: BTreeMap<(Vec<String>, String), usize>,
    /// Inherent methods by the module of their block and the type's name.
    methods: Vec<(Vec<String>, String, usize)>,
}

impl Structure {
    fn read(sources: &Sources) -> Self {
        let mut structure = Self::default();
        for (path, file) in sources {
            Reader { structure: &mut structure, path }.visit_file(file);
        }
        structure
    }

    fn above_the_limits(&self) -> Vec<(&'static str, String, usize)> {
        let mut above = Vec::new();
        for ((_, name), fields) in self.fields.iter().filter(|(_, n)| **n > FIELDS_MAX) {
            above.push(("fields", name.clone(), *fields));
        }
        for (name, methods) in self.methods_by_type() {
            if methods > METHODS_MAX {
                above.push(("methods", name.to_owned(), methods));
            }
        }
        above
    }

    /// Methods of types of one name are added up where they belong to the same definition: the one
    /// whose module's path has most in common with the block's.
    fn methods_by_type(&self) -> Vec<(&str, usize)> {
        let mut sums: BTreeMap<(&[String], &str), usize> = BTreeMap::new();
        for (path, name, methods) in &self.methods {
            let definitions = self.fields.keys().filter(|(_, defined)| defined == name);
            let nearest = definitions.max_by_key(|(defined, _)| in_common(defined, path));
            let home = nearest.map_or(&[][..], |(defined, _)| defined);
            *sums.entry((home, name)).or_default() += methods;
        }
        sums.into_iter().map(|((_, name), methods)| (name, methods)).collect()
    }
}

fn in_common(one: &[String], other: &[String]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

/// Reads one file, its tests left out.
struct Reader<'a> {
    structure: &'a mut Structure,
    path: &'a [String],
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !module.attrs.iter().any(is_for_tests) {
            syn::visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        let key = (self.path.to_vec(), item.ident.to_string());
        self.structure.fields.insert(key, item.fields.len());
        syn::visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        let key = (self.path.to_vec(), item.ident.to_string());
        self.structure.fields.insert(key, 0);
        syn::visit::visit_item_enum(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if item.attrs.iter().any(is_for_tests) {
            return;
        }
        if let (None, syn::Type::Path(of)) = (&item.trait_, &*item.self_ty)
            && let Some(last) = of.path.segments.last()
        {
            let is_method = |item: &&syn::ImplItem| matches!(item, syn::ImplItem::Fn(it) if !it.attrs.iter().any(is_for_tests));
            let methods = item.items.iter().filter(is_method).count();
            self.structure.methods.push((self.path.to_vec(), last.ident.to_string(), methods));
        }
        syn::visit::visit_item_impl(self, item);
    }
}

/// `#[cfg(test)]` and what contains it.
pub(crate) fn is_for_tests(attribute: &syn::Attribute) -> bool {
    attribute.path().is_ident("cfg")
        && matches!(&attribute.meta, syn::Meta::List(list)
            if list.tokens.to_string().split(|c: char| !c.is_alphanumeric()).any(|word| word == "test"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn above(files: &[(&str, &str)]) -> Vec<(&'static str, String, usize)> {
        let parsed = |(file, text): &(&str, &str)| {
            (place(&format!("crates/a/src/{file}")).unwrap().1, syn::parse_file(text).unwrap())
        };
        Structure::read(&files.iter().map(parsed).collect()).above_the_limits()
    }

    fn many(n: usize, what: &str) -> String {
        (0..n).map(|i| what.replace('#', &i.to_string())).collect()
    }

    #[test]
    fn fields_and_methods_are_counted_by_type() {
        let fields = |n| format!("struct S {{ {} }}", many(n, "f#: u8,"));
        let methods = |n| format!("impl super::S {{ {} }}", many(n, "fn m#() {}"));
        assert_eq!(above(&[("s.rs", &fields(12)), ("s/more.rs", &methods(25))]), []);
        let large = [("s.rs", &*fields(13)), ("s/x.rs", &*methods(20)), ("s/y.rs", &*methods(6))];
        let expected = [("fields", "S".to_owned(), 13), ("methods", "S".to_owned(), 26)];
        assert_eq!(above(&large), expected);
    }

    #[test]
    fn types_of_one_name_are_told_apart() {
        let both = format!("struct S; impl S {{ {} }}", many(20, "fn m#() {}"));
        assert_eq!(above(&[("one.rs", &both), ("other.rs", &both)]), []);
    }
}
