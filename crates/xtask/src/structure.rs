//! Types with more than one job, and modules of a crate that use each other in a circle: counted
//! from the sources of the product's crates, and held against the same list as sizes.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use syn::visit::Visit;

use crate::repository;
use crate::sizes::Measures;

/// Fields of a type from which it needs a line in the list.
const FIELDS_MAX: usize = 12;
/// Inherent methods of a type from which it needs a line in the list.
const METHODS_MAX: usize = 25;

/// The type whose fields are those of the specification, however many.
const SPECIFIED: &str = "amqp091::Properties";

/// Crates that are tools or tests: their types may be as they like.
const TOOLS: &[&str] = &["bench", "counting", "instructions", "perf", "sim", "testing", "xtask"];

/// Adds the product's types above the limits, and the modules in circles of each of its crates.
pub(crate) fn measure(found: &mut Measures) -> anyhow::Result<()> {
    for (name, sources) in crates(&repository::files()?)? {
        for (kind, what, number) in Structure::read(&sources).above_the_limits() {
            let place = format!("{name}{what}");
            if place != SPECIFIED {
                found.insert((kind, place), number);
            }
        }
    }
    Ok(())
}

/// A crate's sources by the paths of their modules; `lib.rs` and `main.rs` are the empty path.
type Sources = BTreeMap<Vec<String>, syn::File>;

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

/// The types of a crate and which of its top modules use which.
#[derive(Default)]
struct Structure {
    /// Fields by the type's module and name.
    fields: BTreeMap<(Vec<String>, String), usize>,
    /// Inherent methods by the module of their block and the type's name.
    methods: Vec<(Vec<String>, String, usize)>,
    uses: BTreeMap<String, BTreeSet<String>>,
}

impl Structure {
    fn read(sources: &Sources) -> Self {
        let mut structure = Self::default();
        let tops: BTreeSet<&String> = sources.keys().filter_map(|path| path.first()).collect();
        for (path, file) in sources {
            let mut reader = Reader { structure: &mut structure, path, used: BTreeSet::new() };
            reader.visit_file(file);
            let used = reader.used;
            if let Some(top) = path.first() {
                let used = used.into_iter().filter(|used| tops.contains(used) && used != top);
                structure.uses.entry(top.clone()).or_default().extend(used);
            }
        }
        structure
    }

    fn above_the_limits(&self) -> Vec<(&'static str, String, usize)> {
        let mut above = Vec::new();
        for ((_, name), fields) in self.fields.iter().filter(|(_, n)| **n > FIELDS_MAX) {
            above.push(("fields", format!("::{name}"), *fields));
        }
        for (name, methods) in self.methods_by_type() {
            if methods > METHODS_MAX {
                above.push(("methods", format!("::{name}"), methods));
            }
        }
        let in_circles = self.uses.keys().filter(|top| self.reaches(top).contains(top)).count();
        if in_circles > 0 {
            above.push(("modules-in-circles", String::new(), in_circles));
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

    fn reaches<'a>(&'a self, from: &'a String) -> BTreeSet<&'a String> {
        let (mut reached, mut todo) = (BTreeSet::new(), vec![from]);
        while let Some(top) = todo.pop() {
            let next = self.uses.get(top).into_iter().flatten();
            todo.extend(next.filter(|next| reached.insert(*next)));
        }
        reached
    }
}

fn in_common(one: &[String], other: &[String]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

/// Reads one file, its tests left out.
struct Reader<'a> {
    structure: &'a mut Structure,
    path: &'a [String],
    /// First names behind `crate::`.
    used: BTreeSet<String>,
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

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let mut segments = path.segments.iter();
        if segments.next().is_some_and(|first| first.ident == "crate") {
            self.used.extend(segments.next().map(|second| second.ident.to_string()));
        }
        syn::visit::visit_path(self, path);
    }

    fn visit_use_path(&mut self, path: &'ast syn::UsePath) {
        if path.ident == "crate" {
            self.used.extend(first_names(&path.tree));
        }
        syn::visit::visit_use_path(self, path);
    }
}

/// The names a tree of `use` begins with.
fn first_names(tree: &syn::UseTree) -> Vec<String> {
    match tree {
        syn::UseTree::Path(path) => vec![path.ident.to_string()],
        syn::UseTree::Name(name) => vec![name.ident.to_string()],
        syn::UseTree::Rename(rename) => vec![rename.ident.to_string()],
        syn::UseTree::Group(group) => group.items.iter().flat_map(first_names).collect(),
        syn::UseTree::Glob(_) => Vec::new(),
    }
}

/// `#[cfg(test)]` and what contains it.
fn is_for_tests(attribute: &syn::Attribute) -> bool {
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
        let expected = [("fields", "::S".to_owned(), 13), ("methods", "::S".to_owned(), 26)];
        assert_eq!(above(&large), expected);
    }

    #[test]
    fn types_of_one_name_are_told_apart() {
        let both = format!("struct S; impl S {{ {} }}", many(20, "fn m#() {}"));
        assert_eq!(above(&[("one.rs", &both), ("other.rs", &both)]), []);
    }

    #[test]
    fn circles_are_found_and_tests_are_left_out() {
        let circle = [
            ("a.rs", "use crate::{b::X, c};"),
            ("b/deep.rs", "fn f() { crate::c::g() }"),
            ("c.rs", "use crate::a::Y;"),
            ("d.rs", "use crate::a::Y; use crate::lib_item;"),
        ];
        assert_eq!(above(&circle), [("modules-in-circles", String::new(), 3)]);
        let only_in_tests =
            [("a.rs", "use crate::b;"), ("b.rs", "#[cfg(test)] mod tests { use crate::a; }")];
        assert_eq!(above(&only_in_tests), []);
    }
}
