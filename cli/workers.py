"""The options of ``extract`` that choose who does the work: this process, others, or other machines."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import click

from bertfeat.options import Option, check_bounds

if TYPE_CHECKING:
    from bertfeat.core import Engine, Join


@dataclass(slots=True)
class WaysToWork:
    """The workers that do a run, and the share of it that they do."""

    workers: Annotated[
        int | None,
        Option(
            "Worker processes, each with its share of the cores.",
            default="this process",
            least=1,
            most=10_000,
        ),
    ] = None
    engine: Annotated[
        Literal["ray"] | None, Option("Where workers run: on a Ray cluster.", default="on this machine")
    ] = None
    address: Annotated[
        str | None, Option("The Ray cluster's; auto for the one of this machine.", metavar="ADDRESS")
    ] = None
    gpus_per_worker: Annotated[
        float | None,
        Option("GPUs, or parts of one, of a Ray worker.", default="1 where the cluster has any", metavar="N", least=0),
    ] = None
    join: Annotated[bool, Option("Work on the folder together with other runs that join.")] = False
    lease: Annotated[
        float | None,
        Option(
            "With --join: after how long silence of another run its parts are taken over.",
            default="60",
            metavar="SECONDS",
            least=1,
        ),
    ] = None

    devices: tuple[str, ...] = ()  # a worker for each, where --device names several

    def __post_init__(self) -> None:
        check_bounds(self)

    def check(self) -> None:
        """Refuse options that exclude each other."""
        of_ray = {"--address": self.address is not None, "--gpus-per-worker": self.gpus_per_worker is not None}
        for name, given in of_ray.items():
            if given and self.engine != "ray":
                raise click.UsageError(f"{name} is for --engine ray")
        if self.devices and self.engine == "ray":
            raise click.UsageError("several --device are of this machine; Ray places workers by --gpus-per-worker")
        if self.devices and self.workers is not None:
            raise click.UsageError("several --device and --workers: there is one worker for each device")
        if self.lease is not None and not self.join:
            raise click.UsageError("--lease is for --join")

    def check_device(self, kind: str) -> None:
        """Refuse Ray workers on GPUs if this machine has none: it chooses their precision and batches."""
        if self.engine == "ray" and self.gpus_per_worker and kind != "cuda":
            raise click.UsageError(
                "this machine has no GPU by which precision and batches of the workers could be chosen: "
                "start the run on one that has, for example as a Ray job"
            )

    @property
    def worker_count(self) -> int:
        """The number of workers that the options ask for, at least 1; without ``--workers``, Ray chooses its own."""
        return len(self.devices) or self.workers or 1

    def make_engine(self) -> "Engine | None":
        """The engine; None for this process alone."""
        if self.engine == "ray":
            from bertfeat.scale import RayCluster

            return RayCluster(self.address, workers=self.workers, gpus_per_worker=self.gpus_per_worker)
        if self.devices or self.workers is not None:
            from bertfeat.scale import Processes

            return Processes(self.workers, devices=self.devices)
        return None

    def make_join(self) -> "Join | bool":
        """The way in which a run joins others; False for one that does not."""
        if self.join and self.lease is not None:
            from bertfeat.core import Join

            return Join(lease=self.lease)
        return self.join
