//! Has the program in Rust that publishes contexts of threads export its variable.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!(
        "cargo::rustc-link-arg-bin=publish-contexts=-Wl,--export-dynamic-symbol=otel_thread_ctx_v1"
    );
}
