from .joined_folder import RunStatus as RunStatus, run_status as run_status
from .joining import Join as Join
from .processes import Processes as Processes
from .ray_cluster import RayCluster as RayCluster
