"""The engine that the settings name."""

import sys
from collections.abc import Callable
from functools import partial

from jumar.devices.cards import inventory
from jumar.engine.kubernetes.engine import KubernetesEngine
from jumar.engine.kubernetes.options import cluster_options
from jumar.engine.local.engine import LocalEngine
from jumar.engine.modelarts.engine import ModelArtsEngine
from jumar.engine.shared.files import Stages
from jumar.engine.shared.mounts import Mounts
from jumar.engine.site.engine import SiteEngine
from jumar.engine.slurm.engine import SlurmEngine
from jumar.errors import HomeUnusable
from jumar.modelarts.account import load_account
from jumar.people.unix import UnixPeople
from jumar.root.program import Site as RootSite
from jumar.settings import Settings
from jumar.store.users import UserStores

HubVariables = Callable[[str], dict[str, str]]
"""What a job is told of the hub."""


def engine_of(
    settings: Settings,
    stores: UserStores,
    shared: RootSite | None,
    unix: UnixPeople | None,
    hub: HubVariables,
) -> LocalEngine | SlurmEngine | KubernetesEngine | ModelArtsEngine:
    """The one of this server; `shared` and `unix` are those of a site."""
    if not sys.platform.startswith("linux"):
        raise HomeUnusable(
            f"the server runs jobs on Linux only, not on {sys.platform}",
            hint="start it on a Linux machine and set JUMAR_SERVER here to its address",
        )
    cards = inventory(cpu_slots=settings.cpu_slots, sim_cards=settings.sim_cards)
    stages = Stages(
        stores,
        cache_bytes=settings.input_cache_gb * 10**9,
        every_s=max(1, settings.send_every_s),
        patience_s=settings.send_patience_s,
        hub=hub,
    )
    if settings.engine == "slurm" and shared is None:
        return SlurmEngine(settings.home, stages=stages)
    if settings.engine == "kubernetes" and shared is None:
        return KubernetesEngine(settings.home, cluster_options(settings.kubernetes), stages=stages)
    if settings.engine == "modelarts" and shared is None:
        return ModelArtsEngine(settings.home, partial(load_account, settings.home))
    if settings.engine != "local":
        raise HomeUnusable(
            f"the engine {settings.engine!r} is not offered here",
            hint="engines: local; slurm, kubernetes and modelarts for a person's own server",
        )
    mounts = Mounts(settings.mounts)
    if shared is not None and unix is not None:
        return SiteEngine(
            shared,
            settings.home,
            cards,
            unix.account_of,
            stages=stages,
            mounts=mounts,
            network=settings.job_network,
        )
    return LocalEngine(
        settings.home, cards, stages=stages, mounts=mounts, network=settings.job_network
    )
