//! Never built: the package has this target because a package must have one.

fn main() {}
