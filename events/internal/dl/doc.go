// Package dl finds and loads a vendor's shared library. It is the only place of
// the module that calls the system's loader.
//
// # Order of the search
//
// The first candidate that loads and that the caller accepts is taken:
//
//  1. Spec.Override, alone: if it cannot be used, that is the answer.
//  2. The variable named by Spec.Env, alone in the same way.
//  3. What the process has loaded already, by the loader's own knowledge and then
//     by the file names mapped into the process.
//  4. The directories that the user listed for the loader (LD_LIBRARY_PATH; PATH
//     on Windows), each name in the order of Spec.Names.
//  5. Each name in the order of Spec.Names: by the loader, then in Spec.Dirs. A
//     preferred name in a known directory thus comes before a lesser name that the
//     loader happens to know.
//  6. Other versions of the library in all those directories: full versions of a
//     name first (libcudart.so.13.0.96), then majors that no name speaks of,
//     newest first.
//
// Two candidates are never an error, a bad one never hides a good one, and a
// search that succeeds says nothing; Library.Skipped has what it passed over.
//
// # What is never done
//
// Nothing is unloaded: vendors' libraries crash when they are, and a call into
// one that has gone cannot be recovered from. Nothing from a directory named
// stubs is taken: what lies there is for the linker and answers every call with
// an error. The loader is never given an empty name, which would mean this
// program itself.
package dl
