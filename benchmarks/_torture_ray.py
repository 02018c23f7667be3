"""A Ray cluster of this machine, of one node or of two, whose actors and nodes can be killed."""

import contextlib
import logging
import os
import random
import signal
import tempfile
from typing import Any

from _torture_runs import children

_STORE_BYTES = 80 << 20


class Machines:
    """The nodes of a cluster; the first one stays."""

    def __init__(self, nodes: int) -> None:
        from ray.cluster_utils import Cluster

        logging.getLogger("ray").setLevel(logging.ERROR)
        self._nodes, self._cpus = nodes, 2 // nodes
        self._folder = tempfile.TemporaryDirectory(prefix="tt-ray-")  # short: there are sockets in it
        settings = {**self._settings, "include_dashboard": False, "temp_dir": self._folder.name}
        self._cluster: Any = Cluster(initialize_head=True, head_node_args=settings)
        self._others: list[Any] = []
        self.mend()

    @property
    def _settings(self) -> dict[str, object]:
        return {"num_cpus": self._cpus, "object_store_memory": _STORE_BYTES}

    @property
    def address(self) -> str:
        return str(self._cluster.address)

    def actors(self) -> list[int]:
        """The processes of bertfeat's actors on all nodes."""
        raylets = [self._raylet(node) for node in (self._cluster.head_node, *self._others)]
        return [pid for raylet in raylets for pid, command in children(raylet) if "_RayWorker" in command]

    def kill_node(self, draw: random.Random) -> bool:
        """Kill a node that is not the first one; False where there is none."""
        if not self._others:
            return False
        node = self._others.pop(draw.randrange(len(self._others)))
        for pid in [pid for pid, _ in children(self._raylet(node))]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._cluster.remove_node(node, allow_graceful=False)
        return True

    def mend(self) -> None:
        """Have as many nodes as in the beginning."""
        while len(self._others) < self._nodes - 1:
            self._others.append(self._cluster.add_node(**self._settings))

    def close(self) -> None:
        self._cluster.shutdown()
        self._folder.cleanup()

    @staticmethod
    def _raylet(node: Any) -> int:
        return int(node.all_processes["raylet"][0].process.pid)
