# Sourced by the Rust suites: builds the one in the current folder. Their dependencies are locked to the broker's
# versions where both have them: what its tests are built from need not be built again.
rust_target=${CARGO_TARGET_DIR:-../../target}

build_rust() { # option...
  command -v cargo >/dev/null || { echo "$PWD: cargo is missing, suite left out" >&2; exit 77; }
  cargo build --quiet --locked --target-dir "$rust_target" "$@" >&2
}
