//! Files of a crate that use each other in a circle, and its top modules that do. A part of a module may
//! name what the module is, and a module may export its parts: neither makes a circle.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::Visit;

use crate::structure::{Sources, is_for_tests};

/// A module's path within its crate; the root's is empty.
type Module = Vec<String>;

/// Who uses whom.
type Arrows<'a> = BTreeMap<&'a [String], BTreeSet<&'a [String]>>;

/// The files in circles, each with the number of files in its circle.
pub(crate) fn files(sources: &Sources) -> Vec<(&Module, usize)> {
    let arrows = arrows(sources, |from, to, exports| {
        let is_up = from.starts_with(to);
        let is_export = exports && to.starts_with(from);
        (!is_up && !is_export).then_some((from, to))
    });
    let in_circle = |file: &&Module| {
        let reached = reached(&arrows, file);
        let reaches_back =
            |other: &&&[String]| self::reached(&arrows, other).contains(file.as_slice());
        reached.contains(file.as_slice()).then(|| reached.iter().filter(reaches_back).count())
    };
    sources.keys().filter_map(|file| Some((file, in_circle(&file)?))).collect()
}

/// The number of top modules in circles.
pub(crate) fn n_top_modules(sources: &Sources) -> usize {
    let arrows = arrows(sources, |from, to, _| {
        let (from, to) = (from.get(..1)?, to.get(..1)?);
        (from != to).then_some((from, to))
    });
    arrows.keys().filter(|top| reached(&arrows, top).contains(*top)).count()
}

/// The arrows that `keep` makes of a use of one file by another; its last argument is whether the use
/// exports.
fn arrows(
    sources: &Sources,
    keep: impl for<'a> Fn(&'a [String], &'a [String], bool) -> Option<(&'a [String], &'a [String])>,
) -> Arrows<'_> {
    let mut arrows = Arrows::new();
    for (path, file) in sources {
        let mut uses = Uses { is_root: path.is_empty(), found: Vec::new() };
        uses.visit_file(file);
        for (used, exports) in &uses.found {
            let target = target(sources, path, used).filter(|target| *target != path);
            if let Some((from, to)) = target.and_then(|target| keep(path, target, *exports)) {
                arrows.entry(from).or_default().insert(to);
            }
        }
    }
    arrows
}

/// The file that a path leads to, seen from a module.
fn target<'a>(sources: &'a Sources, module: &Module, used: &[String]) -> Option<&'a Module> {
    let n_up = used.iter().take_while(|part| *part == "super").count();
    let below = |module: &[String], rest: &[String]| [module, rest].concat();
    let full = match used.first()?.as_str() {
        "crate" => used.get(1..)?.to_vec(),
        "self" => below(module, used.get(1..)?),
        "super" => below(module.get(..module.len().checked_sub(n_up)?)?, used.get(n_up..)?),
        first if sources.contains_key(&below(module, &[first.to_owned()])) => below(module, used),
        _ => return None,
    };
    let heads = (0..=full.len()).rev().filter_map(|n| full.get(..n));
    heads.filter_map(|head| sources.get_key_value(head)).map(|(module, _)| module).next()
}

fn reached<'a>(arrows: &Arrows<'a>, from: &[String]) -> BTreeSet<&'a [String]> {
    let next = |file: &[String]| arrows.get(file).into_iter().flatten().copied();
    let (mut reached, mut todo) = (BTreeSet::new(), next(from).collect::<Vec<_>>());
    while let Some(file) = todo.pop() {
        if reached.insert(file) {
            todo.extend(next(file));
        }
    }
    reached
}

/// The paths that a file uses, and whether it exports what they lead to.
struct Uses {
    is_root: bool,
    found: Vec<(Vec<String>, bool)>,
}

impl<'ast> Visit<'ast> for Uses {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !module.attrs.iter().any(is_for_tests) {
            syn::visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let exports = !matches!(item.vis, syn::Visibility::Inherited);
        let is_left_out = exports && self.is_root || item.attrs.iter().any(is_for_tests);
        if !is_left_out {
            self.add_tree(&item.tree, &[], exports);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|it| it.ident.to_string()).collect();
        if names.len() > 1 && matches!(names.first().map(String::as_str), Some("crate" | "super")) {
            self.found.push((names, false));
        }
        syn::visit::visit_path(self, path);
    }
}

impl Uses {
    fn add_tree(&mut self, tree: &syn::UseTree, before: &[String], exports: bool) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.add_tree(&path.tree, &with(&path.ident), exports),
            syn::UseTree::Name(name) => self.found.push((with(&name.ident), exports)),
            syn::UseTree::Rename(name) => self.found.push((with(&name.ident), exports)),
            syn::UseTree::Glob(_) => self.found.push((before.to_vec(), exports)),
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.add_tree(tree, before, exports));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(files: &[(&str, &str)]) -> Sources {
        let module = |file: &str| {
            let parts = file.split('/').map(str::to_owned);
            parts.filter(|part| part != "lib").collect::<Module>()
        };
        files.iter().map(|(file, text)| (module(file), syn::parse_file(text).unwrap())).collect()
    }

    fn in_circles(files: &[(&str, &str)]) -> Vec<(String, usize)> {
        let sources = sources(files);
        super::files(&sources).into_iter().map(|(file, n)| (file.join("/"), n)).collect()
    }

    #[test]
    fn finds_files_that_use_each_other() {
        let circle = [
            ("a", "use crate::{b::deep::X as Z, c};"),
            ("b/deep", "fn f() { super::super::c::g() }"),
            ("b", "mod deep;"),
            ("c", "use super::a::*;"),
            ("d", "use crate::a::Y; use crate::lib_item;"),
            ("lib", "pub use a::X; mod a; mod b; mod c; mod d;"),
        ];
        let three = |file: &str| (file.to_owned(), 3);
        assert_eq!(in_circles(&circle), [three("a"), three("b/deep"), three("c")]);
        assert_eq!(n_top_modules(&sources(&circle)), 3);
    }

    #[test]
    fn finds_none_in_parts_that_name_their_module() {
        let parts = [
            ("a", "mod b; mod c; pub(crate) use b::B; use c::C; struct A;"),
            ("a/b", "use super::A; impl super::A { }"),
            ("a/c", "use crate::a::A; use super::b::X;"),
        ];
        assert_eq!(in_circles(&parts), []);
    }

    #[test]
    fn leaves_tests_out() {
        let files = [("a", "use crate::b;"), ("b", "#[cfg(test)] mod tests { use crate::a; }")];
        assert_eq!((in_circles(&files), n_top_modules(&sources(&files))), (Vec::new(), 0));
    }

    #[test]
    fn top_modules_are_in_circles_by_their_parts() {
        let files =
            [("a", "mod b; struct A;"), ("a/b", "use crate::c;"), ("c", "use crate::a::A;")];
        assert_eq!((in_circles(&files), n_top_modules(&sources(&files))), (Vec::new(), 2));
    }
}
