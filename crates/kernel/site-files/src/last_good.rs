//! The last good version of `tessera.toml`, which holds while the file itself is bad.
//!
//! Each side keeps a copy beside its own state, where `tessera.toml` has no say: slurmctld in `StateSaveLocation`, a node
//! in `SlurmdSpoolDir`. The copy has the texts of the files that `tessera.toml` names, too. It is one file, replaced as a
//! whole when the good version changes, so whoever reads it sees one version. Every user may read it if every user may read
//! the files themselves, so that commands work for all users while the file is bad. Reasons: docs/decisions/0011.
//!
//! ```text
//! tessera-last-good 1
//! file 812 tessera.toml
//! (812 bytes)
//! file 96 dgx.links
//! (96 bytes)
//! ```

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use site_config::SiteConfig;

use crate::tessera_toml::{self, LoadError, Texts};
use plugin_rt::kept_file::{KeptFile, Readers};

/// Name in either directory.
const NAME: &str = "tessera.toml.last-good";
/// File with the last message about a bad file, in the same directory.
const SAID: &str = "tessera.toml.said";
const HEAD: &str = "tessera-last-good 1\n";
const MAIN: &str = "tessera.toml";
/// Most bytes of a copy: a site of thousands of nodes needs some hundred kilobytes.
const MAX_BYTES: u64 = 16 << 20;

/// A directory in which a daemon keeps the last good version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastGood {
    dir: PathBuf,
}

/// Configuration that holds now.
#[derive(Debug)]
pub struct InForce {
    /// The file's configuration, or that of its last good version.
    pub config: SiteConfig,
    /// The text of the file, if the file is good.
    pub text: Option<String>,
    /// The file's error, where it is the last good version that holds.
    pub bad: Option<LoadError>,
    /// The file's version is new: it was kept just now.
    pub is_new: bool,
    /// Why the last good version could not be kept; it is the file that holds.
    pub not_kept: Option<io::Error>,
}

impl From<SiteConfig> for InForce {
    /// Takes a configuration whose text nobody needs.
    fn from(config: SiteConfig) -> Self {
        Self { config, text: None, bad: None, is_new: false, not_kept: None }
    }
}

impl From<(SiteConfig, Texts)> for InForce {
    /// Takes a good file.
    fn from((config, texts): (SiteConfig, Texts)) -> Self {
        Self { text: Some(texts.main), ..config.into() }
    }
}

impl LastGood {
    /// The copy in this directory, which must be there.
    #[must_use]
    pub fn in_dir(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    /// The copy's own path.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.file(NAME).path()
    }

    /// Reads the file at `path` and keeps it if it is good; else the last good version holds.
    ///
    /// # Errors
    ///
    /// There is no such file, whatever the copy has; or it is bad and there is no good copy.
    pub fn load(&self, path: &Path) -> Result<InForce, LoadError> {
        match tessera_toml::load(path) {
            Ok((config, texts)) => {
                let (is_new, not_kept) = match self.keep(path, &texts) {
                    Ok(is_new) => (is_new, None),
                    Err(why) => (false, Some(why)),
                };
                Ok(InForce { is_new, not_kept, ..(config, texts).into() })
            }
            Err(missing @ LoadError::Missing(_)) => Err(missing),
            Err(bad) => {
                self.follow_permissions(path);
                self.instead_of(path, bad)
            }
        }
    }

    /// Reads the configuration in force without keeping anything.
    ///
    /// # Errors
    ///
    /// As [`Self::load`].
    pub fn look(&self, path: &Path) -> Result<InForce, LoadError> {
        match tessera_toml::load(path) {
            Ok(good) => Ok(good.into()),
            Err(missing @ LoadError::Missing(_)) => Err(missing),
            Err(bad) => self.instead_of(path, bad),
        }
    }

    /// The last good version, for a file that is missing or bad in this way.
    ///
    /// # Errors
    ///
    /// `bad` itself if there is no good copy.
    pub fn instead_of(&self, path: &Path, bad: LoadError) -> Result<InForce, LoadError> {
        match self.stored(path) {
            Some(config) => Ok(InForce { bad: Some(bad), ..config.into() }),
            None => Err(bad),
        }
    }

    /// The configuration in the copy, if that is there, ours and still good.
    fn stored(&self, path: &Path) -> Option<SiteConfig> {
        let texts = unpack(&self.bytes().ok()?)?;
        let named = |name: &str| {
            let found = texts.named.iter().find(|(known, _)| known == name);
            found.map(|(_, text)| text.clone()).ok_or_else(|| ErrorKind::NotFound.into())
        };
        site_config::parse(&path.to_string_lossy(), &texts.main, &named).0
    }

    fn bytes(&self) -> io::Result<Vec<u8>> {
        self.file(NAME).read(MAX_BYTES)
    }

    fn file(&self, name: &'static str) -> KeptFile {
        KeptFile::in_dir(&self.dir, name)
    }

    /// Closes or opens the copy to other users as the site has done with the bad file at `path`.
    fn follow_permissions(&self, path: &Path) {
        let kept = self.bytes().ok().and_then(|bytes| unpack(&bytes));
        if let Some(texts) = kept {
            let _another_users_copy = self.file(NAME).open_to(readers(path, &texts));
        }
    }

    /// Keeps these texts of the file at `path`; false: the copy has them already.
    fn keep(&self, path: &Path, texts: &Texts) -> io::Result<bool> {
        let bytes = pack(texts);
        if bytes.len() as u64 > MAX_BYTES {
            return Err(io::Error::new(ErrorKind::InvalidInput, "tessera.toml is too large to be kept"));
        }
        self.file(NAME).keep(&bytes, readers(path, texts))
    }

    /// Tells whether this is news to say of the file, with each change said once by all processes that use this directory:
    /// `None` says that the file is good. False also where it cannot be noted that something good was said.
    #[must_use]
    pub fn is_news(&self, bad: Option<&LoadError>) -> bool {
        let path = self.dir.join(SAID);
        match bad.map(|bad| bad.lines().join("\n")) {
            None => fs::remove_file(path).is_ok(),
            Some(text) if fs::read_to_string(&path).is_ok_and(|said| said == text) => false,
            Some(text) => {
                let _said_again_by_the_next = self.file(SAID).replace(text.as_bytes(), Readers::Owner);
                true
            }
        }
    }
}

/// Decides who may read a copy of the file at `path` and of those that it names: all users, if they may read each of them.
fn readers(path: &Path, texts: &Texts) -> Readers {
    let named = texts.named.iter().map(|(name, _)| path.with_file_name(name));
    let open = std::iter::once(path.to_owned()).chain(named).all(|file| all_may_read(&file));
    if open { Readers::All } else { Readers::Owner }
}

/// Tells whether every user may read a file, by the permissions of it and of the directories above it.
fn all_may_read(file: &Path) -> bool {
    let has = |path: &Path, bit: u32| fs::metadata(path).is_ok_and(|meta| meta.mode() & bit != 0);
    let real = file.canonicalize();
    real.is_ok_and(|file| has(&file, 0o004) && file.ancestors().skip(1).all(|dir| has(dir, 0o001)))
}

fn pack(texts: &Texts) -> Vec<u8> {
    let mut out = HEAD.to_owned();
    let main = (MAIN, &texts.main);
    let files = std::iter::once(main).chain(texts.named.iter().map(|(name, text)| (name.as_str(), text)));
    for (name, text) in files {
        // A name with a newline cannot be told from what follows: such a version is read back as none.
        out.push_str(&format!("file {} {name}\n{text}\n", text.len()));
    }
    out.into_bytes()
}

/// `None` for anything that [`pack`] does not write, such as a cut file.
fn unpack(bytes: &[u8]) -> Option<Texts> {
    let mut rest = std::str::from_utf8(bytes).ok()?.strip_prefix(HEAD)?;
    let mut files = Vec::new();
    while !rest.is_empty() {
        let (line, after) = rest.strip_prefix("file ")?.split_once('\n')?;
        let (length, name) = line.split_once(' ')?;
        let (text, after) = after.split_at_checked(length.parse().ok()?)?;
        files.push((name.to_owned(), text.to_owned()));
        rest = after.strip_prefix('\n')?;
    }
    let mut files = files.into_iter();
    let (name, main) = files.next()?;
    (name == MAIN).then(|| Texts { main, named: files.collect() })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const GOOD: &str = "[[nodes]]\nnames = \"n1\"\ngpu = \"a100-40gb\"\ncount = 2\n";

    fn count(in_force: Result<InForce, LoadError>) -> (usize, bool) {
        let in_force = in_force.unwrap();
        assert!(in_force.not_kept.is_none(), "{:?}", in_force.not_kept);
        (in_force.config.nodes[0].gpus.len(), in_force.bad.is_some())
    }

    struct Site {
        _dir: tempfile::TempDir,
        file: PathBuf,
        copy: LastGood,
    }

    fn site() -> Site {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        fs::create_dir(&state).unwrap();
        Site { file: dir.path().join("tessera.toml"), copy: LastGood::in_dir(&state), _dir: dir }
    }

    #[test]
    fn the_last_good_version_holds_while_the_file_is_bad() {
        let Site { file, copy, _dir } = site();
        fs::write(&file, GOOD).unwrap();
        assert_eq!(count(copy.load(&file)), (2, false));
        fs::write(&file, GOOD.replace("= 2", "= 3")).unwrap();
        assert_eq!(count(copy.look(&file)), (3, false), "not kept");
        for bad in [&b"[[nodes]"[..], b"", &[0xff]] {
            fs::write(&file, bad).unwrap();
            assert_eq!(count(copy.load(&file)), (2, true), "{bad:?}");
            assert_eq!(count(copy.look(&file)), (2, true), "{bad:?}");
        }
        fs::write(&file, GOOD.replace("= 2", "= 4")).unwrap();
        assert_eq!(count(copy.load(&file)), (4, false));
        fs::write(&file, "x").unwrap();
        assert_eq!(count(copy.load(&file)), (4, true));
        fs::remove_file(&file).unwrap();
        assert!(matches!(copy.load(&file), Err(LoadError::Missing(_))), "somebody has taken it away");
    }

    #[test]
    fn what_the_file_names_is_kept_with_it() {
        let Site { file, copy, _dir } = site();
        let links = file.with_file_name("n1.links");
        fs::write(&links, "gpu0: PIX\n").unwrap();
        fs::write(&file, GOOD).unwrap();
        let texts = Texts {
            main: format!("{GOOD}discovered = \"n1.links\"\n"),
            named: vec![("n1.links".to_owned(), "x\n\nfile 3 y\n".to_owned())],
        };
        assert_eq!(unpack(&pack(&texts)), Some(texts.clone()));
        assert!(copy.keep(&file, &texts).unwrap());
        let kept = fs::metadata(copy.path()).unwrap();
        assert!(!copy.keep(&file, &texts).unwrap());
        assert_eq!(kept.ino(), fs::metadata(copy.path()).unwrap().ino(), "written once");
        assert_eq!(fs::read_dir(copy.path().parent().unwrap()).unwrap().count(), 1, "no scratch file stays");
    }

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn every_user_may_read_a_copy_of_what_every_user_may_read() {
        let Site { file, copy, _dir } = site();
        let (links, dir) = (file.with_file_name("n1.links"), file.parent().unwrap().to_owned());
        fs::write(&links, "gpu0: PIX\n").unwrap();
        fs::write(&file, GOOD).unwrap();
        let texts =
            Texts { main: GOOD.to_owned(), named: vec![("n1.links".to_owned(), "gpu0: PIX\n".to_owned())] };
        let all_open =
            || [(&dir, 0o755), (&file, 0o644), (&links, 0o644)].map(|(path, bits)| mode(path, bits));
        let kept = || fs::metadata(copy.path()).unwrap().mode() & 0o7777;
        all_open();
        assert!(copy.keep(&file, &texts).unwrap());
        assert_eq!(kept(), 0o644, "whatever the umask");
        for (closed, bits) in [(&file, 0o640), (&links, 0o600), (&dir, 0o750)] {
            mode(closed, bits);
            assert!(!copy.keep(&file, &texts).unwrap());
            assert_eq!(kept(), 0o600, "{}", closed.display());
            all_open();
            assert!(!copy.keep(&file, &texts).unwrap());
            assert_eq!(kept(), 0o644);
        }
        fs::write(&file, "x").unwrap();
        mode(&file, 0o600);
        copy.load(&file).unwrap();
        assert_eq!(kept(), 0o600, "the site has closed the bad file");
    }

    #[test]
    fn a_link_in_place_of_the_copy_is_none() {
        let Site { file, copy, _dir } = site();
        fs::write(&file, GOOD).unwrap();
        copy.load(&file).unwrap();
        let elsewhere = file.with_file_name("elsewhere");
        fs::rename(copy.path(), &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, copy.path()).unwrap();
        fs::write(&file, "x").unwrap();
        assert!(copy.look(&file).is_err());
        mode(&elsewhere, 0o600);
        let _none = copy.load(&file);
        assert_eq!(fs::metadata(&elsewhere).unwrap().mode() & 0o777, 0o600, "permissions follow no link");
    }

    #[test]
    fn a_cut_or_foreign_copy_is_none() {
        let Site { file, copy, _dir } = site();
        fs::write(&file, GOOD).unwrap();
        copy.load(&file).unwrap();
        let whole = fs::read(copy.path()).unwrap();
        fs::write(&file, "x").unwrap();
        for cut in 0..whole.len() {
            fs::write(copy.path(), &whole[..cut]).unwrap();
            assert!(matches!(copy.load(&file), Err(LoadError::Bad { .. })), "{cut}");
        }
        fs::write(copy.path(), &whole).unwrap();
        assert!(copy.load(&file).is_ok());
        fs::set_permissions(copy.path(), fs::Permissions::from_mode(0o666)).unwrap();
        assert!(copy.load(&file).is_err(), "anybody could have written it");
        fs::set_permissions(copy.path(), fs::Permissions::from_mode(0o600)).unwrap();
        fs::set_permissions(copy.path().parent().unwrap(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(copy.load(&file).is_err(), "anybody could have put it there");
        fs::write(&file, GOOD).unwrap();
        assert!(copy.load(&file).unwrap().not_kept.is_some());
    }

    #[test]
    fn each_change_is_news_once() {
        let Site { file, copy, _dir } = site();
        let bad = |text: &str| {
            fs::write(&file, text).unwrap();
            tessera_toml::load(&file).unwrap_err()
        };
        assert!(!copy.is_news(None), "it has been good all the time");
        assert!(copy.is_news(Some(&bad("x"))));
        assert!(!copy.is_news(Some(&bad("x"))));
        assert!(copy.is_news(Some(&bad("y = 1"))));
        assert!(copy.is_news(None));
        assert!(!copy.is_news(None));
    }

    proptest::proptest! {
        #[test]
        fn texts_come_back_and_rubbish_does_not_panic(main: String, named: Vec<(String, String)>, rubbish: String) {
            let named: Vec<_> = named.into_iter().map(|(n, t)| (n.replace('\n', ""), t)).collect();
            let texts = Texts { main, named };
            proptest::prop_assert_eq!(unpack(&pack(&texts)), Some(texts));
            let _ = unpack(format!("{HEAD}{rubbish}").as_bytes());
        }
    }
}
