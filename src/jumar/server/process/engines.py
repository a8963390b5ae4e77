"""The engines that the settings name."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from jumar.devices.cards import inventory
from jumar.engine.base import Engine
from jumar.engine.kubernetes.engine import KubernetesEngine
from jumar.engine.kubernetes.options import cluster_options
from jumar.engine.local.engine import LocalEngine
from jumar.engine.modelarts.engine import ModelArtsEngine
from jumar.engine.shared.files import Stages
from jumar.engine.shared.mounts import Mounts
from jumar.engine.site.engine import SiteEngine
from jumar.engine.site.slurm import SiteSlurmEngine
from jumar.engine.slurm.engine import SlurmEngine
from jumar.errors import HomeUnusable
from jumar.jobs.engines import Engines
from jumar.modelarts.account import has_account, load_account
from jumar.people.unix import UnixPeople
from jumar.root.program import Site as RootSite
from jumar.settings import Settings
from jumar.store.users import UserStores

HubVariables = Callable[[str], dict[str, str]]
"""What a job is told of the hub."""


def engines_of(
    settings: Settings,
    stores: UserStores,
    shared: RootSite | None,
    unix: UnixPeople | None,
    hub: HubVariables,
    tree_of: Callable[[str, str], Path],
) -> Engines:
    """Those of this server; `shared` and `unix` are those of a site, whose jobs have inputs of the hub by
    `tree_of`."""
    if not sys.platform.startswith("linux"):
        raise HomeUnusable(
            f"the server runs jobs on Linux only, not on {sys.platform}",
            hint="start it on a Linux machine and set JUMAR_SERVER here to its address",
        )
    # Other machines cannot reach a hub that has no public address.
    elsewhere = hub if settings.public_url else _no_hub
    far = partial(_stages, settings, stores, elsewhere)
    near = partial(_stages, settings, stores, hub)
    makers: dict[str, Callable[[], Engine]] = {
        "local": lambda: _local(settings, near(), shared, unix, tree_of),
        "slurm": lambda: SlurmEngine(settings.home, stages=far()),
        "kubernetes": lambda: KubernetesEngine(
            settings.home, cluster_options(settings.kubernetes), stages=far()
        ),
        "modelarts": lambda: ModelArtsEngine(settings.home, partial(load_account, settings.home)),
    }
    names = settings.engines or ("local",)
    if shared is not None and unix is not None:
        slurm = partial(SiteSlurmEngine, shared, settings.home, unix.account_of)
        makers = {"local": makers["local"], "slurm": lambda: slurm(stages=far())}
    elif has_account(settings.home):
        # A server that `jumar run --engine modelarts` started may be started again by hand, and its jobs go on.
        names = tuple(dict.fromkeys((*names, "modelarts")))
    for name in names:
        if name not in makers:
            raise HomeUnusable(
                f"the engine {name!r} is not offered here",
                hint="engines: local and slurm; kubernetes and modelarts on a personal server",
            )
    return Engines(*(makers[name]() for name in names))


def _no_hub(_job: str) -> dict[str, str]:
    return {}


def _stages(settings: Settings, stores: UserStores, hub: HubVariables) -> Stages:
    return Stages(
        stores,
        cache_bytes=settings.input_cache_gb * 10**9,
        every_s=max(1, settings.send_every_s),
        patience_s=settings.send_patience_s,
        hub=hub,
    )


def _local(
    settings: Settings,
    stages: Stages,
    shared: RootSite | None,
    unix: UnixPeople | None,
    tree_of: Callable[[str, str], Path],
) -> LocalEngine:
    cards = inventory(cpu_slots=settings.cpu_slots, sim_cards=settings.sim_cards)
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
            tree_of=tree_of,
        )
    return LocalEngine(
        settings.home, cards, stages=stages, mounts=mounts, network=settings.job_network
    )
