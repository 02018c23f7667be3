"""The options of ``bertfeat extract`` that say who does the work: this process, others, other machines."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from .app import option
from .bundles import bundle
from .option_types import listed_option

if TYPE_CHECKING:
    from bertfeat.engine import Engine
    from bertfeat.extraction import Sharing


@dataclass(frozen=True, slots=True)
class WaysToWork:
    """Who does the work of a run, and which share of it."""

    workers: int | None
    devices: tuple[str, ...]
    engine: str | None
    address: str | None
    gpus_per_worker: float | None
    shard: str | None
    join: bool
    lease: float | None

    def check(self, device: str | None) -> None:
        """Refuse options that exclude each other.

        Raises:
            click.UsageError: names two of them.
        """
        of_ray = {"--address": self.address is not None, "--gpus-per-worker": self.gpus_per_worker is not None}
        for name, given in of_ray.items():
            if given and self.engine != "ray":
                raise click.UsageError(f"{name} is for --engine ray")
        if self.devices and self.engine == "ray":
            raise click.UsageError("--devices are those of this machine; Ray places workers by --gpus-per-worker")
        if self.devices and device is not None:
            raise click.UsageError("--device and --devices: give one of them")
        if self.devices and self.workers is not None:
            raise click.UsageError("--devices and --workers: there is one worker for each device")
        if self.shard is not None and self.join:
            raise click.UsageError("--shard and --join: a shard has its parts by number, who joins takes what is left")
        if self.lease is not None and not self.join:
            raise click.UsageError("--lease is for --join")

    def check_device(self, kind: str) -> None:
        """Refuse workers on GPUs whose precision and batches cannot be chosen on this machine.

        Raises:
            click.UsageError: it has no GPU.
        """
        if self.engine == "ray" and self.gpus_per_worker and kind != "cuda":
            raise click.UsageError(
                "this machine has no GPU by which precision and batches of the workers could be chosen: "
                "start the run on one that has, for example as a Ray job"
            )

    @property
    def first_device(self) -> str | None:
        """The device whose kind decides precision and batches."""
        return self.devices[0] if self.devices else None

    @property
    def worker_count(self) -> int:
        """How many workers this run has, as far as that is known."""
        return len(self.devices) or self.workers or 1

    def make_engine(self) -> "Engine | None":
        """The engine; None for this process alone."""
        if self.engine == "ray":
            from bertfeat.distributed import RayCluster

            return RayCluster(self.address, workers=self.workers, gpus_per_worker=self.gpus_per_worker)
        if self.devices or self.workers is not None:
            from bertfeat.distributed import Processes

            return Processes(self.workers, devices=self.devices)
        return None

    def make_sharing(self) -> "Sharing | None":
        """The way the work is shared with other runs; None for a run that does all of it."""
        if self.shard is not None:
            from bertfeat.distributed import Shard

            return Shard.parse(self.shard)
        if self.join:
            from bertfeat.distributed import Join

            return Join() if self.lease is None else Join(lease=self.lease)
        return None


way_options = bundle(
    "ways",
    WaysToWork,
    ("workers", "devices", "engine", "address", "gpus_per_worker", "shard", "join", "lease"),
    option(
        "--workers",
        type=click.IntRange(1, 10_000),
        metavar="N",
        further=True,
        help="Worker processes, each with an encoder and its share of the cores.",
        show_default="this process",
    ),
    listed_option(
        "--devices", metavar="DEVICE[,DEVICE]", further=True, help="A worker process for each: cuda:0,cuda:1."
    ),
    option(
        "--engine",
        type=click.Choice(["ray"]),
        further=True,
        help="Where workers run: on a Ray cluster.",
        show_default="on this machine",
    ),
    option("--address", metavar="ADDRESS", further=True, help="The Ray cluster's; auto for the one of this machine."),
    option(
        "--gpus-per-worker",
        type=click.FloatRange(min=0),
        metavar="N",
        further=True,
        help="GPUs, or parts of one, of a Ray worker.",
        show_default="1 where the cluster has any",
    ),
    option("--shard", metavar="I/N", further=True, help="Make only every N-th part, from the I-th on (0 to N-1)."),
    option("--join", is_flag=True, further=True, help="Work on the folder together with other runs that join."),
    option(
        "--lease",
        type=click.FloatRange(min=1),
        metavar="SECONDS",
        further=True,
        help="With --join: after how long silence of another run its parts are taken over.",
        show_default="60",
    ),
)
"""Who does the work; the command gets ``ways``, a :class:`WaysToWork`."""
