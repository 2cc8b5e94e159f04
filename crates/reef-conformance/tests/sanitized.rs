//! The suite on the software device for ThreadSanitizer, which compiles everything anew: this
//! package has few dependencies. Without a sanitizer `tests/conformance.rs` of the library runs the
//! same.

reef_conformance::suite!(cpu, reef_cpu::Cpu, "");
