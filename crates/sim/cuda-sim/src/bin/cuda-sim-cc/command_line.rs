//! What the command line asks for.

/// A sentence for the user.
pub(crate) type Failure = String;

/// Usage, for whoever asks or gives no file.
const USAGE: &str = "usage: cuda-sim-cc [--kernels] [--clang PROGRAM] [--host-flag FLAG]… [clang's options] FILE.cu… [-c] [-o OUT]
  --kernels         only the kernels of one file, as an image for cuModuleLoad or -fcuda-include-gpubinary
  --clang PROGRAM   compiler of the host side (default clang++-19)
  --host-flag FLAG  an option for the host side only";

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Make only the image of kernels.
    pub(crate) kernels_only: bool,
    /// Compiler of the host side.
    pub(crate) clang: String,
    /// Options for the host side only.
    pub(crate) host_flags: Vec<String>,
    /// Options for all compilations.
    pub(crate) flags: Vec<String>,
    /// CUDA sources.
    pub(crate) sources: Vec<String>,
    /// Other files to link.
    pub(crate) others: Vec<String>,
    /// Compile without linking.
    pub(crate) compile_only: bool,
    /// The result.
    pub(crate) output: Option<String>,
}

/// Reads the command line. What is not ours is clang's.
pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, Failure> {
    let mut options = Options {
        kernels_only: false,
        clang: "clang++-19".to_owned(),
        host_flags: Vec::new(),
        flags: Vec::new(),
        sources: Vec::new(),
        others: Vec::new(),
        compile_only: false,
        output: None,
    };
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument}: a value is missing\n{USAGE}"));
        match argument.as_str() {
            "--help" | "-h" => return Err(USAGE.to_owned()),
            "--kernels" => options.kernels_only = true,
            "--clang" => options.clang = value()?,
            "--host-flag" => options.host_flags.push(value()?),
            "-c" => options.compile_only = true,
            "-o" => options.output = Some(value()?),
            text if text.starts_with('-') => options.flags.push(argument),
            text if text.ends_with(".cu") => options.sources.push(argument),
            text if [".o", ".a", ".so"].iter().any(|end| text.ends_with(end)) => {
                options.others.push(argument)
            }
            // The value of an option before it, such as -I DIR.
            _ => options.flags.push(argument),
        }
    }
    let one_only = options.kernels_only || (options.compile_only && options.output.is_some());
    match options.sources.len() {
        0 => Err(format!("no .cu file\n{USAGE}")),
        1 => Ok(options),
        _ if one_only => Err("one output cannot hold several .cu files: compile them one by one".to_owned()),
        _ => Ok(options),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options, Failure> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn what_is_ours_and_what_is_clangs() {
        let o = read("-O2 -I dir --clang cc --host-flag -fx a.cu b.o -lm -o app").unwrap();
        assert_eq!(o.flags, ["-O2", "-I", "dir", "-lm"]);
        assert_eq!((o.clang.as_str(), o.host_flags[0].as_str()), ("cc", "-fx"));
        assert_eq!(
            (o.sources[0].as_str(), o.others[0].as_str(), o.output.as_deref()),
            ("a.cu", "b.o", Some("app"))
        );
        assert!(!o.kernels_only && !o.compile_only);
    }

    #[test]
    fn what_is_missing_is_said() {
        assert!(read("-O2").unwrap_err().starts_with("no .cu file"));
        assert!(read("a.cu -o").unwrap_err().starts_with("-o: a value is missing"));
        assert!(read("--kernels a.cu b.cu").unwrap_err().contains("one by one"));
        assert_eq!(read("a.cu b.cu -o app").unwrap().sources.len(), 2);
    }
}
