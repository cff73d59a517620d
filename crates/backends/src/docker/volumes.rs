//! Volumes that a container engine keeps for us, under names that say which instance they belong to.

use std::collections::{BTreeSet, HashMap};

use bollard::models::{ContainerSummary, Mount, MountType, MountVolumeOptions, Volume, VolumeCreateRequest};
use bollard::query_parameters::{
    ListContainersOptionsBuilder, ListVolumesOptionsBuilder, RemoveVolumeOptions,
};
use coracle_core::backend::Order;
use coracle_core::volume::{Kept, Volumes};
use coracle_core::{Error, Kind, Result, SandboxId, Timestamp, VolumeName, mount};

use super::settled::settled;
use super::{Docker, INSTANCE_LABEL, SANDBOX_LABEL, failure};

/// The label with a volume's name, and the one with the time it was made.
const VOLUME_LABEL: &str = "coracle.volume";
const MADE_LABEL: &str = "coracle.made_at";

/// Returns the mount of a volume. Makes the volume if it is missing.
pub fn bring(docker: &Docker, name: &VolumeName) -> Result<Mount> {
    let labels = [
        (INSTANCE_LABEL.to_owned(), docker.config.instance.to_string()),
        (VOLUME_LABEL.to_owned(), name.to_string()),
        (MADE_LABEL.to_owned(), (docker.config.clock)().as_millis().to_string()),
    ];
    let wanted = VolumeCreateRequest {
        name: Some(engine_name(docker, name)),
        labels: Some(HashMap::from(labels)),
        ..VolumeCreateRequest::default()
    };
    docker.client.ask("make a volume", |engine| async move { engine.create_volume(wanted).await })?;
    Ok(Mount {
        typ: Some(MountType::VOLUME),
        source: Some(engine_name(docker, name)),
        // As it is, without a copy of what the image has there.
        volume_options: Some(MountVolumeOptions { no_copy: Some(true), ..MountVolumeOptions::default() }),
        ..Mount::default()
    })
}

/// Returns those volumes of a sandbox that other sandboxes use, too. Only older sandboxes count; otherwise, of two
/// that are made at once with a new volume, neither would get it. Ids are in the order of time.
pub fn used_by_others(docker: &Docker, order: &Order<'_>) -> Result<BTreeSet<VolumeName>> {
    let is_volume = |mount: &mount::Mount| matches!(mount.source, mount::Source::Volume(_));
    if !order.spec.mounts.iter().any(is_volume) {
        return Ok(BTreeSet::new());
    }
    let by_others =
        |kept: &Kept| kept.used_by.iter().any(|user| user < order.sandbox && Some(user) != order.replaces);
    Ok(docker.list()?.into_iter().filter(by_others).map(|kept| kept.name).collect())
}

fn engine_name(docker: &Docker, name: &VolumeName) -> String {
    format!("coracle-{}-{name}", docker.config.instance)
}

impl Volumes for Docker {
    fn list(&self) -> Result<Vec<Kept>> {
        let filters = HashMap::from([("label", vec![format!("{INSTANCE_LABEL}={}", self.config.instance)])]);
        let volumes = ListVolumesOptionsBuilder::default().filters(&filters).build();
        let containers = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
        let (volumes, containers) = self.client.ask("list volumes", |engine| async move {
            let volumes = engine.list_volumes(Some(volumes)).await?;
            Ok((volumes, settled(|| engine.list_containers(Some(containers.clone()))).await?))
        })?;
        let mut kept: Vec<_> = volumes
            .volumes
            .iter()
            .flatten()
            .filter_map(|volume| describe(self, volume, &containers))
            .collect();
        kept.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(kept)
    }

    fn remove(&self, name: &VolumeName) -> Result<()> {
        let of_engine = engine_name(self, name);
        let removed = self.client.ask("remove a volume", |engine| async move {
            match engine.remove_volume(&of_engine, None::<RemoveVolumeOptions>).await {
                Err(error) if failure::is_status(&error, 404) => Ok(Some(Kind::NotFound)),
                Err(error) if failure::is_status(&error, 409) => Ok(Some(Kind::Conflict)),
                removed => removed.map(|()| None),
            }
        })?;
        match removed {
            None => Ok(()),
            Some(Kind::Conflict) => {
                Err(Error::new(Kind::Conflict, format!("a sandbox uses volume `{name}`"))
                    .hint("close it first; `coracle volume list` says which it is")
                    .detail("volume", name.as_str()))
            }
            Some(kind) => Err(Error::new(kind, format!("there is no volume `{name}`"))
                .hint("`coracle volume list` shows those there are")
                .detail("volume", name.as_str())),
        }
    }
}

fn describe(docker: &Docker, volume: &Volume, containers: &[ContainerSummary]) -> Option<Kept> {
    let name: VolumeName = volume.labels.get(VOLUME_LABEL)?.parse().ok()?;
    // Other clients can write labels, too; only the name proves that we made it.
    if volume.name != engine_name(docker, &name) {
        return None;
    }
    let uses = |container: &&ContainerSummary| {
        container.mounts.iter().flatten().any(|mount| mount.name.as_ref() == Some(&volume.name))
    };
    let user = |container: &ContainerSummary| -> Option<SandboxId> {
        container.labels.as_ref()?.get(SANDBOX_LABEL)?.parse().ok()
    };
    let made = volume.labels.get(MADE_LABEL).and_then(|millis| millis.parse().ok()).unwrap_or(0);
    Some(Kept {
        name,
        size_bytes: None,
        limit_mb: None,
        created_at: Timestamp::from_millis(made),
        used_by: containers.iter().filter(uses).filter_map(user).collect(),
    })
}
