//! Hosted repositories in memory, which panic when they are misused.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coracle_core::clock::Timestamp;
use coracle_core::error::{Error, Kind, Result};
use coracle_core::ids::{RepoId, TenantId};
use coracle_core::repo::{
    self, BranchName, Heads, Oid, Pushed, Ref, RefChange, RefEnd, RefName, Repo, RepoName,
};
use coracle_core::repo::{Phase, RefRules, Service, Serving};
use coracle_core::{Cancel, Repos};

/// Keeps repositories for as long as any clone of it lives. Clones share them, as processes share a home.
///
/// Its packs are the ids of their objects, one a line. Of git's protocol it speaks what lists refs, and commands of a push.
/// It panics on what no caller may do: changing nothing, naming a ref twice, and asking for more of a service than its list.
#[derive(Debug, Clone, Default)]
pub struct FakeRepos(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    repos: BTreeMap<RepoId, Kept>,
    made: u8,
    served: Vec<(RepoId, Serving)>,
}

#[derive(Debug)]
struct Kept {
    repo: Repo,
    refs: BTreeMap<RefName, Oid>,
    objects: BTreeSet<Oid>,
    default: Option<BranchName>,
}

impl FakeRepos {
    /// Returns a pack in the words of this fake: these objects.
    pub fn pack(objects: &[Oid]) -> OwnedFd {
        let text: String = objects.iter().map(|id| format!("{id}\n")).collect();
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        writer.write_all(text.as_bytes()).expect("a pipe has room for a few ids");
        reader.into()
    }

    /// Returns how clients were served, in order.
    pub fn served(&self) -> Vec<(RepoId, Serving)> {
        self.state().served.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, id: &RepoId, act: impl FnOnce(&mut Kept) -> Result<T>) -> Result<T> {
        act(self.state().repos.get_mut(id).ok_or_else(|| repo::unknown(id.as_str()))?)
    }
}

impl Kept {
    fn change(&mut self, changes: &[RefChange]) -> Result<()> {
        let mut refs = self.refs.clone();
        for change in changes {
            if refs.get(&change.name) != change.old.as_ref() {
                return Err(Error::new(Kind::Conflict, format!("`{}` was moved meanwhile", change.name)));
            }
            match &change.new {
                Some(new) if !self.objects.contains(new) => {
                    return Err(Error::invalid("new", "is not in the repository"));
                }
                Some(new) => refs.insert(change.name.clone(), new.clone()),
                None => refs.remove(&change.name),
            };
        }
        let below = |name: &RefName, other: &RefName| other.as_str().starts_with(&format!("{name}/"));
        if refs.keys().any(|name| refs.keys().any(|other| below(name, other))) {
            return Err(Error::new(Kind::Conflict, "a ref stands in the way of another"));
        }
        self.refs = refs;
        Ok(())
    }

    fn list(&self) -> Vec<Ref> {
        let public = self.refs.iter().filter(|(name, _)| name.is_public());
        public.map(|(name, target)| Ref { name: name.clone(), target: target.clone() }).collect()
    }
}

impl Repos for FakeRepos {
    fn probe(&self) -> Result<String> {
        Ok("fake".to_owned())
    }

    fn add(&self, tenant: Option<&TenantId>, name: &RepoName, now: Timestamp) -> Result<Repo> {
        if self.named(tenant, name)?.is_some() {
            return Err(Error::new(Kind::Conflict, format!("there is a repository `{name}` already")));
        }
        let mut state = self.state();
        state.made += 1;
        let id = RepoId::generate(now, [state.made; 10]);
        let repo = Repo { id: id.clone(), name: name.clone(), tenant: tenant.cloned(), created_at: now };
        let kept = Kept {
            repo: repo.clone(),
            refs: BTreeMap::new(),
            objects: BTreeSet::new(),
            default: "main".parse().ok(),
        };
        state.repos.insert(id, kept);
        Ok(repo)
    }

    fn add_from(
        &self,
        tenant: Option<&TenantId>,
        name: &RepoName,
        now: Timestamp,
        bundle: OwnedFd,
        cancel: &Cancel,
    ) -> Result<Repo> {
        cancel.check()?;
        let refs = bundled(bundle)?;
        let repo = self.add(tenant, name, now)?;
        self.with(&repo.id, |kept| {
            kept.objects.extend(refs.iter().map(|one| one.target.clone()));
            kept.refs.extend(refs.into_iter().map(|one| (one.name, one.target)));
            Ok(())
        })?;
        Ok(repo)
    }

    fn update_from(
        &self,
        id: &RepoId,
        bundle: OwnedFd,
        rules: &RefRules,
        cancel: &Cancel,
    ) -> Result<Vec<Pushed>> {
        cancel.check()?;
        let refs = bundled(bundle)?;
        self.with(id, |kept| {
            kept.objects.extend(refs.iter().map(|one| one.target.clone()));
            let differs = |one: &Ref| kept.refs.get(&one.name) != Some(&one.target);
            let differing: Vec<Ref> = refs.into_iter().filter(differs).collect();
            Ok(differing
                .into_iter()
                .map(|Ref { name, target }| {
                    let old = kept.refs.get(&name).cloned();
                    let change = RefChange { name, old, new: Some(target) };
                    let refusal = rules.refusal(&change).map(str::to_owned);
                    let refusal = refusal.or_else(|| {
                        kept.change(std::slice::from_ref(&change)).err().map(|error| error.message)
                    });
                    Pushed { change, end: refusal.map_or(RefEnd::Done, RefEnd::Refused) }
                })
                .collect())
        })
    }

    fn list(&self, tenant: Option<&TenantId>) -> Result<Vec<Repo>> {
        let state = self.state();
        let seen =
            state.repos.values().filter(|kept| tenant.is_none() || kept.repo.tenant.as_ref() == tenant);
        let mut repos: Vec<Repo> = seen.map(|kept| kept.repo.clone()).collect();
        repos.sort_by(|a, b| (&a.name, &a.id).cmp(&(&b.name, &b.id)));
        Ok(repos)
    }

    fn named(&self, tenant: Option<&TenantId>, name: &RepoName) -> Result<Option<Repo>> {
        let state = self.state();
        let found =
            state.repos.values().find(|kept| kept.repo.tenant.as_ref() == tenant && kept.repo.name == *name);
        Ok(found.map(|kept| kept.repo.clone()))
    }

    fn find(&self, id: &RepoId) -> Result<Option<Repo>> {
        Ok(self.state().repos.get(id).map(|kept| kept.repo.clone()))
    }

    fn remove(&self, id: &RepoId) -> Result<()> {
        let removed = self.state().repos.remove(id);
        removed.map(|_| ()).ok_or_else(|| repo::unknown(id.as_str()))
    }

    fn heads(&self, id: &RepoId) -> Result<Heads> {
        self.with(id, |kept| Ok(Heads { default: kept.default.clone(), refs: kept.list() }))
    }

    fn receive(
        &self,
        id: &RepoId,
        changes: &[RefChange],
        pack: Option<OwnedFd>,
        cancel: &Cancel,
    ) -> Result<()> {
        assert!(!changes.is_empty(), "refs were changed by nothing");
        let names: BTreeSet<_> = changes.iter().map(|change| &change.name).collect();
        assert_eq!(names.len(), changes.len(), "a ref was named twice");
        cancel.check()?;
        let mut text = String::new();
        if let Some(pack) = pack {
            File::from(pack).read_to_string(&mut text).map_err(|_| Error::invalid("pack", "is damaged"))?;
        }
        let brought: std::result::Result<BTreeSet<Oid>, _> = text.lines().map(str::parse).collect();
        let brought = brought.map_err(|_| Error::invalid("pack", "is damaged"))?;
        self.with(id, |kept| {
            let before = kept.objects.clone();
            kept.objects.extend(brought);
            kept.change(changes).inspect_err(|_| kept.objects = before)
        })
    }

    fn set_default(&self, id: &RepoId, branch: &BranchName) -> Result<()> {
        self.with(id, |kept| {
            kept.default = Some(branch.clone());
            Ok(())
        })
    }

    fn serve(
        &self,
        id: &RepoId,
        serving: &Serving,
        input: OwnedFd,
        output: OwnedFd,
        cancel: &Cancel,
    ) -> Result<Vec<Pushed>> {
        cancel.check()?;
        let refs = self.with(id, |kept| Ok(kept.list()))?;
        self.state().served.push((id.clone(), serving.clone()));
        let (mut input, mut output) = (File::from(input), File::from(output));
        if serving.phase != Phase::Request {
            let _ = output.write_all(&advertised(&refs));
        }
        if serving.phase == Phase::Advertisement || serving.service == Service::UploadPack {
            return Ok(Vec::new());
        }
        let commands = commands(&mut input);
        let pushed = commands.into_iter().map(|change| {
            let end = match serving.rules.refusal(&change) {
                Some(why) => RefEnd::Refused(why.to_owned()),
                None => match self.with(id, |kept| kept.change(std::slice::from_ref(&change))) {
                    Ok(()) => RefEnd::Done,
                    Err(error) => RefEnd::Refused(error.message),
                },
            };
            Pushed { change, end }
        });
        Ok(pushed.collect())
    }

    fn directory(&self, id: &RepoId) -> Result<PathBuf> {
        self.with(id, |kept| Ok(PathBuf::from(format!("/fake/{}", kept.repo.id))))
    }

    fn size(&self, id: &RepoId) -> Result<u64> {
        self.with(id, |kept| Ok(kept.objects.len() as u64))
    }

    fn remains(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn sweep(&self) -> Result<usize> {
        Ok(0)
    }
}

/// Reads a bundle in the words of this fake: an id and a ref on each line.
fn bundled(bundle: OwnedFd) -> Result<Vec<Ref>> {
    let damaged = || Error::invalid("bundle", "is damaged");
    let mut text = String::new();
    File::from(bundle).read_to_string(&mut text).map_err(|_| damaged())?;
    text.lines()
        .map(|line| {
            let (target, name) = line.split_once(' ').ok_or_else(damaged)?;
            Ok(Ref { name: name.parse()?, target: target.parse()? })
        })
        .collect()
}

fn advertised(refs: &[Ref]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, one) in refs.iter().enumerate() {
        let end = if index == 0 { "\0\n" } else { "\n" };
        let line = format!("{} {}{end}", one.target, one.name);
        bytes.extend_from_slice(format!("{:04x}{line}", line.len() + 4).as_bytes());
    }
    bytes.extend_from_slice(b"0000");
    bytes
}

/// Reads the commands of a push, up to the flush.
fn commands(input: &mut impl Read) -> Vec<RefChange> {
    let mut found = Vec::new();
    loop {
        let mut length = [0; 4];
        if input.read_exact(&mut length).is_err() || &length == b"0000" {
            return found;
        }
        let length = std::str::from_utf8(&length).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
        let mut line = vec![0; length.expect("a length").saturating_sub(4)];
        input.read_exact(&mut line).expect("a whole line");
        let line = String::from_utf8(line).expect("a line of text");
        let words: Vec<&str> = line.split(['\0', '\n']).next().unwrap_or_default().split(' ').collect();
        let [old, new, name] = words[..] else { panic!("`{line}` is no command") };
        let id = |text: &str| Oid::from_wire(text).expect("an id");
        found.push(RefChange { name: name.parse().expect("a ref"), old: id(old), new: id(new) });
    }
}
