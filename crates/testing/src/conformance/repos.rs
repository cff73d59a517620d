//! What everything that keeps repositories must do.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::Barrier;

use coracle_core::clock::Timestamp;
use coracle_core::error::Kind;
use coracle_core::ids::RepoId;
use coracle_core::repo::{BranchName, Oid, RefChange, RefEnd, RefName, RefRules, Repo, RepoName};
use coracle_core::{Cancel, Repos};

use crate::sample;

/// A place for repositories. Each opening is another process as far as it can tell.
pub trait Shelf {
    fn open(&self) -> Box<dyn Repos>;

    /// Returns a commit and a pack with all it needs; each follows the one with the number before it.
    fn commit(&self, number: u8) -> (Oid, OwnedFd);

    /// Returns a bundle with that commit as `main` and as the tag `v` with its number.
    fn bundle(&self, number: u8) -> OwnedFd;
}

/// Runs the suite against the [`Shelf`] that `$make()` returns, a fresh one for each test.
#[macro_export]
macro_rules! repo_conformance {
    ($make:expr) => {
        $crate::conformance_clauses!(
            $make,
            repo_contract,
            $crate::conformance::repos,
            [
                what_was_added_is_found_by_name_and_id,
                each_tenant_has_its_own_names,
                of_many_with_one_name_one_gets_it,
                what_was_removed_is_gone_and_its_name_is_free,
                a_pack_comes_with_the_refs_that_lead_to_it,
                a_ref_moves_only_from_where_it_was_expected,
                all_changes_happen_or_none,
                no_ref_leads_to_what_is_not_there,
                a_branch_does_not_stand_below_another,
                a_default_branch_need_not_exist,
                refs_of_our_own_are_not_listed,
                what_is_not_there_is_not_found,
                a_damaged_pack_changes_nothing,
                of_two_that_move_one_ref_one_does,
                a_bundle_becomes_a_repository,
                a_damaged_bundle_makes_nothing,
                an_update_moves_branches_forward_and_no_branch_back,
            ]
        );
    };
}

const NOW: Timestamp = Timestamp::from_millis(1_000_000);

pub fn what_was_added_is_found_by_name_and_id(shelf: &impl Shelf) {
    let repo = add(shelf, "one");

    let repos = shelf.open();

    assert_eq!(repos.named(None, &name("one")).expect("looks"), Some(repo.clone()));
    assert_eq!(repos.find(&repo.id).expect("looks"), Some(repo.clone()));
    assert_eq!(repos.list(None).expect("lists"), std::slice::from_ref(&repo));
    assert_eq!((repo.name, repo.tenant, repo.created_at), (name("one"), None, NOW));
    let error = repos.add(None, &name("one"), NOW).expect_err("the name is taken");
    assert_eq!(error.kind, Kind::Conflict);
}

pub fn each_tenant_has_its_own_names(shelf: &impl Shelf) {
    let (a, b) = (sample::tenant("a"), sample::tenant("b"));
    let repos = shelf.open();
    let own = repos.add(None, &name("x"), NOW).expect("added");
    let of_a = repos.add(Some(&a), &name("x"), NOW).expect("added");

    assert_eq!(repos.named(Some(&a), &name("x")).expect("looks"), Some(of_a.clone()));
    assert_eq!(repos.named(None, &name("x")).expect("looks"), Some(own.clone()));
    assert_eq!(repos.named(Some(&b), &name("x")).expect("looks"), None);
    assert_eq!(repos.list(Some(&a)).expect("lists"), [of_a]);
    assert_eq!(repos.list(Some(&b)).expect("lists"), []);
    assert_eq!(repos.list(None).expect("lists").len(), 2);
}

pub fn of_many_with_one_name_one_gets_it(shelf: &impl Shelf) {
    let start = Barrier::new(8);
    let all: Vec<_> = (0..8).map(|_| shelf.open()).collect();
    let made = std::thread::scope(|scope| {
        let tries: Vec<_> = all
            .iter()
            .map(|repos| {
                scope.spawn(|| {
                    start.wait();
                    repos.add(None, &name("wanted"), NOW).is_ok()
                })
            })
            .collect();
        tries.into_iter().filter_map(|one| one.join().ok()).filter(|made| *made).count()
    });

    assert_eq!(made, 1);
    assert_eq!(shelf.open().list(None).expect("lists").len(), 1);
}

pub fn what_was_removed_is_gone_and_its_name_is_free(shelf: &impl Shelf) {
    let repo = add(shelf, "one");

    shelf.open().remove(&repo.id).expect("removed");

    let repos = shelf.open();
    assert_eq!(repos.named(None, &name("one")).expect("looks"), None);
    assert_eq!(repos.find(&repo.id).expect("looks"), None);
    assert_ne!(add(shelf, "one").id, repo.id);
}

pub fn a_pack_comes_with_the_refs_that_lead_to_it(shelf: &impl Shelf) {
    let repo = add(shelf, "one");
    let (commit, pack) = shelf.commit(1);
    let empty = shelf.open().size(&repo.id).expect("measures");

    let changes =
        [change("refs/heads/main", None, Some(&commit)), change("refs/tags/v1", None, Some(&commit))];
    shelf.open().receive(&repo.id, &changes, Some(pack), &Cancel::default()).expect("received");

    let heads = shelf.open().heads(&repo.id).expect("listed");
    assert_eq!(heads.branch(&branch("main")), Some(&commit));
    let names: Vec<_> = heads.refs.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["refs/heads/main", "refs/tags/v1"]);
    assert!(shelf.open().size(&repo.id).expect("measures") > empty);
}

pub fn a_ref_moves_only_from_where_it_was_expected(shelf: &impl Shelf) {
    let (repo, [one, two]) = (add(shelf, "one"), [1, 2].map(|number| shelf.commit(number)));
    receive(shelf, &repo, one.1, &one.0, None);
    receive(shelf, &repo, two.1, &two.0, Some(&one.0));
    let move_to = |old, new| {
        shelf.open().change_refs(&repo.id, &[change("refs/heads/main", old, new)]).map_err(|error| error.kind)
    };

    assert_eq!(move_to(Some(&one.0), Some(&two.0)), Err(Kind::Conflict));
    assert_eq!(move_to(None, Some(&two.0)), Err(Kind::Conflict));
    assert_eq!(move_to(Some(&one.0), None), Err(Kind::Conflict));
    assert_eq!(main_of(shelf, &repo), Some(two.0.clone()));
    assert_eq!(move_to(Some(&two.0), Some(&one.0)), Ok(()), "the host may rewind");
    assert_eq!(main_of(shelf, &repo), Some(one.0.clone()));
    assert_eq!(move_to(Some(&one.0), None), Ok(()));
    assert_eq!(main_of(shelf, &repo), None);
}

pub fn all_changes_happen_or_none(shelf: &impl Shelf) {
    let (repo, one) = (add(shelf, "one"), shelf.commit(1));
    receive(shelf, &repo, one.1, &one.0, None);

    let changes = [
        change("refs/heads/new", None, Some(&one.0)),
        change("refs/heads/main", None, Some(&one.0)),
        change("refs/heads/newer", None, Some(&one.0)),
    ];
    let error = shelf.open().change_refs(&repo.id, &changes).expect_err("main is there");

    assert_eq!(error.kind, Kind::Conflict);
    assert_eq!(shelf.open().heads(&repo.id).expect("listed").refs.len(), 1);
}

pub fn no_ref_leads_to_what_is_not_there(shelf: &impl Shelf) {
    let (repo, one) = (add(shelf, "one"), shelf.commit(1));

    let changes = [change("refs/heads/main", None, Some(&one.0))];
    let error = shelf.open().change_refs(&repo.id, &changes).expect_err("it has no objects");

    assert_eq!(error.kind, Kind::Invalid, "{error}");
    assert_eq!(shelf.open().heads(&repo.id).expect("listed").refs, []);
}

pub fn a_branch_does_not_stand_below_another(shelf: &impl Shelf) {
    let (repo, one) = (add(shelf, "one"), shelf.commit(1));
    receive(shelf, &repo, one.1, &one.0, None);

    let changes = [change("refs/heads/main/below", None, Some(&one.0))];
    let error = shelf.open().change_refs(&repo.id, &changes).expect_err("main is in the way");

    assert_eq!(error.kind, Kind::Conflict, "{error}");
}

pub fn a_default_branch_need_not_exist(shelf: &impl Shelf) {
    let repo = add(shelf, "one");
    assert_eq!(shelf.open().heads(&repo.id).expect("listed").default, Some(branch("main")));

    shelf.open().set_default(&repo.id, &branch("trunk/x")).expect("set");

    assert_eq!(shelf.open().heads(&repo.id).expect("listed").default, Some(branch("trunk/x")));
}

pub fn refs_of_our_own_are_not_listed(shelf: &impl Shelf) {
    let (repo, one) = (add(shelf, "one"), shelf.commit(1));

    let changes = [change("refs/coracle/pins/a", None, Some(&one.0))];
    shelf.open().receive(&repo.id, &changes, Some(one.1), &Cancel::default()).expect("received");

    assert_eq!(shelf.open().heads(&repo.id).expect("listed").refs, []);
    let back = [change("refs/coracle/pins/a", Some(&one.0), None)];
    shelf.open().change_refs(&repo.id, &back).expect("the ref was there");
}

pub fn what_is_not_there_is_not_found(shelf: &impl Shelf) {
    let (repos, id) = (shelf.open(), RepoId::generate(NOW, [1; 10]));
    let (oid, _) = shelf.commit(1);
    let kinds = [
        repos.heads(&id).map(drop),
        repos.size(&id).map(drop),
        repos.remove(&id),
        repos.set_default(&id, &branch("a")),
        repos.change_refs(&id, &[change("refs/heads/a", None, Some(&oid))]),
    ];

    for outcome in kinds {
        assert_eq!(outcome.map_err(|error| error.kind), Err(Kind::NotFound));
    }
    assert_eq!(repos.find(&id).expect("looks"), None);
}

pub fn a_damaged_pack_changes_nothing(shelf: &impl Shelf) {
    let (repo, one) = (add(shelf, "one"), shelf.commit(1));
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    std::io::Write::write_all(&mut writer, b"PACK, but not one").expect("written");
    drop(writer);

    let changes = [change("refs/heads/main", None, Some(&one.0))];
    let error = shelf
        .open()
        .receive(&repo.id, &changes, Some(reader.into()), &Cancel::default())
        .expect_err("it is damaged");

    assert_eq!(error.kind, Kind::Invalid, "{error}");
    assert_eq!(shelf.open().heads(&repo.id).expect("listed").refs, []);
}

pub fn of_two_that_move_one_ref_one_does(shelf: &impl Shelf) {
    let (repo, commits) = (add(shelf, "one"), [1, 2, 3, 4, 5].map(|number| shelf.commit(number)));
    let targets: BTreeSet<Oid> = commits.iter().map(|(id, _)| id.clone()).collect();
    for (index, (id, pack)) in commits.into_iter().enumerate() {
        let changes = [change(&format!("refs/heads/b{index}"), None, Some(&id))];
        shelf.open().receive(&repo.id, &changes, Some(pack), &Cancel::default()).expect("received");
    }
    let start = Barrier::new(targets.len());
    let all: Vec<_> = targets.iter().map(|target| (shelf.open(), target)).collect();

    let won: Vec<Oid> = std::thread::scope(|scope| {
        let tries: Vec<_> = all
            .iter()
            .map(|(repos, target)| {
                let changes = [change("refs/heads/main", None, Some(target))];
                let (start, repo) = (&start, &repo);
                scope.spawn(move || {
                    start.wait();
                    repos.change_refs(&repo.id, &changes).ok().map(|()| (*target).clone())
                })
            })
            .collect();
        tries.into_iter().filter_map(|one| one.join().ok().flatten()).collect()
    });

    assert_eq!(won.len(), 1, "{won:?}");
    assert_eq!(main_of(shelf, &repo).as_ref(), won.first());
}

pub fn a_bundle_becomes_a_repository(shelf: &impl Shelf) {
    let (two, _) = shelf.commit(2);
    let bundle = shelf.bundle(2);

    let repo = shelf.open().add_from(None, &name("one"), NOW, bundle, &Cancel::default()).expect("added");

    let heads = shelf.open().heads(&repo.id).expect("listed");
    let names: Vec<_> = heads.refs.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["refs/heads/main", "refs/tags/v2"]);
    assert_eq!(heads.branch(&branch("main")), Some(&two));
    assert_eq!(heads.default, Some(branch("main")));
    let again = shelf.open().add_from(None, &name("one"), NOW, shelf.bundle(2), &Cancel::default());
    assert_eq!(again.map(drop).map_err(|error| error.kind), Err(Kind::Conflict));
}

pub fn a_damaged_bundle_makes_nothing(shelf: &impl Shelf) {
    for bad in [&b"nothing of the kind"[..], b"# v2 git bundle\n\n", b""] {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        std::io::Write::write_all(&mut writer, bad).expect("written");
        drop(writer);

        let made = shelf.open().add_from(None, &name("one"), NOW, reader.into(), &Cancel::default());

        // The fake takes a bundle without refs for an empty one.
        if made.is_err() {
            assert_eq!(made.map(drop).map_err(|error| error.kind), Err(Kind::Invalid));
            assert_eq!(shelf.open().list(None).expect("lists"), []);
            assert_eq!(shelf.open().remains().expect("looks"), Vec::<String>::new());
        }
        shelf
            .open()
            .list(None)
            .expect("lists")
            .iter()
            .for_each(|one| shelf.open().remove(&one.id).expect("removed"));
    }
}

pub fn an_update_moves_branches_forward_and_no_branch_back(shelf: &impl Shelf) {
    let (two, three) = (shelf.commit(2).0, shelf.commit(3).0);
    let repo =
        shelf.open().add_from(None, &name("one"), NOW, shelf.bundle(2), &Cancel::default()).expect("added");
    let update = |number: u8, rules: &RefRules| {
        let bundle = shelf.bundle(number);
        shelf.open().update_from(&repo.id, bundle, rules, &Cancel::default()).expect("updated")
    };

    let forward = update(3, &RefRules::default());
    let again = update(3, &RefRules::default());

    assert!(forward.iter().all(|one| one.end == RefEnd::Done), "{forward:?}");
    assert_eq!(main_of(shelf, &repo), Some(three));
    assert_eq!(again, []);
    assert_eq!(shelf.open().heads(&repo.id).expect("listed").refs.len(), 3, "the tag is new");
    assert_ne!(main_of(shelf, &repo), Some(two));
}

fn add(shelf: &impl Shelf, text: &str) -> Repo {
    shelf.open().add(None, &name(text), NOW).expect("added")
}

fn receive(shelf: &impl Shelf, repo: &Repo, pack: OwnedFd, new: &Oid, old: Option<&Oid>) {
    let changes = [change("refs/heads/main", old, Some(new))];
    shelf.open().receive(&repo.id, &changes, Some(pack), &Cancel::default()).expect("received");
}

fn main_of(shelf: &impl Shelf, repo: &Repo) -> Option<Oid> {
    shelf.open().heads(&repo.id).expect("listed").branch(&branch("main")).cloned()
}

fn name(text: &str) -> RepoName {
    text.parse().expect("a name")
}

fn branch(text: &str) -> BranchName {
    text.parse().expect("a branch")
}

fn change(text: &str, old: Option<&Oid>, new: Option<&Oid>) -> RefChange {
    let name: RefName = text.parse().expect("a ref");
    RefChange { name, old: old.cloned(), new: new.cloned() }
}
