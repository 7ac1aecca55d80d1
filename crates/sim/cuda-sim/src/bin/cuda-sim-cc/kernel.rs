//! Kernels by their names: the caller of a kernel needs the types of its parameters, which its mangled name holds.

use crate::command_line::Failure;

/// The section that `host_defines.h` puts kernels into.
const SECTION: &str = ".text.cuda_sim_kernel";

/// The kernels of an object file, from `objdump -t`: their symbols.
pub(crate) fn symbols(table: &str) -> Vec<String> {
    // Address, seven flags, section, size, name; a visibility may stand before the name.
    let kernels = table.lines().filter(|line| line.contains(" F ") && line.contains(SECTION));
    kernels.filter_map(|line| line.split_whitespace().last()).map(str::to_owned).collect()
}

/// The C++ type of a pointer to the kernel, from its name as `c++filt` prints it.
pub(crate) fn pointer_type(readable: &str) -> Result<String, Failure> {
    for unnamed in ["{lambda", "'lambda", "{unnamed", "$_"] {
        if readable.contains(unnamed) {
            return Err(format!(
                "kernel `{readable}` takes a lambda or a type without a name: give it a named type"
            ));
        }
    }
    let Some(inside) = readable.strip_suffix(')') else {
        // extern "C": the name holds no types.
        return Ok(format!("decltype(&{readable})"));
    };
    let mut depth = 1_u32;
    let mut open = None;
    for (i, c) in inside.char_indices().rev() {
        match c {
            ')' => depth += 1,
            '(' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            open = Some(i + 1);
            break;
        }
    }
    let types =
        open.and_then(|i| inside.get(i..)).ok_or_else(|| format!("cannot read the name `{readable}`"))?;
    // Names of an anonymous namespace are found without it.
    Ok(format!("void (*)({})", types.replace("(anonymous namespace)::", "")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_found_by_their_section() {
        let table = "0000000000000000 l    d  .text.cuda_sim_kernel\t0000000000000000 .text.cuda_sim_kernel\n\
             0000000000000000 g     F .text.cuda_sim_kernel\t000000000000009e _Z3addPf\n\
             0000000000000000  w    F .text.cuda_sim_kernel\t000000000000009e .hidden _Z4tmplIfEvT_\n\
             0000000000000000 g     F .text\t000000000000000c _Z4halff\n";
        assert_eq!(symbols(table), ["_Z3addPf", "_Z4tmplIfEvT_"]);
    }

    #[test]
    fn a_kernels_signature_becomes_a_pointer_type() {
        let check = |name: &str, expect: &str| assert_eq!(pointer_type(name).unwrap(), expect, "{name}");
        check("add(float*, float const*, int, Big)", "void (*)(float*, float const*, int, Big)");
        check(
            "void (anonymous namespace)::tmpl<double>(double*, (anonymous namespace)::S)",
            "void (*)(double*, S)",
        );
        check("map(float (*)(float), int)", "void (*)(float (*)(float), int)");
        check("none()", "void (*)()");
        check("plain_c", "decltype(&plain_c)");
        assert!(pointer_type("void run<main::{lambda(int)#1}>(main::{lambda(int)#1})").is_err());
        assert!(pointer_type("odd)").is_err());
    }
}
