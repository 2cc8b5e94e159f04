//! Nodes of a forest as tables: leaves first, then branches.

use crate::onnx::fault::Result;
use std::collections::{HashMap, HashSet};

/// Condition of a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mode {
    LessOrEqual,
    Less,
    GreaterOrEqual,
    Greater,
    Equal,
    NotEqual,
}

/// A branch: the first child follows if the condition holds, or the second.
#[derive(Debug, Clone, Copy)]
pub(super) struct Branch {
    pub(super) feature: usize,
    pub(super) mode: Mode,
    pub(super) threshold: f64,
    /// A missing value (NaN) holds.
    pub(super) takes_missing: bool,
    pub(super) children: [Child; 2],
}

/// Number of a leaf, or of a branch, each counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Child {
    Leaf(usize),
    Branch(usize),
}

/// Trees with leaves and branches of their own.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    pub(super) leaves: usize,
    pub(super) branches: Vec<Branch>,
    pub(super) roots: Vec<Child>,
}

/// Most levels of a tree; each is a few operations.
const MAX_DEPTH: usize = 1024;

impl Nodes {
    /// Number of a node among all: leaves come first.
    pub(super) fn number(&self, child: Child) -> usize {
        match child {
            Child::Leaf(leaf) => leaf,
            Child::Branch(branch) => self.leaves + branch,
        }
    }

    /// Levels of branches of the deepest tree.
    pub(super) fn depth(&self) -> Result<usize> {
        let mut depth = 0;
        let mut level: Vec<usize> = self.roots.iter().filter_map(|&root| branch(root)).collect();
        while !level.is_empty() {
            depth += 1;
            if depth > MAX_DEPTH {
                return Err(format!("a tree has more than {MAX_DEPTH} levels, or a circle"));
            }
            let mut next: Vec<usize> = level
                .iter()
                .flat_map(|&at| self.branches[at].children)
                .filter_map(branch)
                .collect();
            next.sort_unstable();
            next.dedup();
            level = next;
        }
        Ok(depth)
    }

    /// Refuses branches that no root leads to.
    fn check_reached(&self) -> Result<()> {
        let mut reached = vec![false; self.branches.len()];
        let mut left: Vec<usize> = self.roots.iter().filter_map(|&root| branch(root)).collect();
        while let Some(at) = left.pop() {
            if !std::mem::replace(&mut reached[at], true) {
                left.extend(self.branches[at].children.into_iter().filter_map(branch));
            }
        }
        if reached.contains(&false) {
            return Err("a tree has branches that its root does not lead to".into());
        }
        Ok(())
    }

    /// Refuses features that rows of `columns` don't have.
    pub(super) fn check_features(&self, columns: usize) -> Result<()> {
        match self.branches.iter().find(|branch| branch.feature >= columns) {
            Some(branch) => Err(format!("feature {} of {columns}", branch.feature)),
            None => Ok(()),
        }
    }

    /// Replaces one branch by one for each of `values`: the first that is equal decides. There is
    /// at least one.
    pub(super) fn expand_member(&mut self, at: usize, values: &[f64]) {
        let [is_member, otherwise] = self.branches[at].children;
        let of = self.branches[at];
        for (k, &threshold) in values.iter().enumerate() {
            let is_last = k + 1 == values.len();
            let later = Child::Branch(self.branches.len() + usize::from(k > 0));
            let children = [is_member, if is_last { otherwise } else { later }];
            let branch = Branch { mode: Mode::Equal, threshold, children, ..of };
            match k {
                0 => self.branches[at] = branch,
                _ => self.branches.push(branch),
            }
        }
    }
}

fn branch(child: Child) -> Option<usize> {
    match child {
        Child::Branch(branch) => Some(branch),
        Child::Leaf(_) => None,
    }
}

/// Lists of a file with an entry for each node, and the names of nodes as they are written.
pub(super) struct NodeLists<'a> {
    pub(super) trees: &'a [i64],
    pub(super) ids: &'a [i64],
    pub(super) features: &'a [i64],
    pub(super) modes: Vec<&'a str>,
    pub(super) thresholds: Vec<f64>,
    pub(super) children: [&'a [i64]; 2],
    /// Empty if the file has none.
    pub(super) missing: &'a [i64],
}

/// Numbers of leaves by tree and node.
type LeafNumbers = HashMap<(i64, i64), usize>;

/// Nodes, and the leaf of each name.
pub(super) struct NamedNodes {
    pub(super) nodes: Nodes,
    pub(super) leaves: LeafNumbers,
}

impl NodeLists<'_> {
    /// Nodes of all trees.
    pub(super) fn named(&self) -> Result<NamedNodes> {
        self.check_lengths()?;
        let (children, leaves) = self.numbers()?;
        let mut nodes = Nodes { leaves: leaves.len(), ..Nodes::default() };
        let mut has_parent = vec![false; self.ids.len()];
        let at: HashMap<(i64, i64), usize> =
            (0..self.ids.len()).map(|k| (self.name(k), k)).collect();
        for k in (0..self.ids.len()).filter(|&k| self.modes[k] != LEAF) {
            let to = [self.children[0][k], self.children[1][k]];
            let child = |id: i64| {
                let found = at.get(&(self.trees[k], id)).copied();
                found.ok_or_else(|| format!("tree {} has no node {id}", self.trees[k]))
            };
            let to = [child(to[0])?, child(to[1])?];
            to.iter().for_each(|&k| has_parent[k] = true);
            nodes.branches.push(Branch {
                feature: crate::tensors::axes::size(self.features[k])?,
                mode: mode(self.modes[k])?,
                threshold: self.thresholds[k],
                takes_missing: self.missing.get(k).is_some_and(|&flag| flag != 0),
                children: to.map(|k| children[k]),
            });
        }
        nodes.roots = self.roots(&children, &has_parent)?;
        nodes.check_reached()?;
        Ok(NamedNodes { nodes, leaves })
    }

    /// The root of each tree: the only one of its nodes that no branch leads to.
    fn roots(&self, children: &[Child], has_parent: &[bool]) -> Result<Vec<Child>> {
        let mut seen = HashSet::new();
        let mut roots = HashMap::new();
        for k in (0..self.ids.len()).filter(|&k| !has_parent[k]) {
            if roots.insert(self.trees[k], children[k]).is_some() {
                return Err(format!("tree {} has several roots", self.trees[k]));
            }
        }
        let trees = self.trees.iter().filter(|&&tree| seen.insert(tree));
        let root = |tree: &i64| {
            let root = roots.get(tree).copied();
            root.ok_or_else(|| format!("tree {tree} has no root"))
        };
        trees.map(root).collect()
    }

    fn name(&self, k: usize) -> (i64, i64) {
        (self.trees[k], self.ids[k])
    }

    fn check_lengths(&self) -> Result<()> {
        let len = self.ids.len();
        let lens = [
            self.trees.len(),
            self.features.len(),
            self.modes.len(),
            self.thresholds.len(),
            self.children[0].len(),
            self.children[1].len(),
        ];
        let fits = lens.iter().all(|&other| other == len)
            && (self.missing.is_empty() || self.missing.len() == len);
        if fits && len > 0 {
            return Ok(());
        }
        Err(format!("attributes of nodes must have one entry for each, got {len} and {lens:?}"))
    }

    /// Each node as a child, and the numbers of leaves by their names.
    fn numbers(&self) -> Result<(Vec<Child>, LeafNumbers)> {
        let mut names = HashSet::new();
        let (mut leaves, mut branches, mut children) = (HashMap::new(), 0, Vec::new());
        for k in 0..self.ids.len() {
            if !names.insert(self.name(k)) {
                return Err(format!(
                    "node {} of tree {} is there twice",
                    self.ids[k], self.trees[k]
                ));
            }
            if self.modes[k] == LEAF {
                children.push(Child::Leaf(leaves.len()));
                leaves.insert(self.name(k), leaves.len());
            } else {
                children.push(Child::Branch(branches));
                branches += 1;
            }
        }
        Ok((children, leaves))
    }
}

const LEAF: &str = "LEAF";

fn mode(name: &str) -> Result<Mode> {
    Ok(match name {
        "BRANCH_LEQ" => Mode::LessOrEqual,
        "BRANCH_LT" => Mode::Less,
        "BRANCH_GTE" => Mode::GreaterOrEqual,
        "BRANCH_GT" => Mode::Greater,
        "BRANCH_EQ" => Mode::Equal,
        "BRANCH_NEQ" => Mode::NotEqual,
        other => return Err(format!("attribute nodes_modes: unknown mode {other:?}")),
    })
}
