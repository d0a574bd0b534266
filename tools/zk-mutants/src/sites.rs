//! Finds the places of a source file that a mutant can change.
//!
//! Pure: takes a text and returns places in it.

use std::ops::Range;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    AngleBracketedGenericArguments, Attribute, BinOp, Block, Expr, ExprBinary, ImplItemConst,
    ImplItemFn, ItemConst, ItemEnum, ItemFn, ItemImpl, ItemMacro, ItemMod, ItemStatic, ItemStruct,
    Lit, Pat, ReturnType, Signature, Stmt, TraitItemConst, TraitItemFn, Type, UnOp,
};

/// How a changed text takes its place in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Instead of an expression.
    Expression,
    /// A statement that is skipped.
    Statement,
    /// At the start of a function's body, which it ends.
    Body,
}

/// A place in a file, and its change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    /// The changed text, in bytes of the file; empty for a body.
    pub(crate) range: Range<usize>,
    pub(crate) line: usize,
    pub(crate) form: Form,
    /// What a person reads; for a body, the function's signature.
    pub(crate) original: String,
    pub(crate) changed: String,
}

impl Site {
    /// Returns whether both cannot be written into one text.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.range.start < other.range.end && other.range.start < self.range.end
    }
}

/// A module in a file of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Module {
    /// The names of the modules around it in this file, and its own.
    pub(crate) path: Vec<String>,
}

/// What a source file consists of, without its tests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) sites: Vec<Site>,
    pub(crate) modules: Vec<Module>,
    /// The number of lines that contain code.
    pub(crate) code_lines: usize,
}

/// Parses a file.
///
/// # Errors
///
/// The text is not Rust.
pub(crate) fn read(text: &str) -> syn::Result<Source> {
    let file = syn::parse_file(text)?;
    let mut finder = Finder {
        text,
        source: Source::default(),
        modules: Vec::new(),
        left_out: Vec::new(),
    };
    finder.visit_file(&file);
    finder.source.code_lines = code_lines(text, &finder.left_out);
    Ok(finder.source)
}

struct Finder<'a> {
    text: &'a str,
    source: Source,
    /// The modules around the current item.
    modules: Vec<String>,
    /// The items that are tests or not built.
    left_out: Vec<Range<usize>>,
}

impl Finder<'_> {
    fn slice(&self, range: Range<usize>) -> &str {
        self.text.get(range).unwrap_or_default()
    }

    fn text_of(&self, node: &impl Spanned) -> &str {
        self.slice(node.span().byte_range())
    }

    fn add(&mut self, node: &impl Spanned, form: Form, changed: String) {
        let span = node.span();
        self.source.sites.push(Site {
            range: span.byte_range(),
            line: span.start().line,
            form,
            original: self.slice(span.byte_range()).to_owned(),
            changed,
        });
    }

    /// Returns whether an item is not part of the tested build, and notes its lines.
    fn leave_out(&mut self, attributes: &[Attribute], item: &impl Spanned) -> bool {
        let is_left_out = attributes
            .iter()
            .any(|attribute| is_of_other_builds(attribute, self.text_of(attribute)));
        if is_left_out {
            self.left_out.push(item.span().byte_range());
        }
        is_left_out
    }

    fn binary(&mut self, expr: &ExprBinary) {
        let changed = match expr.op {
            BinOp::Eq(_) => "!=",
            BinOp::Ne(_) => "==",
            BinOp::Lt(_) => "<=",
            BinOp::Le(_) => "<",
            BinOp::Gt(_) => ">=",
            BinOp::Ge(_) => ">",
            BinOp::And(_) if !has_let(&expr.left) && !has_let(&expr.right) => "||",
            BinOp::Or(_) => "&&",
            BinOp::Add(_) => "-",
            BinOp::Sub(_) => "+",
            BinOp::AddAssign(_) => "-=",
            BinOp::SubAssign(_) => "+=",
            _ => return,
        };
        let (whole, op) = (expr.span().byte_range(), expr.op.span().byte_range());
        let text = format!(
            "{}{changed}{}",
            self.slice(whole.start..op.start),
            self.slice(op.end..whole.end)
        );
        self.add(expr, Form::Expression, text);
    }

    fn condition(&mut self, condition: &Expr) {
        let has_other_mutant = match condition {
            Expr::Unary(unary) => matches!(unary.op, UnOp::Not(_)),
            Expr::Binary(binary) => matches!(binary.op, BinOp::Eq(_) | BinOp::Ne(_)),
            Expr::Lit(_) => true,
            _ => false,
        };
        if !has_other_mutant && !has_let(condition) {
            let changed = format!("!({})", self.text_of(condition));
            self.add(condition, Form::Expression, changed);
        }
    }

    fn literal(&mut self, literal: &Lit) {
        let changed = match literal {
            Lit::Bool(bool) => (!bool.value).to_string(),
            Lit::Int(int) => {
                let Ok(value) = int.base10_parse::<u64>() else {
                    return;
                };
                let Some(next) = value.checked_add(1) else {
                    return;
                };
                format!("{next}{}", int.suffix())
            }
            _ => return,
        };
        self.add(literal, Form::Expression, changed);
    }

    fn function(&mut self, signature: &Signature, block: &Block) {
        let Some(first) = block.stmts.first() else {
            return;
        };
        let changes: &[&str] = match &signature.output {
            ReturnType::Default => &["return;"],
            ReturnType::Type(_, of) => match last_name(of).as_deref() {
                Some("bool") => &["return true;", "return false;"],
                Some("Option") => &["return None;"],
                _ => return,
            },
        };
        let only = match block.stmts.as_slice() {
            [only] => Some(format!("return {};", self.text_of(only))),
            _ => None,
        };
        let start = first.span().byte_range().start;
        for change in changes
            .iter()
            .filter(|change| Some(**change) != only.as_deref())
        {
            self.source.sites.push(Site {
                range: start..start,
                line: signature.span().start().line,
                form: Form::Body,
                original: self.text_of(signature).to_owned(),
                changed: (*change).to_owned(),
            });
        }
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if self.leave_out(&item.attrs, item) {
            return;
        }
        self.modules.push(item.ident.to_string());
        if item.content.is_none() {
            let path = self.modules.clone();
            self.source.modules.push(Module { path });
        }
        visit::visit_item_mod(self, item);
        self.modules.pop();
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        if !self.leave_out(&item.attrs, item) && item.sig.constness.is_none() {
            self.function(&item.sig, &item.block);
            self.visit_block(&item.block);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        if !self.leave_out(&item.attrs, item) && item.sig.constness.is_none() {
            self.function(&item.sig, &item.block);
            self.visit_block(&item.block);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        if let Some(block) = &item.default
            && !self.leave_out(&item.attrs, item)
        {
            self.function(&item.sig, block);
            self.visit_block(block);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        let of = item
            .trait_
            .as_ref()
            .and_then(|(_, of, _)| of.segments.last());
        // Nothing may rely on the text of a Debug.
        if of.is_none_or(|of| of.ident != "Debug") && !self.leave_out(&item.attrs, item) {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        let attributes = match statement {
            Stmt::Local(local) => &local.attrs,
            Stmt::Expr(expr, _) => attributes_of(expr),
            Stmt::Item(_) | Stmt::Macro(_) => &[][..],
        };
        if self.leave_out(attributes, statement) {
            return;
        }
        if let Stmt::Expr(expr, Some(_)) = statement
            && is_call(expr)
        {
            self.add(statement, Form::Statement, String::new());
        }
        visit::visit_stmt(self, statement);
    }

    fn visit_expr(&mut self, expr: &'ast Expr) {
        match expr {
            Expr::Binary(binary) => self.binary(binary),
            Expr::Unary(unary) if matches!(unary.op, UnOp::Not(_)) => {
                let changed = self.text_of(&unary.expr).to_owned();
                self.add(unary, Form::Expression, changed);
            }
            Expr::If(choice) => self.condition(&choice.cond),
            Expr::While(repeat) => self.condition(&repeat.cond),
            Expr::Lit(literal) => self.literal(&literal.lit),
            Expr::Match(choice) => {
                for guard in choice.arms.iter().filter_map(|arm| arm.guard.as_ref()) {
                    self.add(&guard.1, Form::Expression, "true".to_owned());
                    self.add(&guard.1, Form::Expression, "false".to_owned());
                }
            }
            // The length of an array, or a block, that the compiler evaluates.
            Expr::Repeat(repeat) => return self.visit_expr(&repeat.expr),
            Expr::Const(_) => return,
            _ => {}
        }
        visit::visit_expr(self, expr);
    }

    fn visit_item_const(&mut self, _: &'ast ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast TraitItemConst) {}
    fn visit_item_enum(&mut self, _: &'ast ItemEnum) {}
    fn visit_item_struct(&mut self, _: &'ast ItemStruct) {}
    fn visit_item_macro(&mut self, _: &'ast ItemMacro) {}
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
    fn visit_pat(&mut self, _: &'ast Pat) {}
    fn visit_type(&mut self, _: &'ast Type) {}
    fn visit_angle_bracketed_generic_arguments(&mut self, _: &'ast AngleBracketedGenericArguments) {
    }
}

/// Returns whether what an attribute is about is a test, or is not built with all features on this system.
fn is_of_other_builds(attribute: &Attribute, text: &str) -> bool {
    let name = attribute
        .path()
        .segments
        .last()
        .map(|it| it.ident.to_string());
    match name.as_deref() {
        Some("test") => true,
        Some("cfg") => text
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '"')
            .any(|word| matches!(word, "test" | "doctest" | "doc" | "not")),
        _ => false,
    }
}

/// Returns whether a condition has a `let` in its chain.
fn has_let(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(binary) if matches!(binary.op, BinOp::And(_)) => {
            has_let(&binary.left) || has_let(&binary.right)
        }
        _ => false,
    }
}

/// Returns whether an expression is a call, awaited and with `?` or not.
fn is_call(expr: &Expr) -> bool {
    match expr {
        Expr::Call(_) | Expr::MethodCall(_) => true,
        Expr::Await(wait) => is_call(&wait.base),
        Expr::Try(attempt) => is_call(&attempt.expr),
        _ => false,
    }
}

/// Returns the attributes of an expression that is built on a condition.
fn attributes_of(expr: &Expr) -> &[Attribute] {
    match expr {
        Expr::Block(it) => &it.attrs,
        Expr::Call(it) => &it.attrs,
        Expr::If(it) => &it.attrs,
        Expr::Match(it) => &it.attrs,
        Expr::MethodCall(it) => &it.attrs,
        Expr::Return(it) => &it.attrs,
        Expr::Assign(it) => &it.attrs,
        _ => &[],
    }
}

fn last_name(of: &Type) -> Option<String> {
    let Type::Path(of) = of else { return None };
    of.path.segments.last().map(|last| last.ident.to_string())
}

/// Counts the lines that are neither empty, nor a comment, nor left out.
fn code_lines(text: &str, left_out: &[Range<usize>]) -> usize {
    let mut start = 0;
    let mut count = 0;
    for line in text.split_inclusive('\n') {
        let is_code = !line.trim().is_empty() && !line.trim_start().starts_with("//");
        let is_left_out = left_out.iter().any(|out| out.contains(&start));
        count += usize::from(is_code && !is_left_out);
        start += line.len();
    }
    count
}

#[cfg(test)]
mod tests;
