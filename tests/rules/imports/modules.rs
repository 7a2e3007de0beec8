//! The modules of a crate: which file defines a name, and which names a file uses.
//!
//! Inherent methods and trait methods are not followed, because their files do not stand in the text of a call.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use syn::visit::{Visit, visit_item_mod, visit_item_use, visit_path};
use syn::{Attribute, Item, ItemMod, ItemUse, Macro, UseTree, Visibility};

/// A path from the root of the crate.
type ModulePath = Vec<String>;

/// The modules of a crate.
#[derive(Default)]
pub struct Crate {
    modules: BTreeMap<ModulePath, Module>,
    files: BTreeMap<String, (ModulePath, syn::File)>,
}

/// What a module defines, imports and re-exports.
#[derive(Default)]
struct Module {
    file: String,
    defined: BTreeSet<String>,
    imported: BTreeMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
}

/// What a path leads to.
enum Target {
    Module(ModulePath),
    Item(String),
}

impl Crate {
    /// Reads the modules from `lib.rs` on.
    pub fn read(root: &Path) -> Self {
        let mut read = Self::default();
        read.add_file(root, "lib.rs", &[]);
        read
    }

    /// Returns for each file the files that define what it uses.
    pub fn needs(&self) -> super::Needs {
        let mut needs = super::Needs::new();
        for (file, (module, tree)) in &self.files {
            let mut uses = Uses { of: self, module: module.clone(), files: BTreeSet::new() };
            uses.visit_file(tree);
            uses.files.remove(file);
            needs.insert(file.clone(), uses.files);
        }
        needs
    }

    fn add_file(&mut self, root: &Path, file: &str, module: &[String]) {
        let text = std::fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        let tree = syn::parse_file(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
        self.add_items(root, file, module, &tree.items);
        self.files.insert(file.to_owned(), (module.to_vec(), tree));
    }

    fn add_items(&mut self, root: &Path, file: &str, module: &[String], items: &[Item]) {
        let mut here = Module { file: file.to_owned(), ..Module::default() };
        for item in items {
            match item {
                Item::Mod(inner) if !is_test(&inner.attrs) => {
                    let path = [module, &[inner.ident.to_string()]].concat();
                    match &inner.content {
                        Some((_, items)) => self.add_items(root, file, &path, items),
                        None => {
                            let flat = format!("{}.rs", path.join("/"));
                            let folder = format!("{}/mod.rs", path.join("/"));
                            let file = if root.join(&flat).exists() { flat } else { folder };
                            self.add_file(root, &file, &path);
                        }
                    }
                }
                Item::Use(import) if !is_test(&import.attrs) => here.import(&import.tree, &mut Vec::new()),
                _ => here.defined.extend(name_of(item)),
            }
        }
        self.modules.insert(module.to_vec(), here);
    }

    /// Returns what a path in a module leads to; `None` if it leads out of the crate.
    fn find(&self, module: &[String], path: &[String], depth: usize) -> Option<Target> {
        let (first, rest) = path.split_first()?;
        if depth == 0 {
            return None;
        }
        match first.as_str() {
            "crate" => return self.find_in(Vec::new(), rest, depth),
            "self" => return self.find_in(module.to_vec(), rest, depth),
            "super" => {
                let (_, parent) = module.split_last()?;
                let up = [&["self".to_owned()][..], rest].concat();
                return self.find(
                    parent,
                    if rest.first().is_some_and(|name| name == "super") { rest } else { &up },
                    depth - 1,
                );
            }
            _ => {}
        }
        self.find_in(module.to_vec(), path, depth)
    }

    /// Returns the file of the module that an absolute path ends in, if a macro may declare the name there: no item has it.
    fn declared_by_a_macro(&self, path: &[String]) -> Option<String> {
        let (_, rest) = path.split_first().filter(|(first, _)| *first == "crate")?;
        let is_module = |names: &&[String]| self.modules.contains_key(*names);
        let module = (0..rest.len()).rev().map(|end| &rest[..end]).find(is_module)?;
        self.modules.get(module).map(|module| module.file.clone())
    }

    /// As [`Crate::find`], for a path of names below a module.
    fn find_in(&self, module: ModulePath, path: &[String], depth: usize) -> Option<Target> {
        let Some((first, rest)) = path.split_first() else { return Some(Target::Module(module)) };
        let inner = [&module[..], std::slice::from_ref(first)].concat();
        if self.modules.contains_key(&inner) {
            return self.find_in(inner, rest, depth);
        }
        let here = self.modules.get(&module)?;
        if here.defined.contains(first) {
            return Some(Target::Item(here.file.clone()));
        }
        if let Some(import) = here.imported.get(first) {
            // An import of a crate by its own name leads out of this one.
            return match self.find(&module, import, depth - 1)? {
                Target::Module(imported) => self.find_in(imported, rest, depth - 1),
                item => Some(item),
            };
        }
        here.globs.iter().find_map(|glob| match self.find(&module, glob, depth - 1)? {
            Target::Module(imported) if imported != module => self.find_in(imported, path, depth - 1),
            _ => None,
        })
    }
}

impl Module {
    fn import(&mut self, tree: &UseTree, above: &mut Vec<String>) {
        let mut add = |name: &syn::Ident, to: &syn::Ident, above: &[String]| {
            let is_self = name == "self";
            let path = if is_self { above.to_vec() } else { [above, &[name.to_string()]].concat() };
            let to = if is_self && to == "self" { above.last().cloned() } else { Some(to.to_string()) };
            // `use name::…` names a crate; a path of one name that is imported as itself leads nowhere else.
            if let Some(to) = to.filter(|to| path != [to.clone()]) {
                self.imported.insert(to, path);
            }
        };
        match tree {
            UseTree::Path(path) => {
                above.push(path.ident.to_string());
                self.import(&path.tree, above);
                above.pop();
            }
            UseTree::Name(name) => add(&name.ident, &name.ident, above),
            UseTree::Rename(rename) => add(&rename.ident, &rename.rename, above),
            UseTree::Glob(_) => self.globs.push(above.clone()),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.import(tree, above)),
        }
    }
}

/// Collects the files that the items of a file use.
struct Uses<'a> {
    of: &'a Crate,
    module: ModulePath,
    files: BTreeSet<String>,
}

impl Uses<'_> {
    fn add(&mut self, path: &[String]) {
        match self.of.find(&self.module, path, 20) {
            Some(Target::Item(file)) => drop(self.files.insert(file)),
            Some(Target::Module(_)) => {}
            None => self.files.extend(self.of.declared_by_a_macro(path)),
        }
    }

    fn add_import(&mut self, tree: &UseTree, above: &mut Vec<String>) {
        match tree {
            UseTree::Path(path) => {
                above.push(path.ident.to_string());
                self.add_import(&path.tree, above);
                above.pop();
            }
            UseTree::Name(name) => self.add(&[&above[..], &[name.ident.to_string()]].concat()),
            UseTree::Rename(rename) => self.add(&[&above[..], &[rename.ident.to_string()]].concat()),
            UseTree::Glob(_) => {}
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.add_import(tree, above)),
        }
    }
}

impl<'ast> Visit<'ast> for Uses<'_> {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !is_test(&item.attrs) {
            self.module.push(item.ident.to_string());
            visit_item_mod(self, item);
            self.module.pop();
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if matches!(item.vis, Visibility::Inherited) && !is_test(&item.attrs) {
            self.add_import(&item.tree, &mut Vec::new());
            visit_item_use(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.add(&names);
        visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.visit_path(&call.path);
        self.add_tokens(call.tokens.clone());
    }
}

impl Uses<'_> {
    /// Adds the paths in the text of a macro.
    fn add_tokens(&mut self, tokens: proc_macro2::TokenStream) {
        use proc_macro2::TokenTree;
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(name) => {
                    if colons < 2 {
                        self.add(&std::mem::take(&mut path));
                    }
                    path.push(name.to_string());
                    colons = 0;
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
                other => {
                    self.add(&std::mem::take(&mut path));
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.add_tokens(group.stream());
                    }
                }
            }
        }
        self.add(&path);
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else { return false };
        list.path.is_ident("cfg") && list.tokens.to_string().starts_with("test")
    })
}

fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        _ => return None,
    };
    Some(name.to_string())
}
